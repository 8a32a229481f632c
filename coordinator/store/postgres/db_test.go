package postgres

import (
	"context"
	"net"
	"sync"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sys/unix"

	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/store/postgres/postgrestest"
	"github.com/codehub/gateway/coordinator/wait"
)

func TestMain(m *testing.M) { wait.Main(m) }

// empty returns a database without a schema.
func empty(t testing.TB) *DB {
	t.Helper()
	return openAt(t, devenv.PostgreSQL(t))
}

func openAt(t testing.TB, dsn string) *DB {
	t.Helper()
	s, err := Open(dsn, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// migrated returns the URL of a migrated database that only this test uses.
var migrated = postgrestest.Migrated(func(dsn string) (*DB, error) { return Open(dsn, Options{}) })

// open returns a fresh, migrated database.
func open(t testing.TB) *DB {
	t.Helper()
	return openAt(t, migrated(t))
}

func exec(t testing.TB, s *DB, sql string, args ...any) {
	t.Helper()
	postgrestest.Exec(t, s.pool, sql, args...)
}

func value[T any](t testing.TB, s *DB, sql string, args ...any) T {
	t.Helper()
	return postgrestest.Value[T](t, s.pool, sql, args...)
}

func TestOpenValidatesTheAddressAndDoesNotConnect(t *testing.T) {
	if _, err := Open("postgres://host:notaport/db", Options{}); err == nil {
		t.Error("Open accepted a port that is not a number")
	}
	s, err := Open("postgres://nobody@127.0.0.1:1/nothing", Options{})
	if err != nil {
		t.Fatalf("Open without a server: %v", err)
	}
	defer s.Close()
	if err := s.Ping(t.Context()); err == nil {
		t.Error("Ping answered without a server")
	}
	if got := s.pool.Config().MaxConns; got != defaultMaxConns {
		t.Errorf("MaxConns = %d, want %d", got, defaultMaxConns)
	}
	sized, err := Open("postgres://127.0.0.1:1/nothing?pool_max_conns=3", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer sized.Close()
	if got := sized.pool.Config().MaxConns; got != 3 {
		t.Errorf("MaxConns = %d, want the DSN's 3", got)
	}
}

func TestTransactionsAreReadCommittedWhateverTheServersDefault(t *testing.T) {
	s := empty(t)
	exec(t, s, `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_isolation = serializable', current_database()); END $$`)
	again, err := Open(s.conn.ConnString(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if got := value[string](t, again, `SHOW transaction_isolation`); got != "read committed" {
		t.Errorf("isolation = %q: the limits would be counted in a snapshot older than the lock", got)
	}
}

// A process that is stopped inside a transaction must not keep its locks: the next leader's epoch waits for
// them.
func TestASilentTransactionIsEnded(t *testing.T) {
	s := open(t)
	for name, query := range map[string]func(*DB) string{
		"the pool": func(s *DB) string { return value[string](t, s, `SHOW idle_in_transaction_session_timeout`) },
		"the others": func(s *DB) string {
			conn, err := pgx.ConnectConfig(t.Context(), s.ConnConfig())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(t.Context())
			var got string
			if err := conn.QueryRow(t.Context(), `SHOW idle_in_transaction_session_timeout`).Scan(&got); err != nil {
				t.Fatal(err)
			}
			return got
		},
	} {
		if got := query(s); got != "5s" {
			t.Errorf("%s: %s", name, got)
		}
	}
	quick, err := Open(s.conn.ConnString()+"&idle_in_transaction_session_timeout=100", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer quick.Close()
	exec(t, s, `INSERT INTO system_locks (lock_name, holder_id, epoch) VALUES ('coordinator', 'a', 1)`)
	stopped, err := quick.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stopped.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := stopped.Exec(t.Context(), `SELECT FROM system_locks WHERE lock_name = 'coordinator' FOR SHARE`); err != nil {
		t.Fatal(err)
	}
	exec(t, s, `UPDATE system_locks SET epoch = 2`) // waits for the lock, and gets it
}

func TestConnectionsNoticeALostServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s, err := Open("postgres://nobody@127.0.0.1:1/nothing", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c, err := s.ConnConfig().DialFunc(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	for _, opt := range []struct {
		name              string
		level, number, is int
	}{
		{"TCP_USER_TIMEOUT", unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, 10_000},
		{"SO_KEEPALIVE", syscall.SOL_SOCKET, syscall.SO_KEEPALIVE, 1},
		{"TCP_KEEPIDLE", unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 5},
		{"TCP_KEEPINTVL", unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 2},
		{"TCP_KEEPCNT", unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 3},
	} {
		var got int
		raw.Control(func(fd uintptr) { got, err = unix.GetsockoptInt(int(fd), opt.level, opt.number) })
		if err != nil || got != opt.is {
			t.Errorf("%s = %d, %v; want %d", opt.name, got, err, opt.is)
		}
	}
}

func TestMigrateFromSeveralProcessesAtOnce(t *testing.T) {
	first := empty(t)
	var wg sync.WaitGroup
	for range 8 {
		s, err := Open(first.conn.ConnString(), Options{})
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			defer s.Close()
			if err := s.Migrate(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if err := first.Migrate(t.Context()); err != nil {
		t.Errorf("migrating once more: %v", err)
	}
	if n := value[int64](t, first, `SELECT count(*) FROM workspaces`); n != 0 {
		t.Errorf("%d workspaces", n)
	}
}

func TestNobodySignsInByABlankIdentityAfterTheUpgrade(t *testing.T) {
	s := empty(t)
	before := make(fstest.MapFS)
	for _, name := range []string{"001_initial.sql", "002_control_plane.sql", "003_gateway.sql", "004_data_plane.sql", "005_releases.sql", "006_serving.sql"} {
		text, err := migrations.ReadFile("migrations/" + name)
		if err != nil {
			t.Fatal(err)
		}
		before[name] = &fstest.MapFile{Data: text}
	}
	if err := s.migrate(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	for _, subject := range []string{"ann", "", " "} {
		exec(t, s, `WITH u AS (INSERT INTO users (username, role) VALUES ('user ' || $1, 'user') RETURNING id),
				i AS (INSERT INTO user_identities (issuer, subject, user_id) SELECT 'https://id.example', $1, id FROM u)
			INSERT INTO sessions (token_hash, user_id, expires_at, issuer)
				SELECT sha256($1::bytea), id, now() + interval '1 day', 'https://id.example' FROM u`, subject)
	}
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := value[string](t, s, `SELECT string_agg(subject, ',') FROM user_identities JOIN sessions USING (user_id)`); left != "ann" {
		t.Errorf("the identities that have sessions are %q", left)
	}
	if n := value[int64](t, s, `SELECT count(*) FROM users`); n != 3 {
		t.Errorf("%d users are left", n)
	}
}

func TestMigrateLeavesANewerSchemaAlone(t *testing.T) {
	s := open(t)
	exec(t, s, `UPDATE `+versionTable+` SET version = 1000`)
	if err := s.Migrate(t.Context()); err != nil {
		t.Errorf("Migrate beside a newer process: %v", err)
	}
	exec(t, s, `UPDATE `+versionTable+` SET version = -1`)
	if err := s.Migrate(t.Context()); err == nil {
		t.Error("Migrate took version -1 for a newer schema")
	}
}

func TestMigrateStopsWithItsContext(t *testing.T) {
	s := empty(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Migrate(ctx); err == nil {
		t.Error("Migrate succeeded with a context that had ended")
	}
}
