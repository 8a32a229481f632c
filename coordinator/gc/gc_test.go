package gc_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/gc"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
)

func TestOrphansGoAfterTheirDelayAndNothingElseDoes(t *testing.T) {
	h := newHarness(t)
	h.insert(1, fmt.Sprintf("archive_key = '%s', archive_op_id = '%s'", id(1).ArchiveKey(op(1)), op(2)))
	h.insert(2, "phase = 'ERROR', error_reason = 'DataLost'")
	h.insert(3, `conditions = '{"policy.healthy": {"status": "False"}}'`)
	h.insert(4, fmt.Sprintf("archive_key = '%s', archive_op_id = '%s', deleted_at = now(), desired_state = 'DELETED'", id(4).ArchiveKey(op(1)), op(2)))
	var kept, gone []string
	keep := func(key string) { kept = append(kept, key, key+".meta") }
	keep(h.archive(1, 1)) // current
	keep(h.archive(1, 2)) // last operation
	keep(h.archive(2, 9)) // in error
	keep(h.archive(3, 9)) // unhealthy
	superseded := h.archive(1, 3)
	gone = append(gone, superseded, h.archive(4, 1), h.archive(4, 2), h.archive(5, 1))
	// Halves: the archive without its marker, the marker without its archive.
	half := id(1).ArchiveKey(op(4))
	h.put(half)
	lone := id(1).ArchiveKey(op(5))
	h.put(lone + ".meta")
	gone = append(gone, half, lone)
	foreign := []string{"README", "backup/home.tar.zst", string(id(1)) + "/latest/home.tar.zst", superseded + ".part"}
	h.put(foreign...)

	all := h.objects()
	for cycle := range 2 {
		r := h.collect()
		if r.Archives != 10 || r.Orphans != 6 || r.Due != 0 || r.Deleted != 0 || r.Foreign != 4 || r.Objects != len(all) {
			t.Fatalf("cycle %d: %+v", cycle, r)
		}
		h.has(all...)
	}
	slices.Sort(gone)
	if got := h.orphans(); !slices.Equal(got, gone) {
		t.Fatalf("tracked: %q", got)
	}

	h.age(gc.DefaultDelay - time.Minute)
	if r := h.collect(); r.Due != 0 {
		t.Fatalf("a minute too early: %+v", r)
	}
	h.has(all...)

	h.age(time.Minute)
	if r := h.collect(); r.Due != 6 || r.Deleted != 6 || r.Failed != 0 || r.Spared != 0 {
		t.Fatalf("%+v", r)
	}
	h.has(append(kept, foreign...)...)
	if got := h.orphans(); len(got) != 0 {
		t.Fatalf("still tracked: %q", got)
	}
	slices.Sort(h.collected)
	if got := slices.Compact(h.collected); !slices.Equal(got, []workspace.ID{id(1), id(4), id(5)}) {
		t.Fatalf("OnCollected was called with %q", got)
	}
}

func TestAnOrphanThatIsNeededAgainStartsItsDelayAgain(t *testing.T) {
	h := newHarness(t)
	key := h.archive(1, 1)
	h.insert(1, "deleted_at = now(), desired_state = 'DELETED'")
	h.collect()
	h.age(3 * time.Hour)
	// The deletion is undone, and done again.
	h.update(1, fmt.Sprintf("deleted_at = NULL, desired_state = 'ARCHIVED', archive_key = '%s'", key))
	if r := h.collect(); r.Orphans != 0 || len(h.orphans()) != 0 {
		t.Fatalf("%+v", r)
	}
	h.update(1, "deleted_at = now(), desired_state = 'DELETED'")
	if r := h.collect(); r.Orphans != 1 || r.Due != 0 {
		t.Fatalf("%+v", r)
	}
	h.has(key, key+".meta")
}

func TestALostTrackerOnlyPostpones(t *testing.T) {
	h := newHarness(t)
	h.insert(1, "name = 'x'")
	h.archive(1, 1)
	h.collect()
	h.age(3 * time.Hour)
	if err := h.redis.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if r := h.collect(); r.Due != 0 || r.Orphans != 1 {
		t.Fatalf("%+v", r)
	}
	h.age(3 * time.Hour)
	if r := h.collect(); r.Deleted != 1 {
		t.Fatalf("%+v", r)
	}
	h.has()
}

// single lists one object a page.
type single struct{ gc.Archives }

func (s single) List(ctx context.Context, page func([]archive.Object) error) error {
	return s.Archives.List(ctx, func(objects []archive.Object) error {
		for i := range objects {
			if err := page(objects[i : i+1]); err != nil {
				return err
			}
		}
		return nil
	})
}

func TestAPageMayEndBetweenAnArchiveAndItsMarker(t *testing.T) {
	h := newHarness(t)
	h.insert(1, "name = 'x'")
	h.archive(1, 1)
	h.archive(1, 2)
	h.opts.Archives = single{h.archives}
	h.restart()
	if r := h.collect(); r.Objects != 4 || r.Archives != 2 || r.Orphans != 2 {
		t.Fatalf("%+v", r)
	}
}

// lateChange is a store in which a row changes between the listing and the deletion.
type lateChange struct {
	gc.Store
	change func()
	n      int
}

func (l *lateChange) Protection(ctx context.Context, ids []workspace.ID) (map[workspace.ID]store.Protection, error) {
	if l.n++; l.n == 2 {
		l.change()
	}
	return l.Store.Protection(ctx, ids)
}

