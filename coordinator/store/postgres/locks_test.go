package postgres

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/tern/v2/migrate"
)

// before010 is the schema of release 0.1.0.
const before010 = 13

// at010 returns a database that has the schema of release 0.1.0 and one workspace, and a channel with the reported
// waits.
func at010(t *testing.T) (*DB, chan LockWait) {
	t.Helper()
	db := empty(t)
	if err := db.migrate(t.Context(), embedded(t, before010)); err != nil {
		t.Fatal(err)
	}
	exec(t, db, `WITH u AS (INSERT INTO users (username) VALUES ('ann') RETURNING id)
		INSERT INTO workspaces (owner_user_id, name, instance_backend, storage_backend, home_store_key) SELECT id, 'notes', 'docker', 'docker', 'home' FROM u`)
	waits := make(chan LockWait, 100)
	db.waiting = func(w LockWait) { waits <- w }
	return db, waits
}

// hold runs these statements in a transaction of another session, and returns a function that ends it.
func hold(t *testing.T, db *DB, statements string) (end func()) {
	t.Helper()
	config := db.ConnConfig()
	config.RuntimeParams["application_name"] = "pg_dump"
	config.RuntimeParams["idle_in_transaction_session_timeout"] = "0"
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	for _, sql := range []string{"BEGIN", statements} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	return func() {
		if _, err := conn.Exec(t.Context(), "COMMIT"); err != nil {
			t.Error(err)
		}
	}
}

// TestAMigrationKeepsNobodyWaiting: another session holds a lock, of each kind in turn. Meanwhile concurrent statements
// are answered, and the migration names that session. Once the lock is free, the migration finishes.
func TestAMigrationKeepsNobodyWaiting(t *testing.T) {
	for name, c := range map[string]struct {
		holds   string
		command string
		// writes means that there are concurrent writes, too.
		writes bool
	}{
		"a backup":                 {"LOCK TABLE workspaces IN ACCESS SHARE MODE", "LOCK", true},
		"a backup of all":          {"LOCK TABLE users, sessions, workspaces, archives, workspace_history IN ACCESS SHARE MODE", "LOCK", true},
		"a long query":             {"SELECT count(*) FROM workspaces", "SELECT", true},
		"a writer":                 {"UPDATE workspaces SET memo = 'secret' WHERE false", "UPDATE", true},
		"a locked row":             {"SELECT FROM workspaces FOR UPDATE", "SELECT", false},
		"an index that is made":    {"LOCK TABLE workspace_history IN SHARE MODE", "LOCK", true},
		"another process migrates": {"SELECT pg_advisory_xact_lock(9628173550095224)", "SELECT", true},
		"the version":              {"SELECT FROM codehub_schema_version FOR UPDATE", "SELECT", true},
		"the table of migrations":  {"LOCK TABLE schema_migrations IN SHARE MODE", "LOCK", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, waits := at010(t)
			id := value[string](t, db, `SELECT id FROM workspaces`)
			release := hold(t, db, c.holds)
			migrated := make(chan error, 1)
			go func() { migrated <- db.Migrate(t.Context()) }()
			beside := func() {
				t.Helper()
				// This is longer than the limit of the gateway's own statements. On a busy machine a second is
				// short.
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				var found string
				if err := db.pool.QueryRow(ctx, `SELECT id FROM workspaces WHERE id = $1`, id).Scan(&found); err != nil {
					t.Fatalf("reading beside the migration: %v", err)
				}
				if !c.writes {
					return
				}
				if _, err := db.pool.Exec(ctx, `UPDATE workspaces SET memo = 'beside' WHERE id = $1`, id); err != nil {
					t.Fatalf("writing beside the migration: %v", err)
				}
			}
			var told LockWait
			for told.For == 0 {
				beside()
				select {
				case told = <-waits:
				case err := <-migrated:
					t.Fatalf("it has not waited: %v", err)
				default:
				}
			}
			if len(told.Holders) != 1 || told.Holders[0].Application != "pg_dump" || told.Holders[0].Command != c.command ||
				told.Holders[0].PID == 0 || told.Holders[0].Since.IsZero() || told.Holders[0].State != "idle in transaction" {
				t.Errorf("it waits for %+v", told)
			}
			if text := told.String(); strings.Contains(text, "secret") || !strings.Contains(text, "application pg_dump") {
				t.Errorf("it says %q", text)
			}
			select {
			case err := <-migrated:
				t.Fatalf("it did not wait: %v", err)
			default:
			}
			beside()
			release()
			if err := <-migrated; err != nil {
				t.Fatal(err)
			}
			if v := value[int](t, db, `SELECT version FROM `+versionTable); v != knownSchema {
				t.Errorf("the schema is %d", v)
			}
		})
	}
}

