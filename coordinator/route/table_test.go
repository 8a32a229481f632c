package route

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
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

// database is a table of rows that the test writes.
type database struct {
	mu       sync.Mutex
	byID     map[workspace.ID]store.Route
	revision int64
	err      error
	queries  int // that named workspaces
	pages    int
	read     int // rows
	busy     int
	gate     chan struct{} // a query waits until it can receive, unless it is nil
}

func newDatabase(rows ...store.Route) *database {
	d := &database{byID: make(map[workspace.ID]store.Route)}
	for _, r := range rows {
		d.set(r)
	}
	return d
}

func (d *database) Routes(ctx context.Context, ids []workspace.ID) ([]store.Route, error) {
	d.mu.Lock()
	d.queries++
	d.busy++
	if d.busy > 1 {
		panic("two queries at a time")
	}
	var out []store.Route
	for _, id := range ids {
		if row, ok := d.byID[id]; ok {
			out = append(out, row)
		}
	}
	d.read += len(out)
	gate, err := d.gate, d.err
	d.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.busy--
	if err != nil {
		return nil, err
	}
	return out, ctx.Err()
}

func (d *database) AwakeRoutes(_ context.Context, after workspace.ID, limit int) ([]store.Route, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pages++
	if d.err != nil {
		return nil, d.err
	}
	var out []store.Route
	for _, r := range d.byID {
		if (&State{Route: r}).Awake() && r.ID > after {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b store.Route) int { return strings.Compare(string(a.ID), string(b.ID)) })
	out = out[:min(len(out), limit)]
	d.read += len(out)
	return out, nil
}

// set writes a row, and returns it with its new revision.
func (d *database) set(row store.Route) store.Route {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.revision++
	row.Revision = d.revision
	d.byID[row.ID] = row
	return row
}

// do changes the database itself.
func (d *database) do(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
}

func running(id workspace.ID, endpoint string, since int64) store.Route {
	return store.Route{
		ID: id, OwnerID: "u", Phase: workspace.PhaseRunning, Endpoint: endpoint,
		Operation: workspace.OpNone, Desired: workspace.DesiredRunning, PhaseChangedAt: time.Unix(since, 0),
	}
}

func asleep(id workspace.ID) store.Route {
	return store.Route{ID: id, OwnerID: "u", Phase: workspace.PhaseArchived, Operation: workspace.OpNone, Desired: workspace.DesiredArchived}
}

// numbered returns the id of the n-th of many workspaces.
func numbered(n int) workspace.ID {
	return workspace.ID(fmt.Sprintf("%08x-0000-4000-8000-000000000000", n+16))
}

// start runs a table over src until the test ends.
func start(t *testing.T, src Source, options Options) *Table {
	t.Helper()
	return startLogging(t, src, options, zap.NewNop())
}

func startLogging(t *testing.T, src Source, options Options, log *zap.Logger) *Table {
	t.Helper()
	table := New(src, options, log)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); table.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return table
}

// find is Find, which must succeed.
func (t *Table) find(test *testing.T, id workspace.ID) *Entry {
	test.Helper()
	e, err := t.Find(test.Context(), id)
	if err != nil {
		test.Fatalf("%s: %v", id, err)
	}
	return e
}

// size returns how many workspaces the table holds, and how many of them sleep.
func (t *Table) size() (all, asleep int) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	n := 0
	for _, e := range t.entries {
		if !e.State().Awake() {
			n++
		}
	}
	if n != t.asleep {
		panic(fmt.Sprintf("%d workspaces sleep, counted as %d", n, t.asleep))
	}
	return len(t.entries), n
}

func TestTheTableHoldsWhatIsAwake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		starting := asleep(two)
		starting.Desired = workspace.DesiredRunning
		d := newDatabase(running(one, "10.0.0.1:80", 1), starting)
		for n := range 3 * loadBatch {
			d.set(asleep(numbered(n)))
		}
		table := start(t, d, Options{})
		<-table.Loaded()
		for _, id := range []workspace.ID{one, two} {
			if _, ok := table.Lookup(id); !ok || !table.Ready() {
				t.Errorf("%s is awake and not in the table", id)
			}
		}
		if all, _ := table.size(); all != 2 {
			t.Errorf("the table holds %d workspaces", all)
		}
		time.Sleep(time.Hour) // of the bubble's clock
		d.mu.Lock()
		defer d.mu.Unlock()
		if rows := float64(d.read) / 360; rows > 4 {
			t.Errorf("the comparison reads %v rows at every step", rows)
		}
	})
}

func TestTheTableFollowsTheFeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDatabase(asleep(one))
		table := start(t, d, Options{})
		<-table.Loaded()
		e := table.find(t, one)
		before := e.State()
		// change passes a row on and waits for those who wait for a change.
		change := func(row store.Route) *State {
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
			table.Changed([]store.Route{d.set(row)}, 0)
			for range cap(woken) {
				<-woken
			}
			return e.State()
		}
		row := asleep(one)
		row.Waiting = &workspace.Waiting{Reason: "PullingImage", Message: "pulling 120 of 540 MB"}
		row.InTransition = true
		if s := change(row); s.Route.Waiting.Message != "pulling 120 of 540 MB" || !s.Awake() || s.Running() {
			t.Errorf("state is %+v", s)
		}
		if s := change(running(one, "10.0.0.1:80", 1)); !s.Running() || s.Ready() || !s.Exists() {
			t.Errorf("running: %+v", s)
		}
		if again, ok := table.Lookup(one); !ok || again != e {
			t.Error("the workspace has got another entry")
		}
		table.Changed([]store.Route{before.Route}, 0)
		if !e.State().Running() {
			t.Error("an older row has replaced a newer one")
		}
		table.Changed([]store.Route{d.set(running(two, "10.0.0.2:80", 1))}, 0)
		if _, ok := table.Lookup(two); !ok {
			t.Error("a workspace that was started is not in the table")
		}
		row.Deleted = true
		if s := change(row); s.Exists() || s.Gone {
			t.Errorf("deleted, its remains are still there: %+v", s)
		}
		if _, ok := table.Lookup(one); ok {
			t.Error("a deleted workspace is in the table")
		}
		if _, err := table.Find(t.Context(), one); !errors.Is(err, ErrNotFound) {
			t.Errorf("a deleted workspace is found: %v", err)
		}
		row.Deleted = false
		table.Changed([]store.Route{d.set(row)}, 0) // undeleted
		table.find(t, one)
	})
}

func TestWhatNobodyAskedForLeavesWhenItSleeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDatabase()
		table := start(t, d, Options{})
		<-table.Loaded()
		for n := range 1000 {
			table.Changed([]store.Route{d.set(running(numbered(n), "10.0.0.1:80", 1))}, 0)
		}
		if all, _ := table.size(); all != 1000 {
			t.Fatalf("%d run", all)
		}
		table.Lookup(numbered(7))
		for n := range 1000 {
			table.Changed([]store.Route{d.set(asleep(numbered(n)))}, 0)
		}
		if all, asleep := table.size(); all != 1 || asleep != 1 {
			t.Fatalf("the table holds %d workspaces, %d of them asleep; one was asked for", all, asleep)
		}
		time.Sleep((idleTicks + 1) * tick)
		synctest.Wait()
		if all, _ := table.size(); all != 0 {
			t.Fatal("what was asked for stays for ever")
		}
	})
}

// The feed and the notifications are not there: the comparison finds everything.
func TestTheComparisonFindsWhatTheFeedMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDatabase(running(one, "10.0.0.1:80", 1))
		for n := range 250 { // several steps
			d.set(running(numbered(n), "10.0.0.2:80", 1))
		}
		var missed []workspace.ID
		table := start(t, d, Options{Missed: func(ids ...workspace.ID) { missed = append(missed, ids...) }})
		<-table.Loaded()
		e, _ := table.Lookup(one)
		was := e.State()
		d.set(asleep(one))
		d.set(running(two, "10.0.0.3:80", 1))
		began := time.Now()
		<-was.Changed()
		if took := time.Since(began); took > 10*tick {
			t.Errorf("it took %s", took)
		}
		time.Sleep(10 * tick)
		synctest.Wait()
		if _, ok := table.Lookup(two); !ok || len(missed) != 2 {
			t.Errorf("a started workspace is found: %v; the feed is told of %v", ok, missed)
		}
		e, _ = table.Lookup(two)
		was = e.State()
		d.do(func() { delete(d.byID, two) })
		<-was.Changed()
		if s := e.State(); !s.Gone || s.Exists() {
			t.Errorf("a workspace without a row is %+v", s)
		}
	})
}

func TestAnotherDatabaseReplacesEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDatabase(running(one, "10.0.0.1:80", 1), asleep(two))
		for range 100 {
			d.set(running(one, "10.0.0.1:80", 1))
		}
		table := start(t, d, Options{})
		<-table.Loaded()
		first, second := table.find(t, one), table.find(t, two)
		// A backup: everything has a lower revision, one sleeps and two does not exist.
		d.do(func() {
			d.revision = 10
			delete(d.byID, two)
			row := asleep(one)
			row.Revision = 10
			d.byID[one] = row
		})
		table.Refresh(one)
		synctest.Wait()
		if !first.State().Running() {
			t.Fatal("a lower revision has replaced a higher one of the same database")
		}
		table.Reset(0)
		synctest.Wait()
		if first.State().Running() || !second.State().Gone {
			t.Errorf("after the reset: %+v, %+v", first.State(), second.State())
		}
		table.Changed([]store.Route{d.set(running(one, "10.0.0.9:80", 2))}, 0)
		if first.State().Route.Endpoint != "10.0.0.9:80" {
			t.Error("the table does not follow the new database")
		}
	})
}

func TestAnOutageOfTheDatabaseIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.InfoLevel)
		d := newDatabase()
		d.err = errors.New("away")
		table := startLogging(t, d, Options{}, zap.New(core))
		time.Sleep(time.Minute) // of the bubble's clock
		if n := logs.Len(); n != 1 || table.Ready() {
			t.Fatalf("%d lines after a minute without the database, ready %v", n, table.Ready())
		}
		d.mu.Lock()
		pages := d.pages
		d.mu.Unlock()
		if pages < 10 || pages > 25 {
			t.Errorf("the database was asked %d times in a minute", pages)
		}
		d.do(func() { d.err = nil })
		<-table.Loaded()
		synctest.Wait()
		if all := logs.All(); len(all) != 2 || all[1].Message != "routes can be read again" {
			t.Fatalf("logged %v", all)
		}
	})
}

func TestAnsweredBelongsToOneRun(t *testing.T) {
	revision := int64(0)
	update := func(e *Entry, r store.Route) {
		revision++
		r.Revision = revision
		e.update(r, 0)
	}
	e := newEntry(running(one, "10.0.0.1:80", 1), 0, new(atomic.Int64))
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
	update(e, next)
	if !e.State().Ready() {
		t.Fatal("a change of the name discarded the answer")
	}
	// The same address again, after the phases in between were missed.
	update(e, running(one, "10.0.0.1:80", 2))
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
	update(e, store.Route{ID: one, Phase: workspace.PhaseStandby})
	if e.State().Answered {
		t.Fatal("a workspace in standby counts as answering")
	}
}

func TestARowThatIsNotNewerSignalsNothing(t *testing.T) {
	row := running(one, "10.0.0.1:80", 1)
	row.Revision = 5
	e := newEntry(row, 2, new(atomic.Int64))
	s := e.State()
	older := asleep(one)
	older.Revision = 4
	late := asleep(one)
	late.Revision = 99
	if e.update(row, 2) || e.update(older, 2) || e.update(late, 1) || e.State() != s {
		t.Fatal("the same row, an older one, or one of an earlier database counts as a change")
	}
	if older.Revision = 1; !e.update(older, 3) {
		t.Fatal("a row of a later database does not count")
	}
}

func TestLookupAllocatesNothing(t *testing.T) {
	table := New(newDatabase(), Options{}, zap.NewNop())
	table.Changed([]store.Route{running(one, "10.0.0.1:80", 1)}, 0)
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
	table := New(newDatabase(), Options{}, zap.NewNop())
	table.Changed([]store.Route{running(one, "10.0.0.1:80", 1)}, 0)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if e, ok := table.Lookup(one); !ok || e.State().Ready() {
				b.Fatal("lookup")
			}
		}
	})
}
