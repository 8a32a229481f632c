// Package census counts the workspaces for the metrics. It owns how often that happens, and how often the
// counts are compared with the workspaces. It must not decide anything by the numbers, which may be old.
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
	// recountInterval is the time between two comparisons with all workspaces in one term. Each term begins with one.
	recountInterval = 24 * time.Hour
)

// Store is the database as the census uses it. *store.Store implements it.
type Store interface {
	// Count counts the workspaces, by what triggers have counted.
	Count(ctx context.Context) (store.Counts, error)
	// Recount compares that with the workspaces, puts it right, and returns how much was wrong.
	Recount(ctx context.Context) (wrong int64, err error)
}

// Census knows how many workspaces there are. The leader runs one.
type Census struct {
	store   Store
	log     *zap.Logger
	loop    *periodic.Loop
	counts  atomic.Pointer[store.Counts] // nil where this process does not lead
	recount time.Time                    // when the next comparison is due
}

// New returns a census. It performs no I/O.
func New(s Store, cycles *metrics.Cycles, log *zap.Logger) *Census {
	c := &Census{store: s, log: log}
	c.loop = periodic.New("counting workspaces", interval, cycles.Counting("census", c.count), log)
	return c
}

// Run counts at once and then at every interval, until ctx ends, and returns nil. One term follows the
// other: Run MUST NOT be called again before it has returned.
func (c *Census) Run(ctx context.Context) error {
	defer c.counts.Store(nil)
	c.recount = time.Time{}
	return c.loop.RunNow(ctx)
}

// Counts returns the last numbers, or nil where they are not known: where this process does not lead.
func (c *Census) Counts() *store.Counts { return c.counts.Load() }

// count compares the counts with the workspaces when that is due, and reads them. They are read even if they cannot be
// compared, which is tried again after as long.
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
