package postgres

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// schemaSQL describes everything that migrations create, except for the order of columns.
const schemaSQL = `SELECT string_agg(what, E'\n' ORDER BY what) FROM (
	SELECT format('column %s.%s %s %s %s %s', c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attgenerated,
			pg_get_expr(d.adbin, d.adrelid)) AS what
		FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
		WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'S') AND a.attnum > 0 AND NOT a.attisdropped
	UNION ALL SELECT format('constraint %s %s %s', conrelid::regclass, conname, pg_get_constraintdef(oid)) FROM pg_constraint
		WHERE connamespace = 'public'::regnamespace
	UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'
	UNION ALL SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal
	UNION ALL SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = 'public'::regnamespace
	UNION ALL SELECT format('options %s %s', relname, reloptions) FROM pg_class WHERE relnamespace = 'public'::regnamespace
	UNION ALL SELECT format('migration %s %s %s', version, name, sha256) FROM schema_migrations
	UNION ALL SELECT format('required %s %s', lead, serve) FROM schema_requirements
) s`

// embedded returns this program's migrations: all of them, or the first ones.
func embedded(t testing.TB, first int) fstest.MapFS {
	t.Helper()
	files, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	dir := fstest.MapFS{}
	for _, name := range files[:first] {
		text, err := migrations.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		dir[filepath.Base(name)] = &fstest.MapFile{Data: text}
	}
	return dir
}

// The text of 002_control_plane.sql changed during its development. A database to which an earlier text was applied
// ends up with the same schema as any other, whether it stopped at that version or has had later ones since.
func TestEveryTextOfAMigrationGivesOneSchema(t *testing.T) {
	want := value[string](t, open(t), schemaSQL)
	texts, err := filepath.Glob("testdata/migrations/002_control_plane.*.sql")
	if err != nil || len(texts) != 5 {
		t.Fatalf("%d earlier texts, %v", len(texts), err)
	}
	for _, path := range texts {
		for _, upTo := range []int{2, 4} {
			t.Run(fmt.Sprintf("%s, then up to %d", filepath.Base(path), upTo), func(t *testing.T) {
				text, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				dir := embedded(t, upTo)
				dir["002_control_plane.sql"].Data = text
				db := empty(t)
				if err := db.migrate(t.Context(), dir); err != nil {
					t.Fatal(err)
				}
				if err := db.Migrate(t.Context()); err != nil {
					t.Fatal(err)
				}
				if got := value[string](t, db, schemaSQL); got != want {
					t.Error(difference(got, want))
				}
			})
		}
	}
}

// difference returns the lines that only one of two texts has.
func difference(got, want string) string {
	var out []string
	for _, side := range []struct{ sign, a, b string }{{"+ ", got, want}, {"- ", want, got}} {
		for line := range strings.Lines(side.a) {
			if !strings.Contains("\n"+side.b+"\n", "\n"+strings.TrimSuffix(line, "\n")+"\n") {
				out = append(out, side.sign+line)
			}
		}
	}
	return strings.Join(out, "")
}

func TestAMigrationThatWasChangedAfterItHasRunIsRefused(t *testing.T) {
	db := open(t)
	if err := db.Migrate(t.Context()); err != nil {
		t.Fatalf("once more: %v", err)
	}
	dir := embedded(t, knownSchema)
	dir["002_control_plane.sql"].Data = append(dir["002_control_plane.sql"].Data, "-- one more line\n"...)
	before := value[string](t, db, schemaSQL)
	if err := db.migrate(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "002_control_plane.sql") {
		t.Errorf("the error is %v", err)
	}
	if after := value[string](t, db, schemaSQL); after != before {
		t.Error(difference(after, before))
	}
}

