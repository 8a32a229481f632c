package leader_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/codehub/gateway/coordinator/control/leader"
	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/store/storetest"
	"github.com/codehub/gateway/coordinator/testlog"
	"github.com/codehub/gateway/coordinator/wait"
)

// database returns the settings of a migrated database, and a connection to inspect it.
func database(t *testing.T) (*pgx.ConnConfig, *pgx.Conn) {
	t.Helper()
	dsn := storetest.Migrated(t)
	s, err := store.Open(dsn, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return s.ConnConfig(), conn
}

// term is one leadership as the test sees it.
type term struct {
	leader.Term
	ctx context.Context
	// end makes the lead function return the error that is sent.
	end chan error
}

// process is a running elector.
type process struct {
	*leader.Elector
	terms  <-chan term
	cancel context.CancelFunc
	done   <-chan error
}

func start(t *testing.T, cfg *pgx.ConnConfig, node string, change func(*leader.Options)) process {
	t.Helper()
	// The retry interval and the lease are longer than any test waits. So no result depends on a retry, or on whether a
	// busy machine renews the lease in time.
	opts := leader.Options{Conn: cfg, Node: node, Settings: leader.Settings{RetryInterval: time.Hour}, LeaseDuration: time.Hour}
	if change != nil {
		change(&opts)
	}
	e, err := leader.New(opts, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	terms, done := make(chan term, 16), make(chan error, 1)
	go func() {
		done <- e.Run(ctx, func(ctx context.Context, t leader.Term) error {
			r := term{t, ctx, make(chan error, 1)}
			terms <- r
			select {
			case <-ctx.Done():
				return ctx.Err()
			case err := <-r.end:
				return err
			}
		})
		close(done)
	}()
	p := process{e, terms, cancel, done}
	t.Cleanup(func() { p.stop(t) })
	return p
}

func (p process) stop(t *testing.T) {
	t.Helper()
	p.cancel()
	select {
	case err := <-p.done:
		if err != nil {
			t.Errorf("Run returns %v", err)
		}
	case <-time.After(wait.Timeout):
		t.Error("Run does not return")
	}
}

func (p process) leads(t *testing.T) term {
	t.Helper()
	select {
	case r := <-p.terms:
		return r
	case <-time.After(wait.Timeout):
		t.Fatal("no process leads")
		panic("unreachable")
	}
}

func (r term) isOver(t *testing.T) {
	t.Helper()
	select {
	case <-r.ctx.Done():
	case <-time.After(wait.Timeout):
		t.Fatal("the leadership does not end")
	}
}

// waiting returns when another session waits for the lock.
func waiting(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	for deadline := time.Now().Add(wait.Timeout); ; {
		var n int
		err := conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_locks
			WHERE locktype = 'advisory' AND NOT granted
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		if n > 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("no session waits for the lock")
		}
	}
}

// holder returns the pid of PostgreSQL's process for the session that holds the lock.
func holder(t *testing.T, conn *pgx.Conn) (pid int) {
	t.Helper()
	err := conn.QueryRow(t.Context(), `SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`).Scan(&pid)
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

func kill(t *testing.T, conn *pgx.Conn, pid int) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), "SELECT pg_terminate_backend($1)", pid); err != nil {
		t.Fatal(err)
	}
}

func TestOneLeadsAndACleanStopHandsOverAtOnce(t *testing.T) {
	cfg, conn := database(t)
	a := start(t, cfg, "a", nil)
	first := a.leads(t)
	if first.Fence.Lock != leader.DefaultLock || first.Fence.Epoch != 1 {
		t.Fatalf("fence %+v", first.Fence)
	}
	if s := a.Status(); !s.IsLeader || s.NodeID != "a" || !first.Lease() {
		t.Fatalf("status %+v, holds the lease: %v", s, first.Lease())
	}
	b := start(t, cfg, "b", nil)
	waiting(t, conn)
	if s := b.Status(); s.IsLeader || s.NodeID != "b" {
		t.Fatalf("status of the one that waits: %+v", s)
	}

	a.stop(t)
	second := b.leads(t) // because of the stop: neither the lease nor the retry interval has ended
	if second.Fence.Epoch != 2 {
		t.Fatalf("the second epoch is %d", second.Fence.Epoch)
	}
	if a.Status().IsLeader || first.Lease() {
		t.Fatal("the one that has stopped still says that it leads")
	}
	var node string
	var epoch int64
	if err := conn.QueryRow(t.Context(), "SELECT holder_id, epoch FROM system_locks WHERE lock_name = 'coordinator'").Scan(&node, &epoch); err != nil {
		t.Fatal(err)
	}
	if node != "b" || epoch != 2 {
		t.Fatalf("system_locks shows %s, epoch %d", node, epoch)
	}
}

func TestALostConnectionEndsTheLeadershipAtOnce(t *testing.T) {
	cfg, conn := database(t)
	a := start(t, cfg, "a", nil) // only the broken connection can end its lease
	first := a.leads(t)
	b := start(t, cfg, "b", nil)
	waiting(t, conn)
	kill(t, conn, holder(t, conn))
	second := b.leads(t)
	first.isOver(t)
	if second.Fence.Epoch != first.Fence.Epoch+1 {
		t.Fatalf("epochs %d and %d", first.Fence.Epoch, second.Fence.Epoch)
	}
	if cause := context.Cause(first.ctx); cause == nil || errors.Is(cause, context.Canceled) {
		t.Fatalf("the context does not say why it ended: %v", cause)
	}
	// The first process waits for the lock again, and becomes the leader when the second one loses its session.
	waiting(t, conn)
	kill(t, conn, holder(t, conn))
	if third := a.leads(t); third.Fence.Epoch != 3 {
		t.Fatalf("the third epoch is %d", third.Fence.Epoch)
	}
}

