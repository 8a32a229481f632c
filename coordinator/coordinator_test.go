package coordinator

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/backend/docker"
	"github.com/codehub/gateway/coordinator/dataplane/auth"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/devenv/faulty"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/testlog"
	"github.com/codehub/gateway/coordinator/wait"
)

// options returns options that name a real PostgreSQL and Redis. The object store and the engine do not answer, because
// a process must be able to start without them.
func options(t *testing.T, database, node string) Options {
	t.Helper()
	return Options{
		Database: database, Redis: devenv.Redis(t), NodeID: node,
		Archive: archive.Options{Endpoint: "http://127.0.0.1:1", Bucket: "nowhere", AccessKey: "a", SecretKey: "b", PathStyle: true},
		Docker:  docker.Options{Host: "unix:///nowhere.sock", Installation: "test", Image: "none"},
	}
}

const adminPassword = "long enough"

func start(t *testing.T, o Options) *Coordinator {
	t.Helper()
	c, err := New(o, testlog.New(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, c) })
	s := DefaultSettings()
	s.AdminPassword = adminPassword
	s.Leader.RetryInterval = 100 * time.Millisecond
	apply(t, c, s)
	for range 2 { // a second start is nothing
		if err := c.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func apply(t *testing.T, c *Coordinator, s Settings) {
	t.Helper()
	if err := c.Apply(t.Context(), s); err != nil {
		t.Fatal(err)
	}
}

func stop(t *testing.T, c *Coordinator) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), wait.Timeout)
	defer cancel()
	if err := c.Stop(ctx); err != nil {
		t.Error(err)
	}
}

// TestOneLeadsAndHandsOver: one of two processes leads. When it stops, the other one leads, and nothing of the first
// process runs any more.
func TestOneLeadsAndHandsOver(t *testing.T) {
	database := devenv.PostgreSQL(t)
	before := goleak.IgnoreCurrent()
	first := start(t, options(t, database, "first"))
	wait.Until(t, "the first leads", func() bool { return first.Health().IsLeader })
	second := start(t, options(t, database, "second"))
	if err := second.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	if h := second.Health(); h.IsLeader || h.NodeID != "second" || h.Uptime <= 0 {
		t.Errorf("the second says %+v while the first leads", h)
	}
	stop(t, first)
	stop(t, first) // again: nothing
	wait.Until(t, "the second leads", func() bool { return second.Health().IsLeader })
	stop(t, second)
	wait.NoGoroutines(t, before)
	if err := first.Start(t.Context()); err == nil {
		t.Error("a stopped coordinator starts again")
	}
}

// TestAProcessThatResignsServesOn: when a process resigns, another one leads immediately. The process that resigned
// still follows changes, and so keeps serving. It does not lead again, even when the other one ends.
func TestAProcessThatResignsServesOn(t *testing.T) {
	for _, shards := range []int{1, 4} {
		database := devenv.PostgreSQL(t)
		node := func(name string) Options {
			o := options(t, database, name)
			o.Shards = shards
			return o
		}
		first := start(t, node("first"))
		wait.Until(t, "the first leads", func() bool { return len(first.Health().Led) == shards })
		second := start(t, node("second"))
		began := time.Now()
		first.Resign()
		first.Resign() // again: nothing
		wait.Until(t, "the second leads", func() bool { return len(second.Health().Led) == shards })
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("with %d shards the second leads after %s", shards, took)
		}
		if first.Health().IsLeader || !first.Routes.Ready() {
			t.Errorf("with %d shards the first says %+v", shards, first.Health())
		}
		stop(t, second)
		third := start(t, node("third"))
		wait.Until(t, "the third leads", func() bool { return len(third.Health().Led) == shards })
		stop(t, first)
		stop(t, third)
	}
}

// TestProcessesShareTheShards: each of two processes leads half of the shards. When one
// stops, the other leads all of them.
func TestProcessesShareTheShards(t *testing.T) {
	database := devenv.PostgreSQL(t)
	var both []*Coordinator
	for _, node := range []string{"first", "second"} {
		o := options(t, database, node)
		o.Shards = 4
		both = append(both, start(t, o))
	}
	wait.Until(t, "each leads two of four", func() bool {
		a, b := both[0].Health(), both[1].Health()
		return a.IsLeader && b.IsLeader && len(a.Led) == 2 && len(b.Led) == 2 && a.Shards == 4
	})
	stop(t, both[0])
	wait.Until(t, "the other one leads all", func() bool { return slices.Equal(both[1].Health().Led, []int{0, 1, 2, 3}) })
	wait.Until(t, "its components run for all", func() bool { return both[1].terms.count() == 4 })
}

