package route

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
)

func TestAMissReadsOneRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDatabase(asleep(one), asleep(two))
		table := start(t, d, Options{})
		<-table.Loaded()
		if _, ok := table.Lookup(one); ok || d.queries != 0 {
			t.Fatal("a sleeping workspace is in memory")
		}
		// The first query is held up; requests that arrive meanwhile share the next one.
		d.do(func() { d.gate = make(chan struct{}) })
		var asking sync.WaitGroup
		entries := make(chan *Entry, 200)
		ask := func(id workspace.ID) {
			asking.Go(func() { entries <- table.find(t, id) })
		}
		ask(one)
		synctest.Wait()
		for range 99 {
			ask(one)
			ask(two)
		}
		ask(two)
		synctest.Wait()
		close(d.gate)
		asking.Wait()
		close(entries)
		seen := map[*Entry]int{}
		for e := range entries {
			seen[e]++
		}
		if len(seen) != 2 || d.queries != 2 || d.read != 2 {
			t.Errorf("%d entries, %d queries, %d rows for 200 requests", len(seen), d.queries, d.read)
		}
		table.find(t, one)
		if d.queries != 2 {
			t.Error("a workspace that was just asked for is read again")
		}
	})
}

func TestAnUnknownWorkspaceIsRememberedForAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDatabase()
		table := start(t, d, Options{})
		<-table.Loaded()
		for range 100 {
			if _, err := table.Find(t.Context(), one); !errors.Is(err, ErrNotFound) {
				t.Fatalf("Find = %v", err)
			}
		}
		if d.queries != 1 {
			t.Errorf("%d queries for 100 requests", d.queries)
		}
		// The feed corrects it immediately; otherwise it expires.
		table.Changed([]store.Route{d.set(asleep(one))}, 0)
		table.find(t, one)
		if _, err := table.Find(t.Context(), two); !errors.Is(err, ErrNotFound) {
			t.Fatalf("Find = %v", err)
		}
		d.set(asleep(two))
		time.Sleep(2*tick + time.Second)
		table.find(t, two)
		for n := range 10 * recentHalf {
			table.missing.add(numbered(n))
		}
		if n := len(table.missing.now) + len(table.missing.before); n > 2*recentHalf {
			t.Errorf("%d unknown workspaces are remembered", n)
		}
	})
}

// TestALateAnswerDoesNotReplaceANewerRow: while a query is running, the feed passes on newer rows than the query will
// return.
func TestALateAnswerDoesNotReplaceANewerRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDatabase(asleep(one))
		table := start(t, d, Options{})
		<-table.Loaded()
		// late requests a workspace, passes changes on while the query is running, and returns the result of the request.
		late := func(id workspace.ID, changes ...store.Route) (*Entry, error) {
			gate := make(chan struct{})
			d.do(func() { d.gate = gate })
			done := make(chan struct{})
			var e *Entry
			var err error
			go func() { defer close(done); e, err = table.Find(t.Context(), id) }()
			synctest.Wait()
			for _, row := range changes {
				table.Changed([]store.Route{d.set(row)}, 0)
			}
			d.do(func() { d.gate = nil })
			close(gate)
			<-done
			return e, err
		}
		deleted := asleep(one)
		deleted.Deleted = true
		if e, err := late(one, deleted); !errors.Is(err, ErrNotFound) {
			t.Errorf("deleted meanwhile: %v, %v", e, err)
		}
		if e, err := late(two, asleep(two)); err != nil || e.State().Route.ID != two {
			t.Errorf("created meanwhile: %v", err)
		}
		third := numbered(3)
		d.set(asleep(third))
		if e, err := late(third, running(third, "10.0.0.1:80", 1), running(third, "10.0.0.2:80", 2)); err != nil || e.State().Route.Endpoint != "10.0.0.2:80" {
			t.Errorf("started meanwhile: %v", err)
		}
		fourth := numbered(4)
		d.set(running(fourth, "10.0.0.4:80", 1))
		gate := make(chan struct{})
		d.do(func() { d.gate = gate })
		table.Refresh(fourth)
		synctest.Wait()
		d.set(asleep(fourth))
		table.Refresh(fourth) // its row may have changed after the query read it
		d.do(func() { d.gate = nil })
		close(gate)
		synctest.Wait()
		if e, ok := table.Lookup(fourth); ok {
			t.Errorf("refreshed during a query: %+v", e.State())
		}
		// A different database: rows read before the change say nothing.
		gate = make(chan struct{})
		fifth := numbered(5)
		d.set(running(fifth, "10.0.0.5:80", 1))
		d.do(func() { d.gate = gate })
		found := make(chan error, 1)
		go func() { _, err := table.Find(t.Context(), fifth); found <- err }()
		synctest.Wait()
		d.do(func() { delete(d.byID, fifth); d.gate = nil })
		table.Reset(0)
		close(gate)
		if err := <-found; !errors.Is(err, ErrNotFound) {
			t.Errorf("read from the database before: %v", err)
		}
	})
}

