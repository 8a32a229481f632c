package ttl_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/codehub/gateway/coordinator/control/ttl"
	"github.com/codehub/gateway/coordinator/dataplane/activity"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

func TestANewTermWaitsForEveryProcess(t *testing.T) {
	h := newHarness(t)
	g := h.gateway("one", h.redis)
	g.flush()
	h.settle(g)
	unused := h.insert(row{phase: workspace.PhaseRunning, accessed: time.Hour, changed: time.Hour})
	next := h.runner(service.New(h.store, service.Options{Logger: zap.NewNop()}))
	if err := next.Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.wants(unused, workspace.DesiredRunning)
	g.flush()
	if err := next.Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.wants(unused, workspace.DesiredStandby)
}

// stopped is a store that simulates that the process is stopped for 20 minutes during a query.
type stopped struct {
	ttl.Store
	clock time.Time
}

func (s *stopped) Unused(ctx context.Context, d, idle time.Duration, after store.Unused, limit int) ([]store.Unused, time.Time, error) {
	all, now, err := s.Store.Unused(ctx, d, idle, after, limit)
	s.clock = s.clock.Add(20 * time.Minute)
	return all, now, err
}

// While the process is stopped, workspaces may be used through another gateway. These uses are in Redis, and the
// process has not read them yet.
func TestAProcessThatWasStoppedDuringATickJudgesNobodyByWhatItKnewBefore(t *testing.T) {
	h := newHarness(t)
	used := h.insert(row{phase: workspace.PhaseRunning, accessed: time.Hour, changed: time.Hour})
	slept := h.insert(row{phase: workspace.PhaseStandby, changed: 3 * time.Hour})
	database := &stopped{Store: h.store, clock: time.Now()}
	r := h.with(ttl.Options{Store: database}, atOnce())
	r.SetClock(func() time.Time { return database.clock })
	if err := r.Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.wants(used, workspace.DesiredRunning)
	h.wants(slept, workspace.DesiredArchived)
	h.tick()
	h.wants(used, workspace.DesiredStandby)
}

// restarting is a store whose database restarts in the middle of the first tick.
type restarting struct {
	ttl.Store
	restarted bool
}

func (r *restarting) Unused(ctx context.Context, d, idle time.Duration, after store.Unused, limit int) ([]store.Unused, time.Time, error) {
	if !r.restarted {
		r.restarted = true
		return nil, time.Time{}, errors.New("the database is restarting")
	}
	return r.Store.Unused(ctx, d, idle, after, limit)
}

func TestADatabaseThatRestartsDuringATickIsAnOutage(t *testing.T) {
	h := newHarness(t)
	unused := h.insert(row{phase: workspace.PhaseRunning, accessed: time.Hour, changed: time.Hour})
	r := h.with(ttl.Options{Store: &restarting{Store: h.store}}, atOnce())
	g := h.gateway("one", h.redis)
	tick := func() error { return r.Tick(t.Context()) }
	g.flush()
	if err := tick(); err != nil { // the first one waits for all processes
		t.Fatal(err)
	}
	g.flush()
	if err := tick(); err == nil {
		t.Fatal("the outage is not noticed")
	}
	if err := tick(); err != nil {
		t.Fatal(err)
	}
	h.wants(unused, workspace.DesiredRunning)
	g.flush()
	if err := tick(); err != nil {
		t.Fatal(err)
	}
	h.wants(unused, workspace.DesiredStandby)
}

// later is a store whose database is read some time later.
type later struct {
	ttl.Store
	by time.Duration
}

func (l *later) Writers(ctx context.Context) (postgres.Writers, error) {
	w, err := l.Store.Writers(ctx)
	w.Now = w.Now.Add(l.by)
	for i := range w.All {
		w.All[i].Late = w.All[i].Late || l.by > time.Minute
	}
	return w, err
}

func TestAProcessThatIsLateIsNamedOnceAndAKilledOneIsNotWaitedForLong(t *testing.T) {
	h := newHarness(t)
	killed := h.gateway("node-7", h.redis)
	listening, kill := context.WithCancel(t.Context())
	began, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		_ = killed.store.Listen(listening, func() { close(began) }, func(postgres.Notification) {})
	}()
	<-began
	killed.flush()
	core, logs := observer.New(zap.InfoLevel)
	database := &later{Store: h.store}
	runner := h.with(ttl.Options{Store: database, Log: zap.New(core)}, atOnce())
	tick := func() {
		t.Helper()
		if err := runner.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	unused := h.insert(row{phase: workspace.PhaseRunning, accessed: 3 * time.Hour, changed: 3 * time.Hour})
	tick()
	killed.flush()
	database.by = 2 * time.Minute // it has not written since
	tick()
	tick()
	h.wants(unused, workspace.DesiredRunning)
	if all := logs.All(); len(all) != 1 || !strings.Contains(all[0].ContextMap()["error"].(string), "node-7") {
		t.Fatalf("logged %v", all)
	}
	kill()
	<-ended
	wait.Until(t, "postgresql knows that it is gone", func() bool {
		w, err := h.store.Writers(t.Context())
		return err == nil && len(w.All) == 1 && w.All[0].Gone
	})
	tick()
	h.wants(unused, workspace.DesiredRunning)
	database.by += 30 * time.Second
	tick()
	h.wants(unused, workspace.DesiredStandby)
	if all := logs.All(); len(all) != 2 || !strings.Contains(all[1].Message, "again") {
		t.Errorf("logged %v", all)
	}
}

func TestAProcessIsKnownWhileItRuns(t *testing.T) {
	h := newHarness(t)
	g := h.gateway("one", h.redis)
	id := h.insert(row{phase: workspace.PhaseRunning, accessed: time.Hour, changed: time.Hour})
	nodes := func() int {
		w, err := h.store.Writers(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return len(w.All)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	wait.Until(t, "it is known although there is nothing to write", func() bool { return nodes() == 1 })
	g.Record(id)
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if n := nodes(); n != 0 {
		t.Errorf("%d processes are known after a clean stop", n)
	}
	h.tick()
	h.wants(id, workspace.DesiredRunning)
}

// skewed is an activity log whose times come from a Redis with a wrong clock.
type skewed struct {
	ttl.Activity
	by time.Duration
}

func (s skewed) Read(ctx context.Context) (activity.Reading, error) {
	read, err := s.Activity.Read(ctx)
	read.Now = read.Now.Add(s.by)
	for id, at := range read.At {
		read.At[id] = at.Add(s.by)
	}
	return read, err
}

func TestClocksThatAreTenMinutesApartDoNotMatter(t *testing.T) {
	for name, by := range map[string]time.Duration{"behind": -10 * time.Minute, "ahead": 10 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			wrong := func() time.Time { return time.Now().Add(by) }
			g := h.gateway("wrong", h.redis, func(o *activity.Options) { o.Now = wrong })
			g.flush()
			h.Runner = h.with(ttl.Options{Activity: skewed{activity.NewLog(h.redis, ""), by}}, atOnce())
			h.settle(g)
			through := func(what string) {
				t.Helper()
				id := h.insert(row{phase: workspace.PhaseRunning, accessed: time.Hour, changed: time.Hour})
				g.use(id)
				h.tick()
				h.wants(id, workspace.DesiredRunning)
				if d := h.idle(id); d > time.Minute || d < -time.Second {
					t.Errorf("%s: it was used %s ago, according to the database", what, d)
				}
			}
			through("redis")
			refusals["out of memory"](h)
			through("PostgreSQL")
		})
	}
}
