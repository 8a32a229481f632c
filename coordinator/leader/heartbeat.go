package leader

import (
	"sync"
	"time"
)

// heartbeat remembers when the server was last asked something that it answered.
type heartbeat struct {
	mu   sync.Mutex
	last time.Time
}

// beat records a question asked at t, once it has been answered. The time of the
// question counts, not that of the answer, which may have been delayed.
func (h *heartbeat) beat(t time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last = t
}

// within reports whether the last beat is at most d ago, by the monotonic and by
// the wall clock: the former stands still while a machine is suspended.
func (h *heartbeat) within(d time.Duration) bool {
	h.mu.Lock()
	last := h.last
	h.mu.Unlock()
	if last.IsZero() {
		return false
	}
	now := time.Now()
	return now.Sub(last) <= d && now.Round(0).Sub(last.Round(0)) <= d
}

// deadline is the time at which a lease of length d ends.
func (h *heartbeat) deadline(d time.Duration) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last.Add(d)
}