// upgrade applies an additional migration that this program does not have.
func upgrade(t testing.TB, db *DB, sql string) {
	t.Helper()
	dir := embedded(t, knownSchema)
	dir[fmt.Sprintf("%03d_next.sql", knownSchema+1)] = &fstest.MapFile{Data: []byte(sql)}
	older := (*OlderError)(nil)
	if err := db.migrate(t.Context(), dir); err != nil && !errors.As(err, &older) {
		t.Fatal(err)
	}
}

func TestAReleaseRunsBesideANewerOneAsLongAsTheSchemaServesIt(t *testing.T) {
	for _, tt := range []struct {
		name, sql   string
		lead, serve bool
	}{
		{"an addition", "CREATE TABLE addition ()", true, true},
		{"a change that needs a new leader", "SELECT require_release(99, 1)", false, true},
		{"a change that needs new processes", "SELECT require_release(99, 99)", false, false},
		{"a change that needs new processes, and says nothing of leaders", "SELECT require_release(1, 99)", false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			db := open(t)
			exec(t, db, `INSERT INTO system_locks (lock_name, holder_id, epoch) VALUES ('coordinator', 'a', 7)`)
			upgrade(t, db, tt.sql)
			err := db.Migrate(t.Context())
			if (err == nil) != tt.serve {
				t.Errorf("starting beside it: %v", err)
			}
			older := (*OlderError)(nil)
			if err != nil && (!errors.As(err, &older) || older.Known != knownSchema || older.Schema != knownSchema+1 || older.Serve != 99) {
				t.Errorf("it is refused with %v", err)
			}
			r, err := db.Release(t.Context())
			if err != nil || r.Schema != knownSchema+1 {
				t.Fatalf("the schema asks for %+v, %v", r, err)
			}
			if err := r.MayLead(); (err == nil) != tt.lead {
				t.Errorf("leading beside it: %v", err)
			}
			// An earlier term ends, and no other begins.
			held, err := db.Holds(t.Context(), Fence{Lock: "coordinator", Epoch: 7})
			if err != nil || held != tt.lead {
				t.Errorf("the term from before goes on: %v, %v", held, err)
			}
			x, err := db.TryExclusive(t.Context(), LockGC, "a")
			if err == nil {
				x.End(t.Context())
			}
			if (err == nil) != tt.lead {
				t.Errorf("collecting beside it: %v", err)
			}
		})
	}
}

// A process that must not serve must not lead either, even if somebody has changed only the requirement for serving by
// hand.
func TestAReleaseThatMustNotServeMustNotLead(t *testing.T) {
	for _, tt := range []struct {
		lead, serve int
		want        string // the refused role
	}{{5, 1, ""}, {5, 5, ""}, {6, 1, "led by"}, {5, 6, "serves releases"}, {6, 6, "serves releases"}} {
		err := Release{Known: 5, Schema: 6, Lead: tt.lead, Serve: tt.serve}.MayLead()
		var older *OlderError
		if tt.want == "" && err != nil || tt.want != "" && (!errors.As(err, &older) || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("lead %d, serve %d: %v", tt.lead, tt.serve, err)
		}
	}
}

// Releases from before the setting declare nothing.
func TestAProcessThatSaysNothingOfItsReleaseMakesNoEpoch(t *testing.T) {
	db := open(t)
	cfg := db.ConnConfig()
	delete(cfg.RuntimeParams, schemaSetting)
	conn, err := pgx.ConnectConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	_, err = conn.Exec(t.Context(), nextEpochSQL, "coordinator", "old")
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != "CH014" {
		t.Errorf("a first epoch: %v", err)
	}
	exec(t, db, nextEpochSQL, "coordinator", "new")
	if _, err = conn.Exec(t.Context(), nextEpochSQL, "coordinator", "old"); !errors.As(err, &pg) || pg.Code != "CH014" {
		t.Errorf("another epoch: %v", err)
	}
	if _, err := conn.Exec(t.Context(), `SELECT FROM system_locks FOR SHARE`); err != nil {
		t.Errorf("it cannot read who leads: %v", err)
	}
}
