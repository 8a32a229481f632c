package backendtest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/wait"
)

// printed collects the bytes written to it.
type printed struct {
	mu   sync.Mutex
	text strings.Builder
}

func (p *printed) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

func (p *printed) has(text string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Contains(p.text.String(), text)
}

func testFollow(t *testing.T, f Fixture) {
	b, id, ctx := f.New(t, Installation()), newID(), Context(t)
	if err := b.Follow(ctx, id, 10, new(printed)); !errors.Is(err, backend.ErrNotFound) {
		t.Errorf("without a container: %v, want %v", err, backend.ErrNotFound)
	}
	endpoint := started(t, b, id)
	follow := func(ctx context.Context, lines int, to *printed) <-chan error {
		ended := make(chan error, 1)
		go func() { ended <- b.Follow(ctx, id, lines, to) }()
		return ended
	}
	soon := func(what string, ended <-chan error) error {
		t.Helper()
		select {
		case err := <-ended:
			return err
		case <-time.After(wait.Timeout):
			t.Fatalf("%s holds the caller", what)
			return nil
		}
	}
	all, none, left := new(printed), new(printed), new(printed)
	allEnded, noneEnded := follow(ctx, 10, all), follow(ctx, 0, none)
	leaves, cancel := context.WithCancel(ctx)
	leftEnded := follow(leaves, 10, left)
	for _, p := range []*printed{all, left} {
		wait.Until(t, "the lines of before come", func() bool { return p.has("serving\n") })
	}
	cancel()
	if err := soon("who has left", leftEnded); err == nil {
		t.Error("the container has not ended for who has left")
	}
	exitWith(t, endpoint, 3)
	must(t, soon("a container that has ended", allEnded))
	must(t, soon("a container that has ended", noneEnded))
	if !all.has("serving\n") || !all.has("exiting with 3\n") || none.has("serving") || left.has("exiting") {
		t.Errorf("got %q, without the lines of before %q, and %q", all.text.String(), none.text.String(), left.text.String())
	}
	again := new(printed)
	must(t, soon("a container that has ended before", follow(ctx, 1, again)))
	if text := again.text.String(); text != "exiting with 3\n" {
		t.Errorf("the last line is %q", text)
	}
	must(t, b.Delete(ctx, id))
	wait.Until(t, "a container that is gone has no output", func() bool {
		_, err := b.Logs(ctx, id, 1)
		return errors.Is(err, backend.ErrNotFound) && errors.Is(b.Follow(ctx, id, 1, new(printed)), backend.ErrNotFound)
	})
}

func testStats(t *testing.T, f Fixture) {
	installation, id := Installation(), newID()
	b, ctx := f.New(t, installation), Context(t)
	missing := func(what string, b backend.Backend) {
		t.Helper()
		if s, err := b.Stats(ctx, id); !errors.Is(err, backend.ErrNotFound) {
			t.Errorf("%s uses %+v, %v; want %v", what, s, err, backend.ErrNotFound)
		}
	}
	missing("no container", b)
	started(t, b, id)
	endpoint := Ready(t, b, id)
	first, err := b.Stats(ctx, id)
	must(t, err)
	second, err := b.Stats(ctx, id)
	must(t, err)
	for _, s := range []backend.Stats{first, second} {
		if s.At.IsZero() || s.Memory < -1 || s.CPU < -1 || s.Cores < 0 || s.MemoryLimit < 0 {
			t.Errorf("got %+v", s)
		}
		// An image may lack the programs that find these.
		if s.Processes != -1 && (s.Processes < 1 || s.Ports != nil && !slices.Contains(s.Ports, 8080)) {
			t.Errorf("%d processes, ports %v", s.Processes, s.Ports)
		}
	}
	if second.CPU < first.CPU || second.At.Before(first.At) {
		t.Errorf("it used %v at %v, before that %v at %v", second.CPU, second.At, first.CPU, first.At)
	}
	missing("another installation's container", f.New(t, Installation()))
	exitWith(t, endpoint, 0)
	wait.Until(t, "nothing is known of a container that has ended", func() bool {
		_, err := b.Stats(ctx, id)
		return errors.Is(err, backend.ErrNotFound)
	})
}

// testPorts checks that a port is listed once a process listens on it, and that the process is counted.
func testPorts(t *testing.T, f Fixture) {
	b, id := f.New(t, Installation()), newID()
	ctx, cancel := context.WithCancel(Context(t))
	defer cancel()
	must(t, b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
	must(t, b.Start(ctx, backend.StartSpec{ID: id, Image: f.ShellImage(t)}))
	Ready(t, b, id)
	var count bytes.Buffer
	code, err := b.Exec(ctx, id, backend.Command{Words: []string{"sh", "-c", "cat /sys/fs/cgroup/memory.current; exit 0"}}, &count, io.Discard)
	must(t, err)
	if code != 0 { // the fake of package memory, which has no processes
		return
	}
	before, err := b.Stats(ctx, id)
	must(t, err)
	if before.Processes < 1 || !slices.Equal(before.Ports, []int{8080}) {
		t.Errorf("%d processes, ports %v", before.Processes, before.Ports)
	}
	// The kernel's counters for the container are known if they are visible from inside.
	if count.Len() > 0 && (before.Memory < 0 || before.CPU < 0) || before.Memory == 0 || before.CPU == 0 {
		t.Errorf("the container sees %q, the backend %+v", &count, before)
	}
	inBackground(ctx, b, id, io.Discard, ExecProgram, ExecServe, "9191")
	wait.Until(t, "the port shows", func() bool {
		s, err := b.Stats(ctx, id)
		must(t, err)
		return slices.Equal(s.Ports, []int{8080, 9191}) && s.Processes > before.Processes
	})
}
