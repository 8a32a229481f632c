package route

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
)

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
		// change passes a row on, and waits until the waiting callers have seen it.
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

// TestTheComparisonFindsWhatTheFeedMissed: without the feed and notifications, the comparison finds everything.
func TestTheComparisonFindsWhatTheFeedMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDatabase(running(one, "10.0.0.1:80", 1))
		for n := range 250 { // several steps
			d.set(running(numbered(n), "10.0.0.2:80", 1))
		}
		var feed feed
		table := start(t, d, Options{Feed: &feed})
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
		if _, ok := table.Lookup(two); !ok || len(feed.missed) != 2 {
			t.Errorf("a started workspace is found: %v; the feed is told of %v", ok, feed.missed)
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
		// A backup was restored: all rows have lower revisions, the workspace one sleeps, and the workspace two does
		// not exist.
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
	e := newEntry(running(one, "10.0.0.1:80", 1), 0, new(Table))
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
	// The same address again, with the phases in between missed.
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
	e := newEntry(row, 2, new(Table))
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
