package command_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/codehub/gateway/caddymodule/internal/command/commandtest"
	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/devenv/faulty"
)

// Commands of a release that must not serve change nothing. Commands also change nothing if a pooler makes their
// sessions look like those of an older release.
func TestCommandsAreRefusedWhereTheirReleaseMustNotServe(t *testing.T) {
	emptyDatabase(t)
	commandtest.Run(t, nil, "migrate").Want(t, 0)
	caddyfile := filepath.Join(t.TempDir(), "Caddyfile")
	if err := os.WriteFile(caddyfile, []byte(`{
	codehub {
		database {env.DATABASE_URL}
		redis redis://127.0.0.1:1
		s3 {
			endpoint http://127.0.0.1:1
			access_key a
			secret_key b
		}
	}
}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	refused := func(part string) {
		t.Helper()
		for _, args := range [][]string{
			{"user", "list"}, {"user", "disable", "ann"}, {"migrate"}, {"gc", "--config", caddyfile}, {"orphans", "--config", caddyfile},
		} {
			o := commandtest.Run(t, nil, args...)
			o.Want(t, 1, part)
			if strings.Contains(o.Stderr, "cannot be reached") {
				t.Errorf("%v: %s", args, o.Stderr)
			}
		}
	}
	dsn := os.Getenv("DATABASE_URL")
	t.Setenv("DATABASE_URL", faulty.Pooler(t, dsn, "codehub.schema", faulty.DropsSetting))
	refused("a connection pooler has dropped the setting codehub.schema")
	t.Setenv("DATABASE_URL", faulty.Pooler(t, dsn, "codehub.schema", faulty.RefusesSetting))
	refused("a connection pooler refuses a setting")

	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), "SELECT require_release(99, 99)"); err != nil {
		t.Fatal(err)
	}
	t.Setenv("DATABASE_URL", dsn)
	refused("serves releases from version 99 on: start a newer release")
}

// TestTheAddressOfTheDatabaseFromAFile checks that the variable DATABASE_URL may name a file for the commands, as it
// may for the service.
func TestTheAddressOfTheDatabaseFromAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "DATABASE_URL")
	t.Setenv("DATABASE_URL", "{file."+file+"}")
	commandtest.Run(t, nil, "migrate").Want(t, 2, "reading the address of the database", file)
	if err := os.WriteFile(file, []byte(devenv.PostgreSQL(t)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	commandtest.Run(t, nil, "migrate").Want(t, 0)
}
