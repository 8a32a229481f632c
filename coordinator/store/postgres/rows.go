package postgres

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/guard"
)

// Select runs a query and returns its rows, each read by scan. The text doing begins its errors. A row that cannot be
// read affects no other row (SPEC 5, Failures): it is logged, counted and left out, or marked if its type is
// [Markable].
func Select[T any](ctx context.Context, db *DB, doing string, scan pgx.RowToFunc[T], sql string, args ...any) (
	[]T, error) {
	out, _, err := collect(ctx, db, doing, scan, sql, args)
	return out, err
}

// SelectAll is like [Select], for queries whose rows must all be read: it returns an [*UnreadableError] if a row cannot
// be read.
func SelectAll[T any](ctx context.Context, db *DB, doing string, scan pgx.RowToFunc[T], sql string, args ...any) (
	[]T, error) {
	out, left, err := collect(ctx, db, doing, scan, sql, args)
	if err == nil && left != nil {
		return nil, fmt.Errorf("%s: %w", doing, left)
	}
	return out, err
}

// SelectOne is [Select] for a query of one row. It returns [ErrNotFound] if there is no row, and an [*UnreadableError]
// if Select would leave the row out.
func SelectOne[T any](ctx context.Context, db *DB, doing string, scan pgx.RowToFunc[T], sql string, args ...any) (
	T, error) {
	found, left, err := collect(ctx, db, doing, scan, sql, args)
	switch {
	case err == nil && left != nil:
		err = fmt.Errorf("%s: %w", doing, left)
	case err == nil && len(found) == 0:
		err = ErrNotFound
	}
	if err != nil {
		var none T
		return none, err
	}
	return found[0], nil
}

// Exec runs a statement that returns nothing, and returns how many rows it affected. The text doing begins its errors.
func (db *DB) Exec(ctx context.Context, doing, sql string, args ...any) (rows int64, err error) {
	tag, err := db.pool.Exec(ctx, sql, args...)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", doing, err)
	}
	return tag.RowsAffected(), nil
}

// collect returns the readable rows, and the error of the last row that was left out.
func collect[T any](ctx context.Context, db *DB, doing string, scan pgx.RowToFunc[T], sql string, args []any) (
	out []T, left, err error) {
	rows, _ := db.pool.Query(ctx, sql, args...) // the rows have its error as well
	defer rows.Close()
	out = []T{}
	for rows.Next() {
		value, err := scan(noting{rows, func(e *UnreadableError) { db.log(doing, e) }})
		if bad := (*UnreadableError)(nil); errors.As(err, &bad) {
			left = err
			continue
		} else if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", doing, err)
		}
		out = append(out, value)
	}
	if err := rows.Err(); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", doing, err)
	}
	return out, left, nil
}

// log reports an unreadable row at most once a minute, because such a row may be read often.
func (db *DB) log(doing string, e *UnreadableError) {
	guard.Count(guard.Workspace)
	db.unreadable.Error("a row of the database cannot be read; only what it is about is affected",
		zap.Error(fmt.Errorf("%s: %w", doing, e)), guard.Stack(e))
}

// UnreadableError says which columns of a row cannot be read, and why.
type UnreadableError struct {
	// Row is the value of the column that identifies the row; empty when there is none.
	Row     string
	Columns []string
	Err     error
}

func (e *UnreadableError) Error() string {
	return fmt.Sprintf("row %s: reading %s: %v", e.Row, strings.Join(e.Columns, ", "), e.Err)
}

func (e *UnreadableError) Unwrap() error { return e.Err }

// Markable is a row that is useful even if some of its columns are unreadable: it is told why these have the zero
// value.
type Markable interface{ MarkUnreadable(err error) }

// RowToStruct is [pgx.RowToStructByName], but reads NULL as the zero value. If a column is unreadable, it marks the row
// if *T is [Markable], and otherwise returns an [*UnreadableError]. The following rows can still be read.
func RowToStruct[T any](row pgx.CollectableRow) (T, error) {
	from := &tolerant{CollectableRow: row}
	value, err := pgx.RowToStructByName[T](from)
	if err != nil || from.bad == nil {
		return value, err
	}
	if n, ok := row.(noting); ok {
		n.note(from.bad)
	}
	if m, ok := any(&value).(Markable); ok {
		m.MarkUnreadable(from.bad)
		return value, nil
	}
	return value, from.bad
}

// noting is a row that passes its unreadable columns to note.
type noting struct {
	pgx.Rows
	note func(*UnreadableError)
}

// tolerant is a row whose Scan continues after an unreadable column. pgx's own Scan would end the whole query.
type tolerant struct {
	pgx.CollectableRow
	bad *UnreadableError
}

// Scan skips the fields whose columns are NULL or unreadable: in a new struct they are zero.
func (r *tolerant) Scan(fields ...any) error {
	values, columns := r.RawValues(), r.FieldDescriptions()
	if len(fields) != len(values) {
		return fmt.Errorf("reading %d columns into %d fields", len(values), len(fields))
	}
	types := typesOf(r.CollectableRow)
	for at := 0; at < len(fields); at++ {
		err := guard.Recover(func() error {
			for ; at < len(fields); at++ {
				if values[at] == nil || fields[at] == nil {
					continue
				}
				if err := types.Scan(columns[at].DataTypeOID, columns[at].Format, values[at], fields[at]); err != nil {
					return err
				}
			}
			return nil
		})
		if err == nil {
			break
		}
		reflect.ValueOf(fields[at]).Elem().SetZero() // it may be half filled
		if r.bad == nil {
			r.bad = &UnreadableError{Err: err}
		}
		r.bad.Columns = append(r.bad.Columns, columns[at].Name)
	}
	if r.bad == nil {
		return nil
	}
	for i, c := range columns {
		if c.Name == "id" || c.Name == "workspace_id" {
			_ = types.Scan(c.DataTypeOID, c.Format, values[i], &r.bad.Row)
			break
		}
	}
	return nil
}

// typesOf returns the types of the row's connection.
func typesOf(row pgx.CollectableRow) *pgtype.Map {
	if of, ok := row.(interface{ Conn() *pgx.Conn }); ok && of.Conn() != nil {
		return of.Conn().TypeMap()
	}
	return pgtype.NewMap()
}
