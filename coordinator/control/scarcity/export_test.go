package scarcity

import "context"

// Look looks at the memory once.
func (r *Runner) Look(ctx context.Context) error { return r.look(ctx) }

// Wake makes a running runner look now.
func (r *Runner) Wake() { r.loop.Wake() }
