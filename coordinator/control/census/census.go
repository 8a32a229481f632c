// Package census counts the workspaces for the metrics. It owns how often that happens. It must not
// decide anything by the numbers, which may be a minute old.
package census

import (
	"context"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/internal/periodic"
	"github.com/codehub/gateway/coordinator/metrics"
	"github.com/codehub/gateway/coordinator/store"
)

const (
	// interval is the least time between two counts.
	interval = 15 * time.Second
	// share is which part of the time counting may take, one in so many. With a million workspaces
	// a count takes some tenths of a second.
	share = 200
)

// Store is the database as the census uses it. *store.Store implements it.
type Store interface {
	// Count counts the workspaces.
	Count(ctx context.Context) (store.Counts, error)
}

// Census knows how many workspaces there are. The leader runs one.
type Census struct {
	store  Store
	loop   *periodic.Loop
	counts atomic.Pointer[store.Counts] // nil where this process does not lead
}

// New returns a census. It performs no I/O.
func New(s Store, cycles *metrics.Cycles, log *zap.Logger) *Census {
	c := &Census{store: s}
	c.loop = periodic.New("counting workspaces", interval, cycles.Counting("census", c.count), log)
	return c
}

// Run counts at once and then at every interval, until ctx ends, and returns nil. One term follows the
// other: Run MUST NOT be called again before it has returned.
func (c *Census) Run(ctx context.Context) error {
	defer c.counts.Store(nil)
	c.loop.Wake()
	c.loop.Run(ctx)
	return nil
}

// Counts returns the last numbers, or nil where they are not known: where this process does not lead.
func (c *Census) Counts() *store.Counts { return c.counts.Load() }

// count counts, and puts the next count off in proportion.
func (c *Census) count(ctx context.Context) error {
	began := time.Now()
	counts, err := c.store.Count(ctx)
	c.loop.SetInterval(max(interval, share*time.Since(began)))
	if err == nil {
		c.counts.Store(&counts)
	}
	return err
}
