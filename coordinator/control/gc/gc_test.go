package gc_test

import (
	"context"
	"errors"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/control/gc"
	"github.com/codehub/gateway/coordinator/guard"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/storagejob/contract"
)

func TestOrphansGoAfterTheirDelayAndNothingElseDoes(t *testing.T) {
	h := newHarness(t)
	var kept, gone []string
	keep := func(key string) { kept = append(kept, key, key+".meta") }
	superseded, half := h.archive(1, 3), h.half(1, 4)
	lone := h.archive(1, 5)
	h.lose(lone)
	first := h.archive(1, 1)
	keep(first)           // current
	keep(h.archive(1, 2)) // last operation
	keep(h.archive(2, 9)) // in error
	keep(h.archive(3, 9)) // unhealthy
	keep(h.archive(5, 1)) // no such workspace
	keep(h.archive(1, 6)) // newer
	deletedOld, deletedLast := h.archive(4, 1), h.archive(4, 2)
	h.insert(1, current(first)+", archive_op_id = '"+op(2)+"'")
	h.insert(2, "phase = 'ERROR', error_reason = 'DataLost'")
	h.insert(3, `conditions = '{"policy.healthy": {"status": "False"}}'`)
	h.insert(4, current(deletedOld)+", archive_op_id = '"+op(2)+"', "+deleted)
	gone = append(gone, superseded, half, lone, deletedOld, deletedLast)
	foreign := []string{"README", "backup/home.tar.zst", string(id(1)) + "/latest/home.tar.zst", superseded + ".aaa", superseded + ".part"}
	h.put(foreign...)

	all := h.objects()
	for cycle := range 2 {
		r := h.collect()
		// From the second cycle on, the bucket has a marker, which is no foreign object.
		if r.Archives != 11 || r.Orphans != 5 || r.Unknown != 1 || r.Newer != 1 || r.Due != 0 || r.Deleted != 0 || r.Foreign != 5 || r.Objects != len(all)+1 {
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
	if r := h.collect(); r.Due != 5 || r.Deleted != 5 || r.Failed != 0 || r.Spared != 0 {
		t.Fatalf("%+v", r)
	}
	h.has(append(kept, foreign...)...)
	if got := h.orphans(); len(got) != 0 {
		t.Fatalf("still tracked: %q", got)
	}
	slices.Sort(h.collected)
	if got := slices.Compact(h.collected); !slices.Equal(got, []workspace.ID{id(1), id(4)}) {
		t.Fatalf("OnCollected was called with %q", got)
	}
	if !h.isCollected(4) || h.isCollected(1) {
		t.Error("the deleted workspace, and no other, must be marked as collected")
	}
}

func TestAnOrphanThatIsNeededAgainStartsItsDelayAgain(t *testing.T) {
	h := newHarness(t)
	key := h.archive(1, 1)
	h.insert(1, current(key)+", "+deleted)
	h.collect()
	h.age(3 * time.Hour)
	// The deletion is undone, and then repeated.
	h.update(1, undeleted)
	if r := h.collect(); r.Orphans != 0 || len(h.orphans()) != 0 {
		t.Fatalf("%+v", r)
	}
	h.update(1, deleted)
	if r := h.collect(); r.Orphans != 1 || r.Due != 0 {
		t.Fatalf("%+v", r)
	}
	h.has(key, key+".meta")
}

func TestALostTrackerOnlyPostpones(t *testing.T) {
	h := newHarness(t)
	h.superseded(1)
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
}

// single lists one object per page.
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

func TestAPageMayEndAnywhereInAWorkspace(t *testing.T) {
	h := newHarness(t)
	// The current archive is the last one in the listing. The other archives of the workspace can be judged only after
	// it.
	h.archive(1, 1)
	h.archive(1, 2)
	h.insert(1, current(h.archive(1, 3)))
	h.archive(2, 1)
	h.insert(2, current(h.archive(2, 2)))
	h.opts.Archives = single{h.opts.Archives}
	if r := h.collect(); r.Objects != 11 || r.Archives != 5 || r.Orphans != 3 || r.Newer != 0 {
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

// lateMark is a store in which a row changes after it was read for the last time.
type lateMark struct {
	gc.Store
	change func()
}

func (l *lateMark) MarkCollected(ctx context.Context, f postgres.Fence, ids []workspace.ID, window time.Duration) ([]workspace.ID, error) {
	l.change()
	return l.Store.MarkCollected(ctx, f, ids, window)
}

func TestAChangeJustBeforeTheDeletionStillSavesTheArchive(t *testing.T) {
	for name, wrap := range map[string]func(s gc.Store, change func()) gc.Store{
		"before it is judged again": func(s gc.Store, change func()) gc.Store { return &lateChange{Store: s, change: change} },
		"before it is marked":       func(s gc.Store, change func()) gc.Store { return &lateMark{Store: s, change: change} },
	} {
		for change, sql := range map[string]string{
			"an undeletion":       undeleted,
			"an operation begins": "operation = 'ARCHIVING'",
			"a volume appears":    "awaits_gc = false",
			"a new deletion":      "deleted_at = now()",
		} {
			t.Run(change+" "+name, func(t *testing.T) {
				h := newHarness(t)
				key := h.archive(1, 1)
				h.insert(1, current(key)+", "+deleted)
				h.collect()
				h.age(3 * time.Hour)
				h.opts.Store = wrap(h.store, func() { h.update(1, sql) })
				if r := h.collect(); r.Due != 1 || r.Spared != 1 || r.Deleted != 0 {
					t.Fatalf("%+v", r)
				}
				h.has(key, key+".meta")
				if h.isCollected(1) {
					t.Error("the row is marked as collected")
				}
			})
		}
	}
}

func TestASupersededArchiveThatBecomesTheCurrentOneIsKept(t *testing.T) {
	h := newHarness(t)
	old := h.superseded(1)
	h.collect()
	h.age(3 * time.Hour)
	h.opts.Store = &lateChange{Store: h.store, change: func() { h.update(1, current(old)) }}
	if r := h.collect(); r.Due != 1 || r.Spared != 1 {
		t.Fatalf("%+v", r)
	}
	// A third archive has become the current one since the comparison.
	h.update(1, current(h.archive(1, 8)))
	h.opts.Store = h.store
	h.collect()
	h.age(3 * time.Hour)
	h.opts.Store = &lateChange{Store: h.store, change: func() { h.update(1, current(h.archive(1, 9))) }}
	if r := h.collect(); r.Due != 2 || r.Spared != 2 {
		t.Fatalf("%+v", r)
	}
}

func TestSettingsAreValidatedUnderTheirOptionsNames(t *testing.T) {
	if err := gc.DefaultSettings().Validate(); err != nil {
		t.Error(err)
	}
	err := gc.Settings{Delay: -1}.Validate()
	for _, name := range []string{"gc_interval: ", "gc_delay: ", "undelete_for: ", "keep_archives: "} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%q is not named in: %v", name, err)
		}
	}
}

// broken is a store, a bucket or a check of which one call fails.
type broken struct {
	gc.Archives
	gc.Store
	list, protect, count, mark, uploads, identity error
	refuse                                        string
	remove                                        func(ctx context.Context, keys []string) error
}

func (b broken) Bucket(context.Context) error { return b.identity }

func (b broken) List(ctx context.Context, page func([]archive.Object) error) error {
	if err := b.Archives.List(ctx, page); err != nil {
		return err
	}
	return b.list // after some pages
}

func (b broken) ListUploads(ctx context.Context, page func([]archive.Upload) error) error {
	if b.uploads != nil {
		return b.uploads
	}
	return b.Archives.ListUploads(ctx, page)
}

func (b broken) Delete(ctx context.Context, keys []string) (map[string]error, error) {
	if b.remove != nil {
		return nil, b.remove(ctx, keys)
	}
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

func (b broken) MarkCollected(ctx context.Context, f postgres.Fence, ids []workspace.ID, window time.Duration) ([]workspace.ID, error) {
	if b.mark != nil {
		return nil, b.mark
	}
	return b.Store.MarkCollected(ctx, f, ids, window)
}

func TestWhatFailsSkipsTheCycle(t *testing.T) {
	h := newHarness(t)
	key := h.archive(1, 1)
	h.insert(1, current(key)+", "+deleted)
	h.archive(2, 1)
	h.collect()
	h.age(3 * time.Hour)
	all := h.objects()
	out := errors.New("out of order")
	whole := h.opts
	for name, b := range map[string]broken{
		"listing":  {list: out},
		"query":    {protect: out},
		"marking":  {mark: out},
		"identity": {identity: out},
	} {
		t.Run(name, func(t *testing.T) {
			b.Archives, b.Store = whole.Archives, whole.Store
			h.opts.Archives, h.opts.Store = b, b
			if b.identity != nil {
				h.opts.Identity = b
			}
			defer func() { h.opts = whole }()
			if _, err := gc.Collect(t.Context(), h.opts, gc.Request{}, nil); !errors.Is(err, out) {
				t.Fatalf("Collect returns %v", err)
			}
			h.has(all...)
			if n := len(h.orphans()); n != 1 {
				t.Fatalf("%d orphans are left", n)
			}
		})
	}
}

func TestADeletionThatFailsIsTriedByTheNextCycle(t *testing.T) {
	h := newHarness(t)
	a := h.archive(1, 1)
	b := h.archive(1, 2)
	h.insert(1, current(a)+", archive_op_id = '"+op(2)+"', "+deleted)
	h.collect()
	h.age(3 * time.Hour)
	whole := h.opts.Archives
	h.opts.Archives = broken{Archives: whole, refuse: b}
	outcome := make(map[string]gc.Verdict)
	r, err := gc.Collect(t.Context(), h.opts, gc.Request{}, func(f gc.Judgement) error { outcome[f.Key] = f.Verdict; return nil })
	if err == nil || !strings.Contains(err.Error(), b) || r.Deleted != 1 || r.Failed != 1 || outcome[a] != gc.Deleted || outcome[b] != gc.Failed {
		t.Fatalf("%+v, %v, %v", r, err, outcome)
	}
	h.has(b)
	// The workspace's current archive is gone, and its row is marked as collected, so the other archive is deleted,
	// too.
	h.opts.Archives = whole
	if r := h.collect(); r.Deleted != 1 {
		t.Fatalf("%+v", r)
	}
	h.has()
}

// TestADeletionThatEndsHalfway: a process is killed during a deletion, before it learns whether the objects are gone.
// No row of such an archive must remain, because nothing would ever look for that row.
func TestADeletionThatEndsHalfway(t *testing.T) {
	for name, gone := range map[string]bool{"the objects are gone": true, "the objects are still there": false} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			old, now, last := h.archive(1, 1), h.archive(1, 2), h.archive(2, 1)
			h.insert(1, current(now))
			h.insert(2, current(last)+", "+deleted)
			h.collect()
			h.hasRows(1, old, now)
			h.hasRows(2, last)
			h.age(3 * time.Hour)
			whole := h.opts
			h.opts.Archives = broken{Archives: whole.Archives, remove: func(ctx context.Context, keys []string) error {
				if gone {
					if failed, err := whole.Archives.Delete(ctx, keys); err != nil || len(failed) > 0 {
						t.Errorf("%v, %v", failed, err)
					}
				}
				runtime.Goexit() // as far as the collector knows, the process was killed
				return nil
			}}
			killed := make(chan struct{})
			go func() {
				defer close(killed)
				_, err := gc.Collect(t.Context(), h.opts, gc.Request{}, nil)
				t.Errorf("Collect returns %v", err)
			}()
			<-killed
			h.opts = whole
			h.collect()
			h.has(now, now+contract.MetaSuffix)
			h.hasRows(1, now)
			h.hasRows(2)
		})
	}
}