func TestAWaiterThatIsKilledIsBackInTheQueue(t *testing.T) {
	cfg, conn := database(t)
	a := start(t, cfg, "a", nil)
	a.leads(t)
	b := start(t, cfg, "b", func(o *leader.Options) { o.Settings.RetryInterval = 10 * time.Millisecond })
	waiting(t, conn)
	var pid int
	if err := conn.QueryRow(t.Context(), `SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`).Scan(&pid); err != nil {
		// The process b begins a new wait a hundred times a second, and was between two waits at that moment.
		if !errors.Is(err, pgx.ErrNoRows) {
			t.Fatal(err)
		}
	}
	kill(t, conn, pid)
	waiting(t, conn)
	a.stop(t)
	b.leads(t)
}

func TestAnErrorOfTheWorkEndsTheTerm(t *testing.T) {
	cfg, conn := database(t)
	a := start(t, cfg, "a", nil)
	first := a.leads(t)
	b := start(t, cfg, "b", nil)
	waiting(t, conn)
	first.end <- errors.New("everything is broken")
	second := b.leads(t)
	// The process a waits for the lock again, and leads when b's work ends without an error.
	waiting(t, conn)
	second.end <- nil
	if third := a.leads(t); third.Fence.Epoch != 3 {
		t.Fatalf("the third epoch is %d", third.Fence.Epoch)
	}
}

func TestTheLockIsKeptUntilTheWorkHasEnded(t *testing.T) {
	cfg, conn := database(t)
	a, err := leader.New(leader.Options{Conn: cfg, Node: "a"}, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	leading, stopping := make(chan struct{}), make(chan struct{})
	finish, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		_ = a.Run(ctx, func(ctx context.Context, _ leader.Term) error {
			close(leading)
			<-ctx.Done()
			close(stopping) // and something is still being written
			<-finish
			return nil
		})
	}()
	select {
	case <-leading:
	case <-time.After(wait.Timeout):
		t.Fatal("no process leads")
	}
	b := start(t, cfg, "b", nil)
	waiting(t, conn)
	cancel()
	<-stopping
	waiting(t, conn) // b still does
	if b.Status().IsLeader {
		t.Fatal("two lead")
	}
	close(finish)
	<-done
	b.leads(t)
}

// Two processes with different lock ids both get a lock. The first one notices by the epoch that something is wrong.
func TestAnEpochOfAnotherProcessEndsTheLeadership(t *testing.T) {
	cfg, _ := database(t)
	// The first process checks its epoch five times per lease. The lease must not end before it has seen the other
	// process's epoch.
	looks := func(o *leader.Options) { o.LeaseDuration = 10 * time.Second }
	a := start(t, cfg, "a", looks)
	first := a.leads(t)
	b := start(t, cfg, "b", func(o *leader.Options) { o.LockID = 4711 })
	b.leads(t)
	first.isOver(t)
	if cause := context.Cause(first.ctx); !strings.Contains(cause.Error(), "epoch 2") {
		t.Fatalf("the leadership ended with %v", cause)
	}
}

func TestNothingIsLeftBehind(t *testing.T) {
	cfg, conn := database(t)
	ignore := goleak.IgnoreCurrent()
	a := start(t, cfg, "a", nil)
	a.leads(t)
	a.stop(t)
	wait.NoGoroutines(t, ignore)
	wait.Until(t, "no advisory lock is left", func() bool { // the server notices the end of a session a moment later
		var n int
		if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n == 0
	})
}

func TestWrongOptionsAreReportedTogether(t *testing.T) {
	_, err := leader.New(leader.Options{Settings: leader.Settings{RetryInterval: -1}, LeaseDuration: time.Millisecond}, zap.NewNop())
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"connection", "retry_interval", "lease duration"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not name %q:\n%v", want, err)
		}
	}
}

func TestSettingsAreValidatedUnderTheirOptionsName(t *testing.T) {
	if err := leader.DefaultSettings().Validate(); err != nil {
		t.Error(err)
	}
	for _, d := range []time.Duration{0, -time.Second} {
		if err := (leader.Settings{RetryInterval: d}).Validate(); err == nil || !strings.HasPrefix(err.Error(), "coordinator retry_interval: ") {
			t.Errorf("%s: %v", d, err)
		}
	}
}

// Package outage tests the reporter itself; this test checks when it is called.
func TestAnOutageOfTheServerIsLoggedOnce(t *testing.T) {
	server, dsn := devenv.NewPostgreSQL(t)
	s, err := store.Open(dsn, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan zapcore.Entry)
	log := testlog.New(t, zap.Hooks(func(line zapcore.Entry) error {
		select {
		case lines <- line:
		case <-t.Context().Done():
		}
		return nil
	}))
	e, err := leader.New(leader.Options{
		Conn: s.ConnConfig(), Node: "a", Settings: leader.Settings{RetryInterval: time.Millisecond},
	}, log)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx, func(context.Context, leader.Term) error { return nil }) }()
	for i, want := range []zapcore.Level{zap.ErrorLevel, zap.DebugLevel, zap.DebugLevel} {
		select {
		case line := <-lines:
			if line.Level != want || !strings.Contains(line.Message, "taking part in the leader election failed") {
				t.Errorf("line %d is %v %q, want level %v", i, line.Level, line.Message, want)
			}
		case <-time.After(wait.Timeout):
			t.Fatal("the elector does not try again")
		}
	}
	cancel()
	for {
		select {
		case <-lines: // of an attempt that was under way
		case err := <-done:
			if err != nil {
				t.Errorf("Run returns %v", err)
			}
			return
		}
	}
}
