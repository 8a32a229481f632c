package store

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/codehub/gateway/coordinator/store/accounts"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/store/postgres/postgrestest"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

func TestMain(m *testing.M) { wait.Main(m) }

// migrated returns the URL of a migrated database that only this test uses.
var migrated = postgrestest.Migrated(func(dsn string) (*Store, error) { return Open(dsn, postgres.Options{}) })

// open returns a store on a fresh, migrated database.
func open(t testing.TB) *Store {
	t.Helper()
	s, err := Open(migrated(t), postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func exec(t testing.TB, s *Store, sql string, args ...any) {
	t.Helper()
	postgrestest.Exec(t, s.pool, sql, args...)
}

func value[T any](t testing.TB, s *Store, sql string, args ...any) T {
	t.Helper()
	return postgrestest.Value[T](t, s.pool, sql, args...)
}

func addUser(t testing.TB, s *Store) string {
	t.Helper()
	u, created, err := accounts.New(s.DB).AddUser(t.Context(), "user-"+uuid.NewString(), "hash", "user")
	if err != nil || !created {
		t.Fatalf("AddUser = %v, %v", created, err)
	}
	return u.ID
}

// add inserts a workspace and then sets columns: "phase = 'RUNNING'".
func add(t testing.TB, s *Store, owner string, columns ...string) workspace.Workspace {
	t.Helper()
	id := workspace.ID(uuid.NewString())
	if _, _, err := s.Create(t.Context(), workspace.Workspace{
		ID: id, OwnerID: owner, Name: "one", InstanceBackend: "docker", StorageBackend: "docker",
	}, "api", Limits{}); err != nil {
		t.Fatal(err)
	}
	if len(columns) > 0 {
		exec(t, s, `UPDATE workspaces SET `+strings.Join(columns, ", ")+` WHERE id = $1`, string(id))
	}
	return read(t, s, id)
}

func read(t testing.TB, s *Store, id workspace.ID) workspace.Workspace {
	t.Helper()
	found, err := s.Workspaces(t.Context(), []workspace.ID{id})
	if err != nil || len(found) != 1 {
		t.Fatalf("Workspaces(%s) = %v, %v", id, found, err)
	}
	return found[0]
}

func TestTheSchemaRefusesInvalidRows(t *testing.T) {
	s := open(t)
	w := add(t, s, addUser(t, s))
	for _, set := range []string{
		`phase = 'SLEEPING'`,
		`operation = 'DANCING'`,
		`desired_state = 'PENDING'`,
		`phase = 'ERROR', operation = 'STARTING'`,
		`name = ''`,
		`name = repeat('x', 256)`,
		`deleted_at = now()`,
		`desired_state = 'DELETED'`,
		`error_count = -1`,
		`instance_backend = 'vm'`,
		`home_ctx = '[]'`,
		`conditions = 'null'`,
	} {
		if _, err := s.pool.Exec(t.Context(), `UPDATE workspaces SET `+set+` WHERE id = $1`, string(w.ID)); err == nil {
			t.Errorf("the schema accepts %s", set)
		}
	}
	exec(t, s, `UPDATE workspaces SET name = repeat('é', 255) WHERE id = $1`, string(w.ID))
	if got := read(t, s, w.ID); !got.UpdatedAt.After(w.UpdatedAt) {
		t.Errorf("updated_at stayed %v", got.UpdatedAt)
	}
}

// statements collects the statements that a tracer sees.
type statements struct {
	mu   sync.Mutex
	seen []string
}

func (s *statements) add(sql string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, sql)
}

func (s *statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	s.add(d.SQL)
	return ctx
}

func (s *statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (s *statements) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

func (s *statements) TraceBatchQuery(_ context.Context, _ *pgx.Conn, d pgx.TraceBatchQueryData) {
	s.add(d.SQL)
}

func (s *statements) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

func TestATracerSeesEveryKindOfStatement(t *testing.T) {
	plain := open(t)
	var tracer statements
	s, err := Open(plain.ConnConfig().ConnString(), postgres.Options{Tracer: &tracer})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	listening(t, s)
	add(t, s, addUser(t, s))
	if _, err := s.Candidates(t.Context(), 0, 1, false); err != nil {
		t.Fatal(err)
	}
	tracer.mu.Lock()
	defer tracer.mu.Unlock()
	for _, want := range []string{"LISTEN", "pg_advisory_xact_lock", "INSERT INTO workspaces", "FROM workspaces WHERE (watched"} {
		if !slices.ContainsFunc(tracer.seen, func(sql string) bool { return strings.Contains(sql, want) }) {
			t.Errorf("%q is not among %q", want, tracer.seen)
		}
	}
}
