package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Select runs a query and returns its rows, each read by scan. doing begins its errors.
func Select[T any](ctx context.Context, db *DB, doing string, scan pgx.RowToFunc[T], sql string, args ...any) (
	[]T, error) {
	rows, _ := db.pool.Query(ctx, sql, args...) // the rows have its error as well
	out, err := pgx.CollectRows(rows, scan)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	return out, nil
}

// SelectOne is [Select] for a query of one row. It returns [ErrNotFound] if there is none.
func SelectOne[T any](ctx context.Context, db *DB, doing string, scan pgx.RowToFunc[T], sql string, args ...any) (
	T, error) {
	found, err := Select(ctx, db, doing, scan, sql, args...)
	if err == nil && len(found) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		var none T
		return none, err
	}
	return found[0], nil
}

// RowToStruct is [pgx.RowToStructByName], but reads NULL as the zero value.
func RowToStruct[T any](row pgx.CollectableRow) (T, error) {
	return pgx.RowToStructByName[T](withoutNulls{row})
}

type withoutNulls struct{ pgx.CollectableRow }

// Scan leaves out the fields whose columns are NULL: in a new struct they are zero.
func (r withoutNulls) Scan(fields ...any) error {
	for i, v := range r.RawValues() {
		if v == nil {
			fields[i] = nil
		}
	}
	return r.CollectableRow.Scan(fields...)
}
