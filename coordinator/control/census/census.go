// Package census counts the workspaces for the metrics. It decides how often to count, and how often to compare the
// counts with the workspaces. It must not base decisions on the numbers, which may be old.
package census

import (
	"context"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/internal/periodic"
	"github.com/codehub/gateway/coordinator/logkey"
	"github.com/codehub/gateway/coordinator/metrics"
	"github.com/codehub/gateway/coordinator/store"
)

const (
	// interval is the time between two counts.
	interval = 15 * time.Second
	// recountInterval is the time between two comparisons of the counts with all workspaces in one term. Each term
	// begins with a comparison.
	recountInterval = 24 * time.Hour
)

// Store is the database as the census uses it. *store.Store implements it.
type Store interface {
	// Count returns the counts that the triggers maintain.
	Count(ctx context.Context) (store.Counts, error)
	// Recount compares these counts with the workspaces, corrects them, and returns how many were wrong.
	Recount(ctx context.Context) (wrong int64, err error)
}

// Census holds the numbers of workspaces. The leader runs one.
type Census struct {
	store   Store
	log     *zap.Logger
	loop    *periodic.Loop
	counts  atomic.Pointer[store.Counts] // nil unless this process leads
	recount time.Time                    // when the next comparison is due
}

// New returns a census. It performs no I/O.
func New(s Store, cycles *metrics.Cycles, log *zap.Logger) *Census {
	c := &Census{store: s, log: log}
	c.loop = periodic.New("counting workspaces", interval, cycles.Counting("census", c.count), log)
	return c
}

// Run counts immediately and then at every interval, until ctx ends, and returns nil. The terms do not overlap:
// Run MUST NOT be called again before it has returned.
func (c *Census) Run(ctx context.Context) error {
	defer c.counts.Store(nil)
	c.recount = time.Time{}
	return c.loop.RunNow(ctx)
}

// Counts returns the last numbers, or nil if they are unknown, for example because this process does not lead.
func (c *Census) Counts() *store.Counts { return c.counts.Load() }

// count reads the counts; if a comparison with the workspaces is due, it does that first. It reads the counts even if
// the comparison failed. The next comparison then takes place at its usual time.
func (c *Census) count(ctx context.Context) error {
	if now := time.Now(); !now.Before(c.recount) {
		c.recount = now.Add(recountInterval)
		switch wrong, err := c.store.Recount(ctx); {
		case err != nil && ctx.Err() == nil:
			c.log.Warn("the counts of workspaces in the metrics could not be compared with the workspaces", zap.Error(err))
		case wrong > 0:
			c.log.Info("the counts of workspaces in the metrics were wrong, as after a backup was loaded, and are right again",
				zap.Int64(logkey.Workspaces, wrong))
		}
	}
	counts, err := c.store.Count(ctx)
	if err == nil {
		c.counts.Store(&counts)
	}
	return err
}
