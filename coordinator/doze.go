package coordinator

import (
	"context"
	"time"

	"github.com/codehub/gateway/coordinator/metrics"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
)

// thawTimeout is how long this process tries to wake a workspace that dozes while it is used.
const thawTimeout = 30 * time.Second

// wakeDozing wakes a workspace that is being used and dozes. It is called by the hot path, and does
// not block.
func (c *Coordinator) wakeDozing(id workspace.ID) {
	if e, known := c.routes.Lookup(id); known && e.State().Dozes() {
		c.activator.Wake(context.Background(), id, e, thawTimeout, metrics.Program)
	}
}

// imprecise is by how much the times of one use may differ, here and in the database.
const imprecise = 2 * time.Second

// dozes wakes what begins to doze although it was used through this process meanwhile: a use is known
// here before it is in the database.
type dozes struct{ *Coordinator }

// Changed is called by the feed, after the routes.
func (c dozes) Changed(rows []store.Route, _ int64) {
	for i := range rows {
		if id := rows[i].ID; !rows[i].DozeAt.IsZero() && c.activity.UsedWithin(id, time.Duration(c.doze.Load())-imprecise) {
			c.wakeDozing(id)
		}
	}
}

// Reset does nothing: what was used is written to the database, and ends there what dozes.
func (c dozes) Reset(int64) {}
