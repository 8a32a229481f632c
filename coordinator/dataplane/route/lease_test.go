package route

import (
	"errors"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/clock"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/wait"
)

// leased returns a filled and confirmed table with a running workspace, its entry, and the run of its container.
func leased(t *testing.T) (*Table, *Entry, string) {
	t.Helper()
	table := New(nil, Options{}, zap.NewNop())
	table.filled = clock.Now()
	table.Confirmed(clock.Moment{}, clock.Now())
	table.Changed([]store.Route{running(one, "10.0.0.1:80", 1)}, 0)
	e, ok := table.Lookup(one)
	if !ok {
		t.Fatal("the workspace is not in the table")
	}
	address, run, ok := AddressOf(e.State().Key("10.0.0.1:80"))
	if !ok || address != "10.0.0.1:80" || run == "" || run != e.State().Run() {
		t.Fatalf("the key is for %q, %q", address, run)
	}
	return table, e, run
}

func TestAnotherPortIsDialedOfTheSameContainer(t *testing.T) {
	_, e, run := leased(t)
	st := e.State().AtPort(3000)
	if address, of, ok := AddressOf(st.Key(st.Route.Endpoint)); !ok || address != "10.0.0.1:3000" || of != run {
		t.Errorf("the key of the port is for %q, %q", address, of)
	}
	if address, _, _ := AddressOf(e.State().Key("10.0.0.1:80")); address != "10.0.0.1:80" {
		t.Errorf("the key of the application is for %q", address)
	}
}

func TestMayDial(t *testing.T) {
	table, e, run := leased(t)
	check := func(when string, run string, want error) {
		t.Helper()
		if err := table.MayDial(run); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", when, err, want)
		}
	}
	check("running", run, nil)
	check("a container that never was", "77", ErrEnded)

	// A stopped process: the timer has not run yet.
	table.lease.timer.Stop()
	table.SetLease(MinLease)
	table.lease.mu.Lock()
	table.lease.timer.Stop()
	table.lease.length = -1
	table.lease.mu.Unlock()
	if !table.Fresh() {
		t.Fatal("the timer has run: nothing was tested")
	}
	check("after a long stop", run, ErrUnconfirmed)
	if table.Fresh() {
		t.Error("routes are used although the lease has run out")
	}
	again := table.FreshAgain()
	table.SetLease(time.Minute)
	<-again
	check("confirmed again", run, nil)

	table.Distrust(true)
	check("beside another engine", run, ErrUnconfirmed)
	table.Distrust(false)

	ended := make(chan string, 3)
	table.AfterRun(run, func() { ended <- "watched" })
	if stop := table.AfterRun(run, func() { ended <- "taken back" }); !stop() {
		t.Error("what was asked for cannot be taken back")
	}
	// The next container, at the same address.
	next := running(one, "10.0.0.1:80", 2)
	next.Revision = e.State().Route.Revision + 1
	table.Changed([]store.Route{next}, 0)
	check("the former container", run, ErrEnded)
	if got := <-ended; got != "watched" {
		t.Errorf("called: %s", got)
	}
	table.AfterRun(run, func() { ended <- "late" })
	if got := <-ended; got != "late" {
		t.Errorf("called: %s", got)
	}
	check("the next container", e.State().Run(), nil)
	last := e.State().Run()
	gone := next
	gone.Deleted, gone.Revision = true, next.Revision+1
	table.Changed([]store.Route{gone}, 0)
	check("a deleted workspace", last, ErrEnded)
	if n := len(table.runs.live); n != 0 {
		t.Errorf("%d containers are left", n)
	}
}

func TestTheLeaseRunsOut(t *testing.T) {
	feed := feed{stale: make(chan struct{}, 1)}
	table := New(nil, Options{Feed: &feed}, zap.NewNop())
	if table.Fresh() {
		t.Error("a table that knows nothing is fresh")
	}
	table.SetLease(10 * time.Millisecond)
	table.filled = clock.Now()
	table.Confirmed(clock.Moment{}, clock.Now())
	<-feed.stale
	wait.Until(t, "the routes are not used", func() bool { return !table.Fresh() })
	// A confirmation of a period that began after the filling does not count, and the table is filled again to find the
	// missed changes.
	table.SetLease(time.Minute)
	table.Distrust(true)
	table.Confirmed(clock.Now(), clock.Now())
	select {
	case <-table.reload:
	default:
		t.Error("the table is not filled again after a gap")
	}
}

func TestQuarantineIsLongerThanAnyLease(t *testing.T) {
	table := New(nil, Options{}, zap.NewNop())
	if got := table.Quarantine(); got != DefaultLease+time.Minute {
		t.Errorf("%s", got)
	}
	table.SetLease(time.Minute)
	if got := table.Quarantine(); got != DefaultLease+time.Minute {
		t.Errorf("%s after the lease became shorter: other routes have the longer one", got)
	}
	table.lease.former = 0
	if got := table.Quarantine(); got != 2*time.Minute {
		t.Errorf("%s for a lease of a minute", got)
	}
	if CheckLease(time.Second) == nil || CheckLease(DefaultLease) != nil {
		t.Error("the shortest lease is wrong")
	}
}

func TestKeys(t *testing.T) {
	for address, want := range map[string]string{
		"10.0.0.1:80": "10.0.0.1:80", "10.0.0.1:65535": "10.0.0.1:65535", "10.0.0.1": "10.0.0.1:80", "[fd00::1]:8080": "[fd00::1]:8080", "[fd00::1]": "[fd00::1]:80",
	} {
		if got, run, ok := AddressOf(keyOf(address, "12")); got != want || run != "12" || !ok {
			t.Errorf("%s: %s, %s, %v", address, got, run, ok)
		}
	}
	for _, other := range []string{"", "proxy:3128", "10.0.0.1:65535", "name"} {
		if got, _, ok := AddressOf(other); ok {
			t.Errorf("%q is a key for %s", other, got)
		}
	}
}
