package postgres

import (
	"context"
	"fmt"
	"time"
)

// Now returns the time of the database's clock.
func (db *DB) Now(ctx context.Context) (now time.Time, err error) {
	if err := db.pool.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&now); err != nil {
		return now, fmt.Errorf("asking PostgreSQL for the time: %w", err)
	}
	return now, nil
}