func TestWithoutRedisNothingIsDeleted(t *testing.T) {
	h := newHarness(t)
	h.superseded(1)
	h.collect()
	h.age(3 * time.Hour)
	all := h.objects()
	if err := h.server.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := gc.Collect(t.Context(), h.opts, gc.Request{}, nil); err == nil {
		t.Fatal("Collect succeeds")
	}
	h.has(all...)
}

// breaking is a bucket that panics when asked about the archives of one workspace.
type breaking struct {
	gc.Archives
	id workspace.ID
}

func (b *breaking) Stat(ctx context.Context, key string) (archive.Info, error) {
	if strings.HasPrefix(key, string(b.id)+"/") {
		panic("injected")
	}
	return b.Archives.Stat(ctx, key)
}

// If a workspace has too many archives to compare, the cycle asks the bucket about the current one (see
// TestMoreArchivesOfOneWorkspaceThanCanBeCompared). In this test that call panics for one workspace.
func TestAPanicAboutOneWorkspaceKeepsItsArchivesAlone(t *testing.T) {
	h := newHarness(t)
	const each = gc.MaxHeld + 1000
	g := &generated{workspaces: 2, each: each}
	h.opts.Archives, h.opts.Store, h.opts.Identity = &breaking{g, id(0)}, rows{Store: h.store, g: g}, passing{}
	h.opts.Settings.Delay = time.Nanosecond
	var report gc.Report
	for range 2 {
		var err error
		report, err = gc.Collect(t.Context(), h.opts, gc.Request{}, nil)
		if !guard.Panicked(err) || !strings.Contains(err.Error(), string(id(0))) || strings.Contains(err.Error(), string(id(1))) {
			t.Fatalf("Collect returns %v", err)
		}
	}
	// All superseded archives of the other workspace are deleted. Of the workspace with the panic, only those that were
	// judged before the panic are.
	if n := report.Deleted; report.Archives != 2*each || n < each-1 || n > 2*(each-1)-500 || n != report.Orphans {
		t.Errorf("%+v", report)
	}
	h.opts.Archives = g
	if r := h.collect(); r.Orphans != 2*(each-1) || r.Newer != 0 {
		t.Errorf("once it is mended: %+v", r)
	}
}

