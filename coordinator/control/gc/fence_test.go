package gc_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/control/gc"
	"github.com/codehub/gateway/coordinator/store/postgres"
)

// term is SQL for a new leader.
const term = `INSERT INTO system_locks AS l (lock_name, holder_id, epoch) VALUES ($1, 'x', 1)
	ON CONFLICT (lock_name) DO UPDATE SET epoch = l.epoch + 1`

func (h *harness) newEpoch(lock string) {
	h.t.Helper()
	if _, err := h.pool.Exec(context.WithoutCancel(h.t.Context()), term, lock); err != nil {
		h.t.Fatal(err)
	}
}

func TestAProcessThatNoLongerLeadsDeletesNothing(t *testing.T) {
	h := newHarness(t)
	h.superseded(1)
	h.collect()
	h.age(3 * time.Hour)
	all := h.objects()
	h.newEpoch("coordinator")
	leads := func() bool { return true }
	fence := postgres.Fence{Lock: "coordinator", Epoch: 1}
	for name, c := range map[string]struct {
		fence postgres.Fence
		lease func() bool
	}{
		"an older epoch": {postgres.Fence{Lock: "coordinator", Epoch: 0}, leads},
		"no lease":       {fence, func() bool { return false }},
	} {
		if r, err := gc.CollectInTerm(t.Context(), h.opts, c.fence, c.lease); err == nil ||
			!strings.Contains(err.Error(), "may no longer be the leader") || r.Deleted != 0 {
			t.Fatalf("%s: %+v, %v", name, r, err)
		}
		h.has(all...)
	}
	// The lease ends at the last moment, after all checks.
	asked := 0
	lease := func() bool { asked++; return asked < 3 }
	if r, err := gc.CollectInTerm(t.Context(), h.opts, fence, lease); err == nil || r.Due != 1 || r.Deleted != 0 || asked != 3 {
		t.Fatalf("%+v, %v, asked %d times", r, err, asked)
	}
	h.has(all...)
	if r, err := gc.CollectInTerm(t.Context(), h.opts, fence, leads); err != nil || r.Deleted != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
}

// during is a bucket that calls a function at the end of the listing.
type during struct {
	gc.Archives
	then func()
}

func (d during) List(ctx context.Context, page func([]archive.Object) error) error {
	defer d.then()
	return d.Archives.List(ctx, page)
}

// A process is stopped during its cycle. When it continues, another process leads or collects, or the bucket has been
// replaced.
func TestWhatHappensDuringTheListingStopsTheDeletion(t *testing.T) {
	for name, c := range map[string]struct {
		then func(h *harness)
		want string
	}{
		"another leader":    {func(h *harness) { h.newEpoch("coordinator") }, "may no longer be the leader"},
		"another collector": {func(h *harness) { h.newEpoch(gc.Lock) }, postgres.ErrNotExclusive.Error()},
		"a lost connection": {func(h *harness) {
			if _, err := h.pool.Exec(h.t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
				WHERE application_name LIKE 'codehub gc %' AND datname = current_database()`); err != nil {
				h.t.Error(err)
			}
		}, postgres.ErrNotExclusive.Error()},
		"another bucket": {func(h *harness) { h.lose(archive.MarkerKey) }, "caddy codehub accept bucket"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			h.newEpoch("coordinator")
			h.superseded(1)
			h.insert(2, current(h.archive(2, 1))+", "+deleted)
			h.collect()
			h.age(3 * time.Hour)
			all := h.objects()
			h.opts.Archives = during{h.opts.Archives, func() { c.then(h) }}
			r, err := gc.CollectInTerm(t.Context(), h.opts, postgres.Fence{Lock: "coordinator", Epoch: 1}, func() bool { return true })
			if err == nil || !strings.Contains(err.Error(), c.want) || r.Due != 2 || r.Deleted != 0 {
				t.Fatalf("%+v, %v", r, err)
			}
			h.has(all...)
			if h.isCollected(2) {
				t.Error("a workspace is marked as collected")
			}
		})
	}
}

// A process that was suspended between the last judgement and the deletion may have missed changes, and deletes
// nothing.
func TestAnOldJudgementDeletesNothing(t *testing.T) {
	h := newHarness(t)
	h.superseded(1)
	h.collect()
	h.age(3 * time.Hour)
	all := h.objects()
	if r, err := gc.CollectHeldUp(t.Context(), h.opts); err == nil || !strings.Contains(err.Error(), "too much time") || r.Due != 1 || r.Deleted != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	h.has(all...)
	if r := h.collect(); r.Deleted != 1 {
		t.Fatalf("the next cycle: %+v", r)
	}
}

func TestACycleEndsItsHoldWhateverHappens(t *testing.T) {
	h := newHarness(t)
	h.insert(1, "name = 'x'")
	out := errors.New("out of order")
	whole := h.opts
	h.opts.Archives = broken{Archives: whole.Archives, list: out}
	if _, err := gc.Collect(t.Context(), h.opts, gc.Request{}, nil); !errors.Is(err, out) {
		t.Fatal(err)
	}
	h.opts = whole
	h.collect()
}
