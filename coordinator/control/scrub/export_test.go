package scrub

import "github.com/codehub/gateway/coordinator/store/postgres"

// Lead makes the runner write under f without its loop.
func (r *Runner) Lead(f postgres.Fence) { r.fence = f }

// Forget makes the numbers outdated.
func (r *Runner) Forget() { r.health.Store(nil) }
