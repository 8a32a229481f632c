package ttl

import (
	"time"

	"github.com/codehub/gateway/coordinator/store/postgres"
)

// SetClock makes the runner measure time by another clock.
func (r *Runner) SetClock(now func() time.Time) { r.now = now }

// SetFence begins a term without [Runner.Run].
func (r *Runner) SetFence(f postgres.Fence) { r.fence = f }
