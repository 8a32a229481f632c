package predict

import "context"

// Tick does what the loop does at an interval.
func (p *Predictor) Tick(ctx context.Context) error { return p.tick(ctx) }
