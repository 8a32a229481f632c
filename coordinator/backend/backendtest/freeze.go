package backendtest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// testFrozen checks how each part of a backend handles a frozen container.
func testFrozen(t *testing.T, f Fixture) {
	if f.New(t, Installation()).Freezer == nil {
		t.Skip("nothing here can freeze a container")
	}
	for name, test := range map[string]func(*testing.T, Fixture){
		"Observed":    testFrozenObserved,
		"Incarnation": testFrozenIncarnation,
		"NotDue":      testFreezeNotDue,
		"Traffic":     testFrozenTraffic,
		"Inspected":   testFrozenInspected,
		"Replaced":    testFrozenReplaced,
		"Removed":     testFrozenRemoved,
		"Others":      testFreezeOthers,
		"AtOnce":      testFreezeAtOnce,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, f)
		})
	}
}

// frozen freezes the container of a running workspace and returns the state that it had before.
func frozen(t *testing.T, b backend.Backend, id workspace.ID) workspace.Container {
	t.Helper()
	was, _ := containerOf(t, b, id)
	if was.StartedAt.IsZero() {
		t.Fatalf("the start of a running container is not known: %+v", was)
	}
	must(t, b.Freezer.Freeze(Context(t), id, was.StartedAt))
	shows(t, b, id, func(c workspace.Container) bool { return c.Health == workspace.HealthPaused })
	wantHealth(t, b, id, workspace.HealthPaused)
	return was
}

// thawed thaws the container and waits until it has its former state again. An engine may list the change late.
func thawed(t *testing.T, b backend.Backend, id workspace.ID, was workspace.Container) {
	t.Helper()
	must(t, b.Freezer.Thaw(Context(t), id))
	shows(t, b, id, func(c workspace.Container) bool { return c == was })
}

// shows waits until the listed container satisfies the condition.
func shows(t *testing.T, b backend.Backend, id workspace.ID, so func(workspace.Container) bool) {
	t.Helper()
	wait.For(t, "the listing shows the change", func() error {
		if c, _ := containerOf(t, b, id); !so(c) {
			return fmt.Errorf("the container is %+v", c)
		}
		return nil
	})
}

// wantHealth fails the test unless the workspace's container runs and has that health.
func wantHealth(t *testing.T, b backend.Backend, id workspace.ID, want workspace.Health) {
	t.Helper()
	if c, ok := containerOf(t, b, id); !ok || !c.Running || c.Health != want || c.Ready != (want == "") {
		t.Fatalf("the container is %+v (exists: %t), want it running with health %q", c, ok, want)
	}
}

