package leader

import (
	"sync"
	"time"

	"github.com/codehub/gateway/coordinator/clock"
)

// heartbeat remembers the last request that the server has answered.
type heartbeat struct {
	mu   sync.Mutex
	last clock.Moment
}

// beat records a request sent at t, once it has been answered. The time of the request counts, and not the time of the
// answer, which may have been delayed.
func (h *heartbeat) beat(t clock.Moment) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last = t
}

// within reports whether the last beat is at most d ago. Of this process's clocks, the one that shows the longer time
// counts, because the monotonic clock does not count the time during which the machine was suspended.
func (h *heartbeat) within(d time.Duration) bool {
	h.mu.Lock()
	last := h.last
	h.mu.Unlock()
	return !last.IsZero() && last.Elapsed() <= d
}

// deadline is the time at which a lease of length d ends.
func (h *heartbeat) deadline(d time.Duration) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return time.Now().Add(d - h.last.Elapsed())
}