func TestAChangeJustBeforeTheDeletionStillSavesTheArchive(t *testing.T) {
	h := newHarness(t)
	h.insert(1, "deleted_at = now(), desired_state = 'DELETED'")
	key := h.archive(1, 1)
	h.collect()
	h.age(3 * time.Hour)
	h.opts.Store = &lateChange{Store: h.store, change: func() {
		h.update(1, fmt.Sprintf("deleted_at = NULL, desired_state = 'ARCHIVED', archive_key = '%s'", key))
	}}
	h.restart()
	if r := h.collect(); r.Due != 1 || r.Spared != 1 || r.Deleted != 0 {
		t.Fatalf("%+v", r)
	}
	h.has(key, key+".meta")
}

func TestAProcessThatNoLongerLeadsDeletesNothing(t *testing.T) {
	h := newHarness(t)
	h.insert(1, "name = 'x'")
	key := h.archive(1, 1)
	leads := false
	h.opts.HoldsLease = func() bool { return leads }
	h.restart()
	h.collect() // nothing is due yet
	h.age(3 * time.Hour)
	r, err := h.runner.Collect(t.Context())
	if err == nil || !strings.Contains(err.Error(), "may no longer be the leader") || r.Due != 1 || r.Deleted != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	h.has(key, key+".meta")
	leads = true
	if r := h.collect(); r.Deleted != 1 {
		t.Fatalf("%+v", r)
	}
	h.has()
}

func TestSettingsAreValidatedUnderTheirOptionsNames(t *testing.T) {
	if err := gc.DefaultSettings().Validate(); err != nil {
		t.Error(err)
	}
	err := gc.Settings{Delay: -1, MaxShare: math.NaN()}.Validate()
	for _, name := range []string{"gc_interval: ", "gc_delay: ", "gc_max_share: ", "gc_upload_expiry: "} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%q is not named in: %v", name, err)
		}
	}
	for _, share := range []float64{0, -0.1, 1.1, math.Inf(1)} {
		s := gc.DefaultSettings()
		s.MaxShare = share
		if s.Validate() == nil {
			t.Errorf("a share of %g is accepted", share)
		}
	}
}

// broken is a store or a bucket that fails at one thing.
type broken struct {
	gc.Archives
	gc.Store
	list, protect, count error
	refuse               string
}

func (b broken) List(ctx context.Context, page func([]archive.Object) error) error {
	if err := b.Archives.List(ctx, page); err != nil {
		return err
	}
	return b.list // after some pages
}

func (b broken) Delete(ctx context.Context, keys []string) (map[string]error, error) {
	rest := slices.DeleteFunc(slices.Clone(keys), func(k string) bool { return b.refuse != "" && strings.HasSuffix(k, b.refuse) })
	failed, err := b.Archives.Delete(ctx, rest)
	for _, k := range keys {
		if !slices.Contains(rest, k) {
			failed[k] = errors.New("AccessDenied")
		}
	}
	return maps.Clone(failed), err
}

func (b broken) Protection(ctx context.Context, ids []workspace.ID) (map[workspace.ID]store.Protection, error) {
	if b.protect != nil {
		return nil, b.protect
	}
	return b.Store.Protection(ctx, ids)
}

func (b broken) CountWorkspaces(ctx context.Context) (int64, error) {
	if b.count != nil {
		return 0, b.count
	}
	return b.Store.CountWorkspaces(ctx)
}

func TestWhatFailsSkipsTheCycle(t *testing.T) {
	h := newHarness(t)
	h.insert(1, "name = 'x'")
	key := h.archive(1, 1)
	h.collect()
	h.age(3 * time.Hour)
	out := errors.New("out of order")
	for name, b := range map[string]broken{
		"listing":  {list: out},
		"query":    {protect: out},
		"counting": {count: out},
	} {
		t.Run(name, func(t *testing.T) {
			b.Archives, b.Store = h.archives, h.store
			h.opts.Archives, h.opts.Store = b, b
			h.restart()
			if _, err := h.runner.Collect(t.Context()); !errors.Is(err, out) {
				t.Fatalf("Collect returns %v", err)
			}
			h.has(key, key+".meta")
			if n := len(h.orphans()); n != 1 {
				t.Fatalf("%d orphans are left", n)
			}
		})
	}
}

func TestADeletionThatFailsIsTriedByTheNextCycle(t *testing.T) {
	h := newHarness(t)
	h.insert(1, "name = 'x'")
	a := h.archive(1, 1)
	h.archive(1, 2)
	h.collect()
	h.age(3 * time.Hour)
	h.opts.Archives = broken{Archives: h.archives, refuse: op(1) + "/home.tar.zst.meta"}
	h.restart()
	r, err := h.runner.Collect(t.Context())
	if err == nil || !strings.Contains(err.Error(), a) || r.Deleted != 1 || r.Failed != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	h.has(a + ".meta")
	h.opts.Archives = h.archives
	h.restart()
	if r := h.collect(); r.Deleted != 1 {
		t.Fatalf("%+v", r)
	}
	h.has()
}

func TestWithoutRedisNothingIsDeleted(t *testing.T) {
	h := newHarness(t)
	h.insert(1, "name = 'x'")
	key := h.archive(1, 1)
	h.collect()
	h.age(3 * time.Hour)
	if err := h.server.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := h.runner.Collect(t.Context()); err == nil {
		t.Fatal("Collect succeeds")
	}
	h.has(key, key+".meta")
}
