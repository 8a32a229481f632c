package activity

// Len returns how many workspaces have a slot.
func (b *Buffer) Len() int {
	n := 0
	for i := range b.parts {
		p := &b.parts[i]
		p.mu.RLock()
		n += len(p.slots)
		p.mu.RUnlock()
	}
	return n
}
