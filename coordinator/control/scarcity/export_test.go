package scarcity

import "context"

// Look is one look at the memory.
func (r *Runner) Look(ctx context.Context) error { return r.look(ctx) }

// Wake has a runner that runs look now.
func (r *Runner) Wake() { r.loop.Wake() }
