package route

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
)

const (
	one = workspace.ID("00000000-0000-4000-8000-000000000001")
	two = workspace.ID("00000000-0000-4000-8000-000000000002")
)

// rows is a table of rows that the test writes.
type rows struct {
	mu    sync.Mutex
	byID  map[workspace.ID]store.Route
	err   error
	calls int
}

func (r *rows) Routes(_ context.Context, ids ...workspace.ID) ([]store.Route, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls++
	if r.err != nil {
		return nil, r.err
	}
	var out []store.Route
	if len(ids) == 0 {
		for _, row := range r.byID {
			out = append(out, row)
		}
	}
	for _, id := range ids {
		if row, ok := r.byID[id]; ok {
			out = append(out, row)
		}
	}
	return out, nil
}

func (r *rows) set(row store.Route) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.byID[row.ID] = row
}

func (r *rows) drop(id workspace.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byID, id)
}

func (r *rows) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
}

func running(id workspace.ID, endpoint string, since int64) store.Route {
	return store.Route{
		ID: id, OwnerID: "u", Phase: workspace.PhaseRunning, Endpoint: endpoint,
		Operation: workspace.OpNone, Desired: workspace.DesiredRunning, PhaseChangedAt: time.Unix(since, 0),
	}
}

// start runs a table over src inside a synctest bubble.
func start(t *testing.T, src Source) *Table {
	t.Helper()
	return startLogging(t, src, zap.NewNop())
}

func startLogging(t *testing.T, src Source, log *zap.Logger) *Table {
	t.Helper()
	table := New(src, 0, log)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); table.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return table
}

func TestTableFollowsNotifications(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &rows{byID: map[workspace.ID]store.Route{one: {ID: one, Phase: workspace.PhaseStandby}}}
		table := start(t, src)
		<-table.Loaded()
		e, ok := table.Lookup(one)
		if !ok || e.State().Route.Phase != workspace.PhaseStandby || !table.Ready() {
			t.Fatalf("after loading: %v %+v", ok, e)
		}
		before := e.State()
		src.set(running(one, "10.0.0.1:80", 1))
		src.set(running(two, "10.0.0.2:80", 1))
		table.Notify(store.Notification{WorkspaceID: one})
		table.Notify(store.Notification{WorkspaceID: two})
		table.Notify(store.Notification{SessionID: "x"})
		<-before.Changed()
		if s := e.State(); !s.Running() || s.Ready() {
			t.Fatalf("state is %+v", s)
		}
		synctest.Wait()
		if _, ok := table.Lookup(two); !ok || len(table.ids()) != 2 {
			t.Fatal("a new workspace did not arrive")
		}
		last := e.State()
		src.drop(one)
		table.Refresh(one)
		<-last.Changed()
		if s := e.State(); !s.Gone || s.Exists() {
			t.Fatalf("removed entry is %+v", s)
		}
		if _, ok := table.Lookup(one); ok {
			t.Fatal("a removed workspace is still there")
		}
	})
}

func TestTableCorrectsItselfWithoutNotifications(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &rows{byID: map[workspace.ID]store.Route{one: {ID: one, Phase: workspace.PhaseStandby}}}
		table := start(t, src)
		<-table.Loaded()
		e, _ := table.Lookup(one)
		was := e.State()
		src.set(running(one, "10.0.0.1:80", 1))
		began := time.Now()
		<-was.Changed()
		if d := time.Since(began); d > DefaultResync {
			t.Fatalf("it took %s", d)
		}
		src.drop(one)
		was = e.State()
		<-was.Changed()
		if !e.State().Gone {
			t.Fatal("a lost deletion was not noticed")
		}
	})
}

func TestTableKeepsWhatItHasWhileTheDatabaseIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &rows{byID: map[workspace.ID]store.Route{one: {ID: one, Phase: workspace.PhaseStandby}}}
		table := start(t, src)
		<-table.Loaded()
		e, _ := table.Lookup(one)
		was := e.State()
		src.fail(errors.New("away"))
		src.set(running(one, "10.0.0.1:80", 1))
		table.Refresh(one)
		time.Sleep(20 * time.Second) // of the bubble's clock
		if e.State() != was {
			t.Fatal("the entry changed without a row")
		}
		src.fail(nil)
		<-was.Changed()
		if !e.State().Running() {
			t.Fatal("the notification was lost during the outage of the database")
		}
	})
}

func TestEveryChangeSignalsAllWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &rows{byID: map[workspace.ID]store.Route{one: {ID: one, Phase: workspace.PhaseStandby}}}
		table := start(t, src)
		<-table.Loaded()
		if _, ok := table.Lookup(two); ok {
			t.Fatal("found a workspace that does not exist")
		}
		e, _ := table.Lookup(one)
		// next changes the row and returns the state that all waiting goroutines get.
		next := func(row store.Route) *State {
			t.Helper()
			was := e.State()
			woken := make(chan struct{}, 3)
			for range cap(woken) {
				go func() { <-was.Changed(); woken <- struct{}{} }()
			}
			synctest.Wait()
			if len(woken) != 0 {
				t.Fatal("woken without a change")
			}
			src.set(row)
			table.Refresh(one)
			for range cap(woken) {
				<-woken
			}
			return e.State()
		}
		r := running(one, "10.0.0.1:80", 1)
		if s := next(r); !s.Running() || s.Route.Endpoint != "10.0.0.1:80" || !s.Exists() {
			t.Fatalf("running: %+v", s)
		}
		r.Deleted = true
		if s := next(r); s.Exists() || s.Gone {
			t.Fatalf("deleted, its remains are still there: %+v", s)
		}
	})
}

func TestAnOutageOfTheDatabaseIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.InfoLevel)
		src := &rows{byID: map[workspace.ID]store.Route{}, err: errors.New("away")}
		table := startLogging(t, src, zap.New(core))
		time.Sleep(time.Minute) // of the bubble's clock
		if n := logs.Len(); n != 1 || table.Ready() {
			t.Fatalf("%d lines after a minute without the database, ready %v", n, table.Ready())
		}
		src.mu.Lock()
		calls := src.calls
		src.mu.Unlock()
		if calls < 10 || calls > 25 {
			t.Errorf("the database was asked %d times in a minute", calls)
		}
		src.fail(nil)
		<-table.Loaded()
		synctest.Wait()
		if all := logs.All(); len(all) != 2 || all[1].Message != "the route table is up to date again" {
			t.Fatalf("logged %v", all)
		}
	})
}

func TestAnsweredBelongsToOneRun(t *testing.T) {
	e := newEntry(running(one, "10.0.0.1:80", 1))
	first := e.State()
	e.SetAnswered(first, true)
	if !e.State().Ready() {
		t.Fatal("not ready after an answer")
	}
	select {
	case <-first.Changed():
	default:
		t.Fatal("the answer did not signal a change")
	}

	next := running(one, "10.0.0.1:80", 1)
	next.Name = "renamed"
	e.update(next)
	if !e.State().Ready() {
		t.Fatal("a change of the name discarded the answer")
	}
	// The same address again, after the phases in between were missed.
	e.update(running(one, "10.0.0.1:80", 2))
	if e.State().Ready() {
		t.Fatal("the next container inherited the answer of the one before")
	}
	e.SetAnswered(first, true)
	if e.State().Ready() {
		t.Fatal("a late answer of an earlier container counted")
	}
	e.SetAnswered(e.State(), true)
	e.SetAnswered(e.State(), false)
	if e.State().Ready() {
		t.Fatal("the answer was not withdrawn")
	}
	e.SetAnswered(e.State(), true)
	e.update(store.Route{ID: one, Phase: workspace.PhaseStandby})
	if e.State().Answered {
		t.Fatal("a workspace in standby counts as answering")
	}
}

func TestUnchangedRowsSignalNothing(t *testing.T) {
	e := newEntry(running(one, "10.0.0.1:80", 1))
	s := e.State()
	again := running(one, "10.0.0.1:80", 1)
	again.PhaseChangedAt = again.PhaseChangedAt.UTC()
	again.LastAccessAt = time.Unix(99, 0)
	e.update(again)
	if e.State() != s {
		t.Fatal("the same row, read again, counts as a change")
	}
}

func TestLookupAllocatesNothing(t *testing.T) {
	table := New(&rows{}, 0, zap.NewNop())
	table.put(running(one, "10.0.0.1:80", 1))
	if n := testing.AllocsPerRun(100, func() {
		e, ok := table.Lookup(one)
		if !ok || !e.State().Running() {
			t.Fatal("not found")
		}
	}); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

func BenchmarkLookup(b *testing.B) {
	table := New(&rows{}, 0, zap.NewNop())
	table.put(running(one, "10.0.0.1:80", 1))
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if e, ok := table.Lookup(one); !ok || e.State().Ready() {
				b.Fatal("lookup")
			}
		}
	})
}
