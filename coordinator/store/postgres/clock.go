package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// Now returns the time of the database's clock.
func (db *DB) Now(ctx context.Context) (time.Time, error) {
	return SelectOne(ctx, db, "asking PostgreSQL for the time", pgx.RowTo[time.Time], "SELECT clock_timestamp()")
}
