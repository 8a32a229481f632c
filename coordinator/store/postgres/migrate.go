package postgres

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/tern/v2/migrate"

	"github.com/codehub/gateway/coordinator/audit"
)

// versionTable holds the number of the last migration that was applied.
const versionTable = "codehub_schema_version"

// recording is the end of the name of the migration that creates the table of checksums.
const recording = "_releases.sql"

// auditing is the end of the name of the migration that creates the table of the audit.
const auditing = "_audit.sql"

//go:embed migrations/*.sql
var migrations embed.FS

// Migrate applies the missing migrations. Any number of processes may call it at the same time. The migrations
// run one after another under an advisory lock, each in one transaction with its version number and checksum. A schema
// that is newer than this program is left alone, so that an old process can keep running beside a new one during an
// upgrade.
//
// Migrate returns an [*OlderError] if the schema no longer supports this program, and a [*PoolerError] if the session
// does not declare the version that this program knows. It also returns an error if an applied migration has a
// different text in this program. In these cases it changes nothing.
//
// If another session, such as a backup, holds a lock that a migration needs, Migrate gives way, so that no other
// statement waits for longer than a moment. It tries again until ctx ends, and calls [Options.Waiting].
func (db *DB) Migrate(ctx context.Context) error {
	dir, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return fmt.Errorf("opening the embedded migrations: %w", err)
	}
	return db.migrate(ctx, dir)
}

// migrate is [DB.Migrate] with the migrations in dir.
func (db *DB) migrate(ctx context.Context, dir fs.FS) error {
	return db.untilUnlocked(ctx, func(limit time.Duration) (wait LockWait, err error) {
		config := db.ConnConfig()
		// A session setting survives the "reset all" after each migration.
		config.RuntimeParams["lock_timeout"] = strconv.FormatInt(limit.Milliseconds(), 10)
		conn, err := pgx.ConnectConfig(ctx, config)
		if err != nil {
			return wait, fmt.Errorf("connecting to migrate the schema: %w", connecting(err))
		}
		defer conn.Close(context.WithoutCancel(ctx))
		if err := checkSession(ctx, conn); err != nil {
			return wait, err
		}
		var pid uint32 // the server's own: a pooler gives its clients another one
		if err := conn.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&pid); err != nil {
			return wait, fmt.Errorf("asking for the session that migrates: %w", err)
		}
		wait.Holders, err = db.watchLocks(ctx, pid, func() error { return migrateOn(ctx, conn, dir) })
		var of migrate.MigrationPgError
		if errors.As(err, &of) {
			wait.Migration = of.MigrationName
		}
		return wait, err
	})
}

// migrateOn makes one attempt on a connection.
func migrateOn(ctx context.Context, conn *pgx.Conn, dir fs.FS) error {
	m, err := migrate.NewMigrator(ctx, conn, versionTable)
	if err != nil {
		return fmt.Errorf("preparing the schema's version table: %w", err)
	}
	if err := m.LoadMigrations(dir); err != nil {
		return fmt.Errorf("loading the embedded migrations: %w", err)
	}
	own, err := checksums(dir, m.Migrations)
	if err != nil {
		return err
	}
	if err := compare(ctx, conn, own); err != nil {
		return err
	}
	if err := record(ctx, m.Migrations, own); err != nil {
		return err
	}
	err = m.Migrate(ctx)
	var bad migrate.BadVersionError
	if errors.As(err, &bad) {
		if v, verr := m.GetCurrentVersion(ctx); verr == nil && int(v) > len(m.Migrations) {
			err = nil
		}
	}
	if err != nil {
		return fmt.Errorf("migrating the schema: %w", err)
	}
	r, err := ReadRelease(ctx, conn)
	if err != nil {
		return err
	}
	return r.MayServe()
}

// checksum is the SHA-256 of the text of a migration, in hexadecimal.
type checksum struct{ name, sum string }

// checksums returns the checksums of the migrations in dir, in their order.
func checksums(dir fs.FS, all []*migrate.Migration) ([]checksum, error) {
	sums := make([]checksum, len(all))
	for i, m := range all {
		text, err := fs.ReadFile(dir, m.Name)
		if err != nil {
			return nil, fmt.Errorf("reading an embedded migration: %w", err)
		}
		sum := sha256.Sum256(text)
		sums[i] = checksum{m.Name, hex.EncodeToString(sum[:])}
	}
	return sums, nil
}

// compare returns an error for each migration whose applied text differs from this program's.
func compare(ctx context.Context, conn *pgx.Conn, own []checksum) error {
	var recorded bool
	if err := conn.QueryRow(ctx, "SELECT to_regclass('schema_migrations') IS NOT NULL").Scan(&recorded); err != nil {
		return fmt.Errorf("looking for the checksums of the migrations: %w", err)
	}
	if !recorded {
		return nil
	}
	rows, err := conn.Query(ctx, "SELECT version, name, sha256 FROM schema_migrations WHERE version <= $1 "+
		"ORDER BY version", len(own))
	if err != nil {
		return fmt.Errorf("reading the checksums of the migrations: %w", err)
	}
	var errs []error
	var version int
	var ran checksum
	if _, err := pgx.ForEachRow(rows, []any{&version, &ran.name, &ran.sum}, func() error {
		if mine := own[version-1]; mine.sum != ran.sum {
			errs = append(errs, fmt.Errorf("migration %s of this program is not the one that has run in this "+
				"database, %s: SHA-256 %s here, %s there; start a release with that migration as it was", mine.name,
				ran.name, mine.sum, ran.sum))
		}
		return nil
	}); err != nil {
		return fmt.Errorf("reading the checksums of the migrations: %w", err)
	}
	return errors.Join(errs...)
}

// record extends every migration, beginning with the one that creates the table of checksums: in its own transaction,
// each also writes the checksums of all migrations up to itself. Migrations applied before the table existed are
// recorded with this program's checksums, even if their text was different: the migration that creates the table
// produces the same schema from every earlier text. Beginning with the audit's migration, each also writes an audit
// entry for the context's actor. Every migration first takes its locks.
func record(ctx context.Context, all []*migrate.Migration, own []checksum) error {
	by, err := json.Marshal(audit.Of(ctx))
	if err != nil {
		return fmt.Errorf("writing who migrates the schema: %w", err)
	}
	literal := func(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
	var rows []string
	begun, audited := false, false
	for i, m := range all {
		rows = append(rows, fmt.Sprintf("(%d, '%s', '%s')", m.Sequence, own[i].name, own[i].sum))
		begun = begun || strings.HasSuffix(m.Name, recording)
		if begun {
			m.UpSQL += "\n;INSERT INTO schema_migrations (version, name, sha256) VALUES " +
				strings.Join(rows, ", ") + ";"
			rows = nil
		}
		if audited = audited || strings.HasSuffix(m.Name, auditing); audited {
			m.UpSQL += fmt.Sprintf("\nINSERT INTO audit_log (actor, action, details) "+
				"VALUES (audit_actor(%s), '%s', jsonb_build_object('version', %d, 'name', %s));",
				literal(string(by)), audit.SystemMigrate, m.Sequence, literal(m.Name))
		}
		m.UpSQL = locksFirst(m.UpSQL) + "\n" + m.UpSQL
	}
	return nil
}
