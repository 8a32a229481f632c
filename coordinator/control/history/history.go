// Package history deletes old transitions from the history of the workspaces (SPEC 4).
package history

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/internal/periodic"
)

// Retention is for how long transitions are kept.
const Retention = 30 * 24 * time.Hour

const (
	// interval is the time between two rounds.
	interval = time.Hour
	// batch is how many rows one statement deletes.
	batch = 1000
)

// Store is the database as the trimmer uses it. *store.Store implements it.
type Store interface {
	// TrimHistory deletes at most limit transitions that are older, and returns how many.
	TrimHistory(ctx context.Context, olderThan time.Duration, limit int) (deleted int64, err error)
}

// Trimmer deletes what is too old. It is safe for concurrent use.
type Trimmer struct {
	store Store
	loop  *periodic.Loop
}

// New returns a trimmer. It performs no I/O.
func New(s Store, log *zap.Logger) *Trimmer {
	t := &Trimmer{store: s}
	t.loop = periodic.New("trimming the history", interval, t.trim, log)
	return t
}

// Run trims at once and then every interval, until ctx ends, and returns nil. The leader runs it.
func (t *Trimmer) Run(ctx context.Context) error {
	t.loop.Wake()
	t.loop.Run(ctx)
	return nil
}

// trim deletes what is too old, in batches, so that no statement is long.
func (t *Trimmer) trim(ctx context.Context) error {
	for ctx.Err() == nil {
		deleted, err := t.store.TrimHistory(ctx, Retention, batch)
		if err != nil || deleted < batch {
			return err
		}
	}
	return nil
}
