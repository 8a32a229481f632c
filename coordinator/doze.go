package coordinator

import (
	"time"

	"github.com/codehub/gateway/coordinator/store"
)

// imprecise is by how much the times of one use may differ, here and in the database.
const imprecise = 2 * time.Second

// unwritten is how old a use may be that is not in the database yet.
const unwritten = time.Minute

// dozes wakes what begins to doze although it was used through this process meanwhile: a use is known
// here before it is in the database.
type dozes struct{ *Coordinator }

// unknownFor is how young a use is that the leader did not know of when it let a workspace doze that was not used for doze, by the
// settings of this process. With 0 nothing dozes by these, but something may by the leader's.
func unknownFor(doze time.Duration) time.Duration {
	if doze <= 0 {
		return unwritten
	}
	return max(doze-imprecise, 0)
}

// Changed is called by the feed, after the routes.
func (c dozes) Changed(rows []store.Route, _ int64) {
	within := unknownFor(time.Duration(c.doze.Load()))
	for i := range rows {
		if rows[i].DozeAt.IsZero() {
			continue
		}
		if by, used := c.Activity.UsedWithin(rows[i].ID, within); used {
			c.Activator.Used(rows[i].ID, by)
		}
	}
}

// Reset does nothing: what was used is written to the database, and ends there what dozes.
func (c dozes) Reset(int64) {}
