package coordinator

import (
	"time"

	"github.com/codehub/gateway/coordinator/store"
)

// imprecise is the greatest difference between the time of a use as this process knows it and as the database records
// it.
const imprecise = 2 * time.Second

// unwritten is the greatest age of a use that is not in the database yet.
const unwritten = time.Minute

// dozes resumes a workspace that begins to doze although it was just used through this process. This process knows of a
// use before the database does, so the leader may not have known of it.
type dozes struct{ *Coordinator }

// unknownFor returns an age. When the leader let a workspace doze, it may not have known of a use that is more recent
// than that. It depends on the doze setting of this process. If the setting is 0, this process lets no workspace doze,
// but the leader may have another setting.
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
