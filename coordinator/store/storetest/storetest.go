// Package storetest is the PostgreSQL harness of the tests. It gives each test a migrated database, and functions that
// read and write rows without the store. Only tests may import it.
package storetest

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/accounts"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/store/postgres/postgrestest"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// migrated returns the URL of a database for [Migrated].
var migrated = postgrestest.Migrated(func(dsn string) (*store.Store, error) {
	return store.Open(dsn, postgres.Options{})
})

// Migrated returns the URL of a migrated database that no other test uses.
func Migrated(t testing.TB) string {
	t.Helper()
	return migrated(t)
}

// Open returns a store on such a database. It is closed at the end of the test.
func Open(t testing.TB) *store.Store {
	t.Helper()
	return open(t, Migrated(t))
}

// Reopen returns a second store on the database of s, as if in another process.
func Reopen(t testing.TB, s *store.Store) *store.Store {
	t.Helper()
	return open(t, s.ConnConfig().ConnString())
}

func open(t testing.TB, dsn string) *store.Store {
	t.Helper()
	s, err := store.Open(dsn, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// AddUser adds a user with a unique name and returns the id.
func AddUser(t testing.TB, s *store.Store) string {
	t.Helper()
	u, created, err := accounts.New(s.DB).AddUser(t.Context(), "user-"+uuid.NewString(), "hash", "user")
	if err != nil || !created {
		t.Fatalf("adding a user: created %v, %v", created, err)
	}
	return u.ID
}

// Row returns the row of a workspace.
func Row(t testing.TB, s *store.Store, id workspace.ID) workspace.Workspace {
	t.Helper()
	found, err := s.Workspaces(t.Context(), []workspace.ID{id})
	if err != nil || len(found) != 1 {
		t.Fatalf("reading workspace %s: %d rows, %v", id, len(found), err)
	}
	return found[0]
}

// Database is a test's database: any of the types that hold its queries.
type Database interface{ ConnConfig() *pgx.ConnConfig }

// Set changes columns of a workspace as the controller would: "phase = 'RUNNING'".
func Set(t testing.TB, s Database, id workspace.ID, columns string) {
	t.Helper()
	Exec(t, s, `UPDATE workspaces SET `+columns+` WHERE id = $1`, string(id))
}

// Pool returns the test's own connections to the database of s, for transactions that hold a lock while the
// store waits for it.
func Pool(t testing.TB, s Database) *pgxpool.Pool {
	t.Helper()
	own := s.ConnConfig()
	cfg, err := pgxpool.ParseConfig(own.ConnString())
	if err != nil {
		t.Fatal(err)
	}
	cfg.ConnConfig.RuntimeParams = own.RuntimeParams // the session declares this release, like the store's
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// connect returns a connection that the caller must close. Helpers do not use the store's own connections,
// which are reserved for the store.
func connect(t testing.TB, s Database) (conn *pgx.Conn, closeIt func()) {
	t.Helper()
	cfg := s.ConnConfig() // parsed for a pool: the address may contain settings of a pool
	cfg.Tracer = nil
	conn, err := pgx.ConnectConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return conn, func() { conn.Close(context.WithoutCancel(t.Context())) }
}

// Exec executes a statement.
func Exec(t testing.TB, s Database, sql string, args ...any) {
	t.Helper()
	conn, done := connect(t, s)
	defer done()
	if _, err := conn.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// Value returns the one value that a query selects.
func Value[T any](t testing.TB, s Database, sql string, args ...any) T {
	t.Helper()
	conn, done := connect(t, s)
	defer done()
	return value[T](t, conn, sql, args...)
}

func value[T any](t testing.TB, conn *pgx.Conn, sql string, args ...any) T {
	t.Helper()
	var v T
	if err := conn.QueryRow(t.Context(), sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// AwaitLock returns when a statement in the database of s waits for a lock.
func AwaitLock(t testing.TB, s Database) {
	t.Helper()
	conn, done := connect(t, s)
	defer done()
	wait.Until(t, "a statement waits for a lock", func() bool {
		return value[bool](t, conn, `SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND pid IN (
			SELECT pid FROM pg_stat_activity WHERE datname = current_database()))`)
	})
}
