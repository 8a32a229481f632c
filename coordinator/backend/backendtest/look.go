package backendtest

import (
	"errors"
	"slices"
	"testing"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/internal/work"
	"github.com/codehub/gateway/coordinator/wait"
)

// testLook checks Look with the suite's program only. The tests of package work check what real programs do in a
// container.
func testLook(t *testing.T, f Fixture) {
	installation, id := Installation(), newID()
	b, ctx := f.New(t, installation), Context(t)
	missing := func(what string, b backend.Backend) {
		t.Helper()
		if _, err := b.Look(ctx, id); !errors.Is(err, backend.ErrNotFound) {
			t.Errorf("looking at %s: %v, want %v", what, err, backend.ErrNotFound)
		}
	}
	missing("no container", b)
	started(t, b, id)
	look := func() work.Sample {
		t.Helper()
		s, err := b.Look(ctx, id)
		must(t, err)
		return s
	}
	first := look()
	if !first.Terminals || first.At.IsZero() || first.Container == "" || first.File != nil ||
		first.Label != work.Unasked || first.Kernel != "" {
		t.Errorf("a container in which nothing goes on: %+v", first)
	}
	main := slices.IndexFunc(first.Processes, func(p work.Process) bool { return p.PID == first.Main })
	if main < 0 || first.Processes[main].Session == 0 || first.Processes[main].Foreground >= 0 {
		t.Errorf("the application's process is not listed, or not as it is: %+v", first)
	}
	if again := look(); again.Container != first.Container || again.At.Before(first.At) {
		t.Errorf("the same container: %+v, then %+v", first, again)
	}
	missing("another installation's container", f.New(t, Installation()))
	if f.Pause(t, id) {
		if s, err := b.Look(ctx, id); !errors.Is(err, backend.ErrFrozen) {
			t.Errorf("looking at a paused container: %+v, %v, want %v", s, err, backend.ErrFrozen)
		}
	}
	must(t, b.Delete(ctx, id))
	missing("a container that is gone", b)
	must(t, b.Start(ctx, backend.StartSpec{ID: id}))
	Ready(t, b, id)
	if next := look(); next.Container == first.Container {
		t.Error("another container looks like the one before")
	}
	exitWith(t, Ready(t, b, id), 3)
	wait.Until(t, "container exited", func() bool {
		c, _ := containerOf(t, b, id)
		return !c.Running
	})
	missing("a container that has exited", b)
}
