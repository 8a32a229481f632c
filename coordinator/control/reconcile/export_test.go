package reconcile

// RestoreMin is restoreMin.
const RestoreMin = restoreMin

// Loops are the loops that run. What they hold may be looked at when they have ended.
func (c *Controller) Loops() (all []any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for l := range c.loops {
		all = append(all, l)
	}
	return all
}