// testFrozenObserved freezes and thaws a container twice, with calls from two processes. It checks that both processes
// see each change, and that the second process receives the events.
func testFrozenObserved(t *testing.T, f Fixture) {
	installation, id := Installation(), newID()
	b, other := f.New(t, installation), f.New(t, installation)
	ctx, cancel := context.WithCancel(Context(t))
	defer cancel()
	must(t, b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
	must(t, b.Start(ctx, backend.StartSpec{ID: id, BasePath: "/w/" + string(id)}))
	Ready(t, b, id)
	events, err := other.Events(ctx)
	must(t, err)
	hint := func(what string, want workspace.Health) {
		t.Helper()
		for timeout := time.After(wait.Timeout); ; {
			select {
			case _, ok := <-events:
				if c, _ := containerOf(t, other, id); ok && c.Health == want {
					return
				}
			case <-timeout:
				t.Fatalf("%s: no event after which it shows", what)
			}
		}
	}
	for range 2 {
		was := frozen(t, b, id)
		hint("frozen", workspace.HealthPaused)
		must(t, other.Freezer.Freeze(ctx, id, was.StartedAt))
		want := was
		want.Ready, want.Health = false, workspace.HealthPaused
		shows(t, b, id, func(c workspace.Container) bool {
			all, err := other.Containers(ctx)
			must(t, err)
			return c == want && all[id] == want
		})
		must(t, other.Freezer.Thaw(ctx, id))
		hint("thawed", "")
		thawed(t, b, id, was)
	}
	Ready(t, b, id)
}

// testFrozenIncarnation checks that a decision about one container does not freeze its successor.
func testFrozenIncarnation(t *testing.T, f Fixture) {
	b, id, ctx := f.New(t, Installation()), newID(), Context(t)
	started(t, b, id)
	first, _ := containerOf(t, b, id)
	for _, at := range []time.Time{
		{}, first.StartedAt.Add(-time.Second), first.StartedAt.Add(2 * time.Microsecond), first.StartedAt.Add(time.Hour),
	} {
		must(t, b.Freezer.Freeze(ctx, id, at))
		wantHealth(t, b, id, "")
	}
	must(t, b.Delete(ctx, id))
	must(t, b.Start(ctx, backend.StartSpec{ID: id}))
	Ready(t, b, id)
	must(t, b.Freezer.Freeze(ctx, id, first.StartedAt))
	wantHealth(t, b, id, "")
	// The database keeps the time to the microsecond.
	second, _ := containerOf(t, b, id)
	must(t, b.Freezer.Freeze(ctx, id, second.StartedAt.Round(time.Microsecond)))
	wantHealth(t, b, id, workspace.HealthPaused)
}

// testFreezeNotDue checks the cases in which there is nothing to freeze or to thaw. It also checks that a caller whose
// lease has lapsed can do neither.
func testFreezeNotDue(t *testing.T, f Fixture) {
	b, id, ctx := f.New(t, Installation()), newID(), Context(t)
	nothing := func(what string) {
		t.Helper()
		c, _ := containerOf(t, b, id)
		at := c.StartedAt
		if at.IsZero() {
			at = time.Now()
		}
		if err := errors.Join(b.Freezer.Freeze(ctx, id, at), b.Freezer.Thaw(ctx, id)); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if after, _ := containerOf(t, b, id); after != c {
			t.Errorf("%s: %+v, and then %+v", what, c, after)
		}
	}
	nothing("without a volume")
	must(t, b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
	nothing("without a container")
	must(t, b.Start(ctx, backend.StartSpec{ID: id}))
	endpoint := Ready(t, b, id)

	c, _ := containerOf(t, b, id)
	lapsed := backend.WithLease(ctx, func() bool { return false })
	if err := b.Freezer.Freeze(lapsed, id, c.StartedAt); !errors.Is(err, backend.ErrLeaseLapsed) {
		t.Errorf("without the lease: %v, want %v", err, backend.ErrLeaseLapsed)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if err := b.Freezer.Freeze(ended, id, c.StartedAt); !errors.Is(err, context.Canceled) {
		t.Errorf("with a cancelled context: %v", err)
	}
	wantHealth(t, b, id, "")
	must(t, b.Freezer.Freeze(ctx, id, c.StartedAt))
	if err := b.Freezer.Thaw(lapsed, id); !errors.Is(err, backend.ErrLeaseLapsed) {
		t.Errorf("thawed without the lease: %v, want %v", err, backend.ErrLeaseLapsed)
	}
	if err := b.Freezer.Thaw(ended, id); !errors.Is(err, context.Canceled) {
		t.Errorf("thawed with a cancelled context: %v", err)
	}
	wantHealth(t, b, id, workspace.HealthPaused)
	thawed(t, b, id, c)

	exitWith(t, endpoint, 3)
	wait.Until(t, "container exited", func() bool { c, _ := containerOf(t, b, id); return !c.Running })
	nothing("when it has ended")
	for _, bad := range []workspace.ID{"", "../../etc"} {
		for what, err := range map[string]error{"Freeze": b.Freezer.Freeze(ctx, bad, time.Now()), "Thaw": b.Freezer.Thaw(ctx, bad)} {
			if !errors.Is(err, workspace.ErrInvalidID) {
				t.Errorf("%s(%q): %v, want %v", what, bad, err, workspace.ErrInvalidID)
			}
		}
	}
}

// tick parses a line of the test workspace's ticks.
func tick(t *testing.T, line string) (n int, at time.Time) {
	t.Helper()
	var nanos int64
	if _, err := fmt.Sscan(line, &n, &nanos); err != nil {
		t.Fatalf("a tick is %q: %v", line, err)
	}
	return n, time.Unix(0, nanos)
}

// unanswered is how long a frozen workspace is watched. A running one would have answered by then.
const unanswered = 300 * time.Millisecond

// testFrozenTraffic checks that a program stops in the middle of a response and of a file, that new requests wait
// meanwhile, and that everything continues where it stopped.
func testFrozenTraffic(t *testing.T, f Fixture) {
	b, id, ctx := f.New(t, Installation()), newID(), Context(t)
	endpoint := started(t, b, id)
	reading, stop := context.WithCancel(ctx)
	defer stop()
	req, err := http.NewRequestWithContext(reading, http.MethodGet, "http://"+endpoint+"/ticks?name=ticks", nil)
	must(t, err)
	resp, err := http.DefaultClient.Do(req)
	must(t, err)
	defer resp.Body.Close()
	body := bufio.NewReader(resp.Body)
	next := func() (int, time.Time) {
		t.Helper()
		line, err := body.ReadString('\n')
		must(t, err)
		return tick(t, line)
	}
	last, lastAt := next()
	for range 3 {
		last, lastAt = next()
	}
	frozen(t, b, id)
	stopped := time.Now()

	short, cancel := context.WithTimeout(ctx, unanswered)
	defer cancel()
	early, err := http.NewRequestWithContext(short, http.MethodGet, "http://"+endpoint+"/", nil)
	must(t, err)
	if resp, err := http.DefaultClient.Do(early); err == nil {
		resp.Body.Close()
		t.Error("a frozen workspace answers")
	} else if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a request to a frozen workspace: %v, want that it waits", err)
	}
	// This request also arrives while the workspace is frozen, but it waits until the thaw.
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", endpoint)
	must(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "GET / HTTP/1.0\r\nHost: x\r\n\r\n")
	must(t, err)
	thaws := time.Now()
	must(t, b.Freezer.Thaw(ctx, id))
	deadline, _ := ctx.Deadline()
	must(t, conn.SetDeadline(deadline))
	answer, err := io.ReadAll(conn)
	if err != nil || !strings.HasSuffix(string(answer), "hello") {
		t.Errorf("the request that has waited: %q, %v", answer, err)
	}

	gap := time.Duration(0)
	for end := thaws.Add(unanswered); lastAt.Before(end); {
		n, at := next()
		if n != last+1 {
			t.Fatalf("tick %d came after %d", n, last)
		}
		gap = max(gap, at.Sub(lastAt))
		last, lastAt = n, at
	}
	if was := thaws.Sub(stopped); gap < was {
		t.Errorf("while it was frozen for %s, the longest time between two ticks was %s", was, gap)
	}
	stop()
	lines := strings.Split(strings.TrimSuffix(request(t, http.MethodGet, endpoint, "/file?name=ticks", nil), "\n"), "\n")
	for i, line := range lines[:last+1] {
		if n, _ := tick(t, line); n != i {
			t.Fatalf("line %d of the file is %q", i, line)
		}
	}
}

// testFrozenInspected checks that no inspection waits for the thaw. If an inspection needs a running container, it must
// report that the container is frozen.
func testFrozenInspected(t *testing.T, f Fixture) {
	b, id := f.New(t, Installation()), newID()
	// This is far less than the timeout of a test, and far more than any call here takes.
	ctx, cancel := context.WithTimeout(Context(t), time.Minute)
	defer cancel()
	endpoint := started(t, b, id)
	request(t, http.MethodPut, endpoint, "/file?name=large", make([]byte, 5000))
	wait.Until(t, "it has printed", func() bool {
		text, err := b.Logs(ctx, id, 10)
		must(t, err)
		return text == "serving\n"
	})
	before := new(printed)
	beforeEnded := make(chan error, 1)
	go func() { beforeEnded <- b.Follow(ctx, id, 10, before) }()
	wait.Until(t, "the lines of before come", func() bool { return before.has("serving\n") })
	running, err := b.Stats(ctx, id)
	must(t, err)
	was := frozen(t, b, id)

	if code, err := b.Exec(ctx, id, backend.Command{Words: []string{ExecProgram, ExecPrint, "0", "x"}}, io.Discard, io.Discard); !errors.Is(err, backend.ErrFrozen) {
		t.Errorf("a command: exit code %d, %v, want %v", code, err, backend.ErrFrozen)
	}
	if s, err := b.Look(ctx, id); !errors.Is(err, backend.ErrFrozen) {
		t.Errorf("a look: %+v, %v, want %v", s, err, backend.ErrFrozen)
	}
	if text, err := b.Logs(ctx, id, 10); err != nil || text != "serving\n" {
		t.Errorf("its output: %q, %v", text, err)
	}
	leaves, leave := context.WithCancel(ctx)
	during := new(printed)
	duringEnded := make(chan error, 1)
	go func() { duringEnded <- b.Follow(leaves, id, 10, during) }()
	wait.Until(t, "its output comes to who follows it", func() bool { return during.has("serving\n") })
	leave()
	if <-duringEnded == nil {
		t.Error("it has ended for who has left")
	}
	first, err := b.Stats(ctx, id)
	must(t, err)
	if b.LocalHomes {
		if u, err := b.Usage(ctx, 10*time.Second, id); err != nil || u[id].Bytes != 5000 {
			t.Errorf("its home: %+v, %v", u, err)
		}
	}
	second, err := b.Stats(ctx, id)
	must(t, err)
	if first.CPU < running.CPU || second.CPU != first.CPU || second.Processes != -1 || second.Ports != nil {
		t.Errorf("it used %+v, then %+v, and before it was frozen %+v", first, second, running)
	}
	thawed(t, b, id, was)
	if code, err := b.Exec(ctx, id, backend.Command{Words: []string{ExecProgram, ExecPrint, "7", "x"}}, io.Discard, io.Discard); err != nil || code != 7 {
		t.Errorf("a command after the thaw: exit code %d, %v", code, err)
	}
	_, err = b.Look(ctx, id)
	must(t, err)
	exitWith(t, endpoint, 3)
	must(t, <-beforeEnded)
	if !before.has("exiting with 3\n") {
		t.Errorf("who has followed from before has %q", before.text.String())
	}
}

// testFrozenReplaced checks that a start finds and thaws a frozen container, and that a job finds it, too.
func testFrozenReplaced(t *testing.T, f Fixture) {
	b, id, ctx := f.New(t, Installation()), newID(), Context(t)
	endpoint := started(t, b, id)
	was := frozen(t, b, id)
	if err := b.StartJob(ctx, jobSpec(id, workspace.JobArchive)); err == nil {
		t.Error("a storage job starts beside a frozen container")
	}
	if n := f.JobCount(t, id); n != 0 {
		t.Errorf("%d jobs", n)
	}
	if err := b.DeleteVolume(ctx, id, "op"); !errors.Is(err, backend.ErrVolumeInUse) {
		t.Errorf("its volume: %v, want %v", err, backend.ErrVolumeInUse)
	}
	wantHealth(t, b, id, workspace.HealthPaused)
	must(t, b.Start(ctx, backend.StartSpec{ID: id}))
	shows(t, b, id, func(c workspace.Container) bool { return c == was })
	if again := Ready(t, b, id); again != endpoint {
		t.Errorf("it is at %s, before at %s", again, endpoint)
	}
}

// testFrozenRemoved checks that a frozen container can be removed like any other, and quickly.
func testFrozenRemoved(t *testing.T, f Fixture) {
	b, id, ctx := f.New(t, Installation()), newID(), Context(t)
	must(t, b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
	for what, remove := range map[string]func() error{
		"Delete": func() error { return b.Delete(ctx, id) },
		"Remove": func() error { return b.Remove(ctx, objects(t, b)[backend.ObjectContainer]) },
	} {
		wait.Quick(t, what, 8*time.Second, func() time.Duration {
			must(t, b.Start(ctx, backend.StartSpec{ID: id}))
			Ready(t, b, id)
			frozen(t, b, id)
			begin := time.Now()
			must(t, remove())
			took := time.Since(begin)
			if f.ContainerExists(t, id) {
				t.Fatalf("%s has left the container", what)
			}
			return took
		})
	}
	must(t, b.DeleteVolume(ctx, id, "op"))
}

// testFreezeOthers checks that containers with the label of another installation, or without labels, are never touched.
func testFreezeOthers(t *testing.T, f Fixture) {
	mine, theirs, id, ctx := f.New(t, Installation()), f.New(t, Installation()), newID(), Context(t)
	started(t, theirs, id)
	c, _ := containerOf(t, theirs, id)
	if err := mine.Freezer.Freeze(ctx, id, c.StartedAt); err == nil || !strings.Contains(err.Error(), id.ContainerName()) {
		t.Errorf("another installation's container was frozen: %v", err)
	}
	wantHealth(t, theirs, id, "")
	must(t, theirs.Freezer.Freeze(ctx, id, c.StartedAt))
	if err := mine.Freezer.Thaw(ctx, id); err == nil || !strings.Contains(err.Error(), id.ContainerName()) {
		t.Errorf("another installation's container was thawed: %v", err)
	}
	_, exec := mine.Exec(ctx, id, backend.Command{Words: []string{ExecProgram}}, io.Discard, io.Discard)
	_, look := mine.Look(ctx, id)
	if !errors.Is(exec, backend.ErrNotFound) || !errors.Is(look, backend.ErrNotFound) {
		t.Errorf("another installation's frozen container: %v and %v, want %v", exec, look, backend.ErrNotFound)
	}
	wantHealth(t, theirs, id, workspace.HealthPaused)

	bare := newID()
	f.UnlabeledContainer(t, bare)
	for what, err := range map[string]error{"Freeze": mine.Freezer.Freeze(ctx, bare, time.Now()), "Thaw": mine.Freezer.Thaw(ctx, bare)} {
		if err == nil || !strings.Contains(err.Error(), bare.ContainerName()) {
			t.Errorf("%s of a container without labels: %v, want an error that names it", what, err)
		}
	}
}

// testFreezeAtOnce freezes, thaws and starts the same container from several processes at the same time.
func testFreezeAtOnce(t *testing.T, f Fixture) {
	installation, id, ctx := Installation(), newID(), Context(t)
	backends := []backend.Backend{f.New(t, installation), f.New(t, installation)}
	started(t, backends[0], id)
	c, _ := containerOf(t, backends[0], id)
	errs := make([]error, 12)
	var wg sync.WaitGroup
	for i := range errs {
		b := backends[i%2]
		wg.Go(func() {
			switch {
			case i < 5:
				errs[i] = b.Freezer.Freeze(ctx, id, c.StartedAt)
			case i < 10:
				errs[i] = b.Freezer.Thaw(ctx, id)
			default:
				errs[i] = b.Start(ctx, backend.StartSpec{ID: id})
			}
		})
	}
	wg.Wait()
	must(t, errors.Join(errs...))
	shows(t, backends[0], id, func(now workspace.Container) bool {
		must(t, backends[1].Freezer.Thaw(ctx, id))
		return now == c
	})
	Ready(t, backends[0], id)
}