// TestTheArchivesOfADeletedWorkspaceStayForItsWindow: archives superseded before the deletion do not.
func TestTheArchivesOfADeletedWorkspaceStayForItsWindow(t *testing.T) {
	h := newHarness(t)
	h.opts.Settings = gc.DefaultSettings()
	superseded, last := h.archive(1, 1), h.archive(1, 2)
	h.insert(1, current(last)+", "+deleted)
	h.update(1, "deleted_at = now() - interval '1 day'")
	h.collect()
	h.age(3 * time.Hour)
	if r := h.collect(); r.Due != 1 || r.Deleted != 1 {
		t.Fatalf("within the window: %+v", r)
	}
	h.lacks(superseded)
	h.has(last, last+".meta")
	_, found, err := h.dryRun(gc.Request{})
	if f := found[last]; err != nil || f.Verdict != gc.Candidate || f.Left > 6*24*time.Hour || f.Left < 6*24*time.Hour-wait.Timeout {
		t.Errorf("%+v, %v", f, err)
	}

	// Even a person's command deletes no archive of a workspace that can still be undeleted.
	newer := h.archive(1, 3)
	if r, err := gc.Collect(t.Context(), h.opts, gc.Request{Unknown: true, Confirmed: 9}, nil); err != nil || r.Deleted != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	h.lose(newer, newer+".meta")

	// If the delay is longer than the window, the delay applies.
	h.opts.Settings.Delay, h.opts.Settings.UndeleteFor = 2*gc.DefaultDelay, time.Minute
	if r := h.collect(); r.Due != 0 {
		t.Fatalf("within the delay: %+v", r)
	}

	h.opts.Settings = gc.DefaultSettings()
	h.update(1, "deleted_at = now() - interval '8 days'")
	h.age(3 * time.Hour)
	if r := h.collect(); r.Deleted != 1 || !h.isCollected(1) {
		t.Fatalf("after the window: %+v", r)
	}
	h.has()
}

// TestWhatIsDeletedAtOnceHasNoWindow: only the usual delay applies.
func TestWhatIsDeletedAtOnceHasNoWindow(t *testing.T) {
	h := newHarness(t)
	h.insert(1, current(h.archive(1, 1))+", "+deleted)
	h.update(1, "deleted_at = now(), delete_now = true")
	if r := h.collectLate(); r.Deleted != 1 || !h.isCollected(1) {
		t.Fatalf("%+v", r)
	}
	h.has()
}
