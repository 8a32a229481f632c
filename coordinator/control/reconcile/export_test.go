package reconcile

// ProgressMin is progressMin.
const ProgressMin = progressMin

// Loops are the loops that run. What they hold may be looked at when they have ended.
func (c *Controller) Loops() (all []any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for l := range c.loops {
		all = append(all, l)
	}
	return all
}
