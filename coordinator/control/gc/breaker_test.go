package gc_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/control/gc"
)

func TestManyArchivesWithoutAWorkspaceStopTheCycle(t *testing.T) {
	h := newHarness(t)
	for i := range 40 {
		h.archive(100+i, 1) // the workspaces of another database
	}
	for i := range 19 {
		h.insert(1+i, current(h.archive(1+i, 1)))
	}
	doomed := h.superseded(50)
	all := h.objects()
	stopped := func(why ...string) {
		t.Helper()
		r, err := gc.Collect(t.Context(), h.opts, gc.Request{}, nil)
		var breaker *gc.CircuitBreakerError
		if !errors.As(err, &breaker) || breaker.Unknown != r.Unknown || breaker.Archives != r.Archives {
			t.Fatalf("%+v, %v", r, err)
		}
		for _, part := range why {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("it does not say %q: %v", part, err)
			}
		}
		if dry, _, err := h.dryRun(gc.Request{}); !errors.As(err, &breaker) || dry.Unknown != r.Unknown || dry.Due != r.Due {
			t.Errorf("a dry run reports %+v, %v; the cycle %+v", dry, err, r)
		}
		h.has(all...)
		h.age(3 * time.Hour)
	}
	stopped()
	stopped("40 of 61 archives belong to no workspace", "which has 20;", "a larger share than 0.5", "caddy codehub gc lists the archives")

	// One cycle can ignore the breaker. It does not delete archives that are only reported.
	r, err := gc.Collect(t.Context(), h.opts, gc.Request{Force: true}, nil)
	if err != nil || r.Deleted != 1 || r.Unknown != 40 {
		t.Fatalf("%+v, %v", r, err)
	}
	h.lacks(doomed)
}

func TestDeletingMostWorkspacesStopsNothing(t *testing.T) {
	h := newHarness(t)
	for i := range 40 {
		set := current(h.archive(i, 1))
		if i < 30 {
			set += ", " + deleted
		}
		h.insert(i, set)
	}
	if r := h.collectLate(); r.Deleted != 30 {
		t.Fatalf("%+v", r)
	}
	h.update(39, "name = 'the last one'")
	for i := 30; i < 40; i++ {
		h.update(i, deleted)
	}
	if r := h.collectLate(); r.Deleted != 10 {
		t.Fatalf("%+v", r)
	}
	h.has()
}

func TestAFewLeftoversStopNothing(t *testing.T) {
	h := newHarness(t)
	for i := range 20 {
		h.archive(100+i, 1)
	}
	h.superseded(1)
	if r := h.collectLate(); r.Deleted != 1 || r.Unknown != 20 {
		t.Fatalf("%+v", r)
	}
}

// Even a few archives do not fit a database without workspaces.
func TestAnEmptyDatabaseStopsTheCycle(t *testing.T) {
	h := newHarness(t)
	h.archive(1, 1)
	var breaker *gc.CircuitBreakerError
	if r, err := gc.Collect(t.Context(), h.opts, gc.Request{}, nil); !errors.As(err, &breaker) || breaker.Workspaces != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	h.insert(2, "name = 'x'")
	if r := h.collect(); r.Unknown != 1 {
		t.Fatalf("%+v", r)
	}
}

func TestCountingThatFailsSkipsTheCycle(t *testing.T) {
	h := newHarness(t)
	h.archive(1, 1)
	out := errors.New("out of order")
	h.opts.Store = broken{Store: h.store, count: out}
	if _, err := gc.Collect(t.Context(), h.opts, gc.Request{Force: true}, nil); !errors.Is(err, out) {
		t.Fatalf("Collect returns %v", err)
	}
}
