package coordinator

import (
	"time"

	"github.com/codehub/gateway/coordinator/store"
)

// imprecise is how much the time of a use may differ between this process and the database.
const imprecise = 2 * time.Second

// unwritten is the greatest age of a use that is not in the database yet.
const unwritten = time.Minute

// dozes wakes a workspace that begins to doze although it was just used through this process, which knows of a use
// before the database does.
type dozes struct{ *Coordinator }

// unknownFor returns how recent a use must be for the leader not to have known of it when it let the workspace doze. It
// depends on the doze setting of this process. If that is 0, this process lets nothing doze, but the leader may have
// another setting.
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

// Reset does nothing: the recorded uses are written to the database, which ends the dozes there.
func (c dozes) Reset(int64) {}
