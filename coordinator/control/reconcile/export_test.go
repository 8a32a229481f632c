package reconcile

// RestoreMin is restoreMin.
const RestoreMin = restoreMin

// Loops returns the running loops. Their contents may be read after they have ended.
func (c *Controller) Loops() (all []any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for l := range c.loops {
		all = append(all, l)
	}
	return all
}
