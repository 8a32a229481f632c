package kubernetes

import (
	"time"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/workspace"
)

// LostAfter is how long the result of a job may be unreadable.
const LostAfter = lostAfter

// ReadEarlier moves the attempts to read the output of a Pod into the past.
func ReadEarlier(b backend.Backend, of workspace.ID, pod string, by time.Duration) {
	all := &b.(*Backend).unread
	missed, _ := all.Get(of, pod)
	missed.first, missed.next = missed.first.Add(-by), missed.next.Add(-by)
	all.Put(of, pod, missed)
}
