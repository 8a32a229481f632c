package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Fence identifies the leader's term under which a write is made (SPEC 5).
type Fence struct {
	// Lock is the lock_name of the row in system_locks.
	Lock string
	// Epoch is the number of the term. The row holds it until the next leader takes over.
	Epoch int64
}

// Holds reports whether f's epoch is still the newest of its lock. This check precedes destructive actions
// (SPEC 5); writes contain the fence themselves.
func (db *DB) Holds(ctx context.Context, f Fence) (bool, error) {
	return SelectOne(ctx, db, "checking the fence of "+f.Lock, pgx.RowTo[bool],
		`SELECT EXISTS (SELECT FROM system_locks WHERE lock_name = $1 AND epoch = $2)`, f.Lock, f.Epoch)
}
