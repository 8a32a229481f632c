package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/tern/v2/migrate"
)

// versionTable holds the number of the last migration that was applied.
const versionTable = "codehub_schema_version"

//go:embed migrations/*.sql
var migrations embed.FS

// Migrate applies the migrations that are missing. Any number of processes may call
// it at the same time: the migrations run one after another under an advisory lock,
// each in one transaction with its version number. A schema that is newer than this
// program is not touched, so that an old process can keep running next to a new one
// during an upgrade.
func (db *DB) Migrate(ctx context.Context) error {
	conn, err := pgx.ConnectConfig(ctx, db.ConnConfig())
	if err != nil {
		return fmt.Errorf("connecting to migrate the schema: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))

	m, err := migrate.NewMigrator(ctx, conn, versionTable)
	if err != nil {
		return fmt.Errorf("preparing the schema's version table: %w", err)
	}
	dir, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return fmt.Errorf("opening the embedded migrations: %w", err)
	}
	if err := m.LoadMigrations(dir); err != nil {
		return fmt.Errorf("loading the embedded migrations: %w", err)
	}
	err = m.Migrate(ctx)
	var bad migrate.BadVersionError
	if errors.As(err, &bad) {
		if v, verr := m.GetCurrentVersion(ctx); verr == nil && int(v) > len(m.Migrations) {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("migrating the schema: %w", err)
	}
	return nil
}
