package gc_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/gc"
)

func TestTheCircuitBreaker(t *testing.T) {
	h := newHarness(t)
	for i := range 41 {
		h.archive(1, i)
	}
	stopped := func(why string) {
		t.Helper()
		all := h.objects()
		h.age(3 * time.Hour)
		r, err := h.runner.Collect(t.Context())
		var breaker *gc.CircuitBreakerError
		if !errors.As(err, &breaker) || !strings.Contains(err.Error(), why) {
			t.Fatalf("%+v, %v; want an error that says %q", r, err, why)
		}
		dry, _, err := h.dryRun()
		if !errors.As(err, &breaker) || dry.Due != r.Due || breaker.Archives != r.Archives {
			t.Errorf("a dry run reports %+v, %v; the cycle %+v", dry, err, r)
		}
		h.has(all...)
	}
	// The wrong database: it is empty.
	if _, err := h.runner.Collect(t.Context()); err == nil {
		t.Fatal("an empty table does not stop the first cycle")
	}
	stopped("the database has no workspaces")

	// A restored database: it protects less than half of the archives.
	for i := range 40 {
		h.archive(100+i, 1)
		h.insert(100+i, fmt.Sprintf("archive_key = '%s'", id(100+i).ArchiveKey(op(1))))
	}
	stopped("41 of 81 archives")
	stopped("gc_max_share (0.5)")
	stopped("COORDINATOR_GC_MAX_SHARE")

	// With one more archive that is needed, the share is only half of all.
	h.archive(200, 1)
	h.insert(200, fmt.Sprintf("archive_key = '%s'", id(200).ArchiveKey(op(1))))
	h.age(3 * time.Hour)
	if r := h.collect(); r.Deleted != 41 {
		t.Fatalf("%+v", r)
	}
}

func TestASmallInstallationMayLoseAll(t *testing.T) {
	h := newHarness(t)
	h.insert(99, "name = 'x'")
	for i := range 20 {
		h.archive(1, i)
	}
	h.collect()
	h.age(3 * time.Hour)
	if r := h.collect(); r.Deleted != 20 {
		t.Fatalf("%+v", r)
	}
	// One archive above the floor needs a higher share.
	for i := range 21 {
		h.archive(1, i)
	}
	h.collect()
	h.age(3 * time.Hour)
	if _, err := h.runner.Collect(t.Context()); err == nil {
		t.Fatal("the circuit breaker does not stop the cycle")
	}
	h.runner.Set(gc.Settings{MaxShare: 1})
	if r := h.collect(); r.Deleted != 21 {
		t.Fatalf("%+v", r)
	}
}
