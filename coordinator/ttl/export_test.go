package ttl

import "time"

// SetClock makes the runner measure time by another clock.
func (r *Runner) SetClock(now func() time.Time) { r.now = now }
