package events

// Dropped returns how many notifications the publisher has dropped.
func (p *Publisher) Dropped() int64 { return p.dropped.Load() }

// Subscribers returns how many streams are open.
func (h *Hub) Subscribers() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, streams := range h.users {
		n += len(streams)
	}
	return n
}
