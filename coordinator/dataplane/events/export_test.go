package events

// Settled returns the revision up to which the feed has passed on everything.
func (p *Publisher) Settled() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.settled
}

// Overflowed reports whether more changes came than the queue holds.
func (p *Publisher) Overflowed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.gap
}

// Cursor returns the revision up to which everything is published.
func (p *Publisher) Cursor() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cursor
}
