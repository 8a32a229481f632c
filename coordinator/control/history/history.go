// Package history deletes records whose time has passed: old transitions of the workspaces (SPEC 4), and old entries of
// the audit (SPEC 13).
package history

import (
	"context"
	"errors"
	"time"
)

// Retention is how long transitions are kept.
const Retention = 30 * 24 * time.Hour

// Interval is the time between two calls of [Trim] by the leader.
const Interval = time.Hour

// batch is how many rows one statement deletes.
const batch = 1000

// Kept describes rows of one table that are kept for a limited time.
type Kept struct {
	// For returns how long the rows are kept; 0 means forever.
	For func() time.Duration
	// Trim deletes at most limit rows that are older than olderThan, and returns how many it has deleted.
	Trim func(ctx context.Context, olderThan time.Duration, limit int) (deleted int64, err error)
}

// Trim deletes expired rows. A failure in one table does not stop the others.
func Trim(ctx context.Context, kept ...Kept) error {
	var errs []error
	for _, k := range kept {
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
