// Package postgrestest helps the tests of package postgres, and of the packages above it, to run statements and to
// receive notifications. It must not import these packages: otherwise their own tests could not use it. Only tests may
// import it.
package postgrestest

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/codehub/gateway/coordinator/devenv"
)

// Migrated returns a function that gives each test the URL of its own migrated database, which has its own identity.
// The migrations run once per test binary. open opens a database with the package under test.
func Migrated[D interface {
	Migrate(ctx context.Context) error
	Close()
}](open func(dsn string) (D, error)) func(t testing.TB) string {
	database := devenv.CopiedPostgreSQL(func(ctx context.Context, dsn string) error {
		db, err := open(dsn)
		if err != nil {
			return err
		}
		defer db.Close()
		return db.Migrate(ctx)
	})
	return func(t testing.TB) string {
		t.Helper()
		dsn := database(t)
		conn, err := pgx.Connect(t.Context(), dsn)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(t.Context())
		if _, err := conn.Exec(t.Context(),
			"UPDATE system_identity SET identity = gen_random_uuid()::text WHERE resource = 'database'"); err != nil {
			t.Fatal(err)
		}
		return dsn
	}
}

// Exec executes a statement. It has no time limit, because many tests create thousands of rows.
func Exec(t testing.TB, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	if _, err = conn.Exec(t.Context(), "SET statement_timeout = 0"); err == nil {
		_, err = conn.Exec(t.Context(), sql, args...)
		_, reset := conn.Exec(t.Context(), "RESET statement_timeout")
		err = errors.Join(err, reset)
	}
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// Value returns the only value that a query selects.
func Value[T any](t testing.TB, pool *pgxpool.Pool, sql string, args ...any) T {
	t.Helper()
	var v T
	if err := pool.QueryRow(t.Context(), sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// Listening calls listen, waits until it is connected, and returns its notifications and, at the end, its error.
func Listening[N any](t testing.TB, listen func(ctx context.Context, connected func(), on func(N)) error) (
	<-chan N, <-chan error) {
	t.Helper()
	received, ended, connected := make(chan N, 100), make(chan error, 1), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		ended <- listen(ctx, func() { close(connected) }, func(n N) { received <- n })
	}()
	t.Cleanup(cancel)
	select {
	case <-connected:
	case err := <-ended:
		t.Fatal(err)
	}
	return received, ended
}

// markID identifies the notification that Until sends after all others.
const markID = "00000000-0000-0000-0000-000000000000"

// Until sends a notification and returns all notifications that arrive before it; workspaceOf returns the workspace
// that a notification is about.
func Until[N any, ID ~string](t testing.TB, pool *pgxpool.Pool, received <-chan N, workspaceOf func(N) ID) []N {
	t.Helper()
	Exec(t, pool, `SELECT pg_notify('ws_wake', '{"id":"`+markID+`"}')`)
	var out []N
	for n := range received {
		if workspaceOf(n) == markID {
			break
		}
		out = append(out, n)
	}
	return out
}

// Matches returns the text of the first group in every match of pattern, sorted and without duplicates.
func Matches(pattern, text string) []string {
	var out []string
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		out = append(out, m[1])
	}
	slices.Sort(out)
	return slices.Compact(out)
}