// TestSettingsApplyAtOnce: when Apply returns, a new limit counts for the next request, and the administrator has the
// new password.
func TestSettingsApplyAtOnce(t *testing.T) {
	o := options(t, devenv.PostgreSQL(t), "node")
	c := start(t, o)
	_, user, err := c.Auth.Login(t.Context(), AdminUser, adminPassword, auth.Client{})
	if err != nil {
		t.Fatal(err)
	}
	s := DefaultSettings()
	s.Limits.PerUser = 1
	s.AdminPassword = "another one"
	apply(t, c, s)
	if _, _, err := c.Auth.Login(t.Context(), AdminUser, adminPassword, auth.Client{}); !errors.Is(err, auth.ErrBadCredentials) {
		t.Errorf("signing in with the former password: %v", err)
	}
	if _, _, err := c.Auth.Login(t.Context(), AdminUser, s.AdminPassword, auth.Client{}); err != nil {
		t.Errorf("signing in with the new password: %v", err)
	}
	me := service.Actor{UserID: user.ID, Through: "test"}
	if _, err := c.Service.Create(t.Context(), me, service.CreateInput{Name: "one"}); err != nil {
		t.Fatal(err)
	}
	_, err = c.Service.Create(t.Context(), me, service.CreateInput{Name: "two"})
	var limit *service.LimitError
	if !errors.As(err, &limit) || limit.Limit != 1 {
		t.Errorf("the second is answered with %v", err)
	}
}

func TestStartNeedsTheDatabase(t *testing.T) {
	o := options(t, "postgres://somebody:secret@127.0.0.1:1/nothing?connect_timeout=1", "node")
	c, err := New(o, testlog.New(t))
	if err != nil {
		t.Fatal(err)
	}
	defer stop(t, c)
	if err := c.Start(t.Context()); err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "database") {
		t.Errorf("starting without a database: %v", err)
	}
}

// TestStartNamesAPooler: if a connection pooler refuses or drops the setting with this process's release, the error
// says that it is a pooler.
func TestStartNamesAPooler(t *testing.T) {
	database := devenv.PostgreSQL(t)
	for fault, says := range map[faulty.Fault]string{faulty.RefusesSetting: "a connection pooler refuses", faulty.DropsSetting: "a connection pooler has dropped"} {
		c, err := New(options(t, faulty.Pooler(t, database, "codehub.schema", fault), "node"), testlog.New(t))
		if err != nil {
			t.Fatal(err)
		}
		defer stop(t, c)
		if err := c.Start(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "database: "+says) || !strings.Contains(err.Error(), postgres.PoolerRemedy) {
			t.Errorf("%s: %v", fault, err)
		}
	}
}

func TestNoAddressIsRepeatedThatMayHoldAPassword(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"redis":    func(o *Options) { o.Redis = "redis://:hunter2@127.0.0.1:here/0" },
		"database": func(o *Options) { o.Database = "postgres://ann:hunter2@127.0.0.1:here/x" },
	} {
		o := options(t, "postgres://127.0.0.1:1/nothing", "node")
		change(&o)
		if _, err := New(o, testlog.New(t)); err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTogether: when one component returns, the others are ended, and together returns the first one's error.
func TestTogether(t *testing.T) {
	broken := errors.New("broken")
	others := make(chan struct{})
	err := together(t.Context(), zap.NewNop(), []component{
		{"broken", func(context.Context) error { return broken }},
		{"other", func(ctx context.Context) error { <-ctx.Done(); close(others); return ctx.Err() }},
	})
	if !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	select {
	case <-others:
	default:
		t.Error("the other component did not end")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	regular := []component{{"regular", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}}
	if err := together(ctx, zap.NewNop(), regular); err != nil {
		t.Errorf("a regular end is an error: %v", err)
	}
}
