// Package history deletes what is kept for a time only: old transitions of the workspaces (SPEC 4), and old
// entries of the audit (SPEC 13).
package history

import (
	"context"
	"errors"
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

// Kept are rows of one table that are kept for a time.
type Kept struct {
	// For returns for how long; 0 is for good.
	For func() time.Duration
	// Trim deletes at most limit rows that are older, and returns how many.
	Trim func(ctx context.Context, olderThan time.Duration, limit int) (deleted int64, err error)
}

// Trimmer deletes what is too old. It is safe for concurrent use.
type Trimmer struct {
	kept []Kept
	loop *periodic.Loop
}

// New returns a trimmer. It performs no I/O.
func New(log *zap.Logger, kept ...Kept) *Trimmer {
	t := &Trimmer{kept: kept}
	t.loop = periodic.New("trimming the history and the audit", interval, t.trim, log)
	return t
}

// Run trims at once and then every interval, until ctx ends, and returns nil. The leader runs it.
func (t *Trimmer) Run(ctx context.Context) error {
	t.loop.Wake()
	t.loop.Run(ctx)
	return nil
}

// trim deletes what is too old. One table that fails does not keep another one from being trimmed.
func (t *Trimmer) trim(ctx context.Context) error {
	var errs []error
	for _, k := range t.kept {
		errs = append(errs, k.trim(ctx))
	}
	return errors.Join(errs...)
}

// trim deletes in batches, so that no statement is long.
func (k Kept) trim(ctx context.Context) error {
	age := k.For()
	for age > 0 && ctx.Err() == nil {
		deleted, err := k.Trim(ctx, age, batch)
		if err != nil || deleted < batch {
			return err
		}
	}
	return nil
}