func TestWithoutTheDatabaseNothingIsSaidToBeMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDatabase(running(one, "10.0.0.1:80", 1), asleep(two))
		table := start(t, d, Options{})
		<-table.Loaded()
		d.do(func() { d.err = errors.New("away") })
		if _, err := table.Find(t.Context(), two); err == nil || errors.Is(err, ErrNotFound) {
			t.Errorf("Find = %v", err)
		}
		if e := table.find(t, one); !e.State().Running() {
			t.Error("a running workspace is not served")
		}
		table.Refresh(one)
		time.Sleep(time.Minute)
		if _, ok := table.Lookup(one); !ok {
			t.Error("the table has lost a running workspace")
		}
		d.do(func() { d.err = nil })
		table.find(t, two)
		// A database that does not answer at all.
		d.do(func() { d.gate = make(chan struct{}) })
		began := time.Now()
		if _, err := table.Find(t.Context(), numbered(9)); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != findTimeout {
			t.Errorf("Find = %v after %s", err, time.Since(began))
		}
	})
}

// TestAFloodOfUnknownIDs: however many unknown workspaces are requested, there is one query at a time and a bounded number of
// waiting requests; the others are refused immediately.
func TestAFloodOfUnknownIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDatabase() // panics at two queries at a time
		table := start(t, d, Options{})
		<-table.Loaded()
		gate := make(chan struct{})
		d.do(func() { d.gate = gate })
		const flood = 20_000
		var mu sync.Mutex
		outcomes := map[error]int{}
		var asking sync.WaitGroup
		for n := range flood {
			asking.Go(func() {
				_, err := table.Find(t.Context(), numbered(n))
				mu.Lock()
				defer mu.Unlock()
				outcomes[err]++
			})
		}
		synctest.Wait()
		if outcomes[ErrBusy] != flood-maxFlights || len(outcomes) != 1 {
			t.Errorf("while the database is slow: %v", outcomes)
		}
		d.do(func() { d.gate = nil })
		close(gate)
		asking.Wait()
		if outcomes[ErrNotFound] != maxFlights || d.queries > maxFlights/readBatch+1 {
			t.Errorf("%v, %d queries", outcomes, d.queries)
		}
		if all, _ := table.size(); all != 0 || len(table.flights) != 0 || len(table.waiting) != 0 {
			t.Error("something is left of the flood")
		}
	})
}

func TestTheTableHoldsABoundedNumberThatSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDatabase(running(one, "10.0.0.1:80", 1))
		for n := range 1000 {
			d.set(asleep(numbered(n)))
		}
		table := start(t, d, Options{MaxAsleep: 100})
		<-table.Loaded()
		held := table.find(t, numbered(0))
		held.Pin()
		for n := range 100 {
			table.find(t, numbered(n))
		}
		if _, err := table.Find(t.Context(), numbered(100)); !errors.Is(err, ErrBusy) {
			t.Errorf("all were asked for just now, and another one gets %v", err)
		}
		time.Sleep(2 * time.Minute)
		table.Lookup(numbered(1)) // the most recently requested one
		for n := 100; n < 110; n++ {
			table.find(t, numbered(n))
		}
		if all, asleep := table.size(); asleep > 100 || all != asleep+1 {
			t.Errorf("the table holds %d workspaces, %d of them asleep", all, asleep)
		}
		for n := range 2 {
			if _, ok := table.Lookup(numbered(n)); !ok {
				t.Errorf("number %d, held or just used, has left", n)
			}
		}
		time.Sleep((idleTicks + 1) * tick)
		if _, asleep := table.size(); asleep != 1 {
			t.Errorf("%d stay although only one is held", asleep)
		}
		was := held.State()
		table.Changed([]store.Route{d.set(running(numbered(0), "10.0.0.7:80", 1))}, 0)
		<-was.Changed()
		table.Changed([]store.Route{d.set(asleep(numbered(0)))}, 0)
		held.Unpin()
		time.Sleep((idleTicks + 1) * tick)
		if all, _ := table.size(); all != 1 {
			t.Errorf("%d are left, want the running one", all)
		}
	})
}

func TestTheEndOfTheTableEndsWaitingRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDatabase()
		table := New(d, Options{}, zap.NewNop())
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); table.Run(ctx) }()
		<-table.Loaded()
		d.do(func() { d.gate = make(chan struct{}) })
		found := make(chan error, 1)
		go func() { _, err := table.Find(t.Context(), one); found <- err }()
		synctest.Wait()
		cancel()
		if err := <-found; err == nil || errors.Is(err, ErrNotFound) {
			t.Errorf("Find = %v", err)
		}
		<-done
	})
}