// TestAMigrationThatWaitsEndsWithItsContext: when its context ends, a waiting migration names the sessions that it
// waited for, and has changed nothing.
func TestAMigrationThatWaitsEndsWithItsContext(t *testing.T) {
	db, waits := at010(t)
	release := hold(t, db, "LOCK TABLE workspaces IN ACCESS SHARE MODE")
	ctx, cancel := context.WithCancel(t.Context())
	migrated := make(chan error, 1)
	go func() { migrated <- db.Migrate(ctx) }()
	<-waits
	cancel()
	if err := <-migrated; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	release()
	if v := value[int](t, db, `SELECT version FROM `+versionTable); v != before010 {
		t.Errorf("the schema is %d", v)
	}
}

// TestEachMigrationLocksFirstWhatItAlters: each migration takes all its locks before it works, so it never waits for a
// lock while it keeps others out of a table. The test compares these locks with those that PostgreSQL has granted by
// the end of the migration.
func TestEachMigrationLocksFirstWhatItAlters(t *testing.T) {
	const locked = `SELECT COALESCE(string_agg(lock, ', ' ORDER BY lock), '') FROM (
		SELECT relname || CASE WHEN bool_or(mode = 'AccessExclusiveLock') THEN ' altered' ELSE '' END AS lock
		FROM pg_locks l JOIN before_it c ON c.oid = l.relation
		WHERE l.pid = pg_backend_pid() AND l.mode NOT IN ('AccessShareLock', 'RowShareLock') GROUP BY relname) l`
	db := empty(t)
	conn, err := pgx.ConnectConfig(t.Context(), db.ConnConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	m, err := migrate.NewMigrator(t.Context(), conn, versionTable)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := fs.Sub(migrations, "migrations")
	if err != nil {
		t.Fatal(err)
	}
	if err := m.LoadMigrations(dir); err != nil {
		t.Fatal(err)
	}
	own, err := checksums(dir, m.Migrations)
	if err != nil {
		t.Fatal(err)
	}
	if err := record(t.Context(), m.Migrations, own); err != nil {
		t.Fatal(err)
	}
	for _, migration := range m.Migrations {
		lock, work, _ := strings.Cut(migration.UpSQL, "\n\n")
		if !strings.HasPrefix(lock, "LOCK TABLE ") {
			t.Fatalf("%s begins with %q", migration.Name, lock)
		}
		run := func(sql string) (locks string) {
			t.Helper()
			if _, err := conn.Exec(t.Context(), sql); err != nil {
				t.Fatalf("%s: %v", migration.Name, err)
			}
			if err := conn.QueryRow(t.Context(), locked).Scan(&locks); err != nil {
				t.Fatal(err)
			}
			return locks
		}
		if _, err := conn.Exec(t.Context(), `CREATE TEMP TABLE before_it AS SELECT oid, relname FROM pg_class
			WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace; BEGIN`); err != nil {
			t.Fatal(err)
		}
		first := run(lock)
		if all := run(work); all != first {
			t.Errorf("%s locks %q first, and has locked %q at its end", migration.Name, first, all)
		}
		if _, err := conn.Exec(t.Context(), `COMMIT; DROP TABLE before_it`); err != nil {
			t.Fatal(err)
		}
	}
}
