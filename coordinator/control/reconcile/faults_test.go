package reconcile_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/control/reconcile"
	"github.com/codehub/gateway/coordinator/store/storetest"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/storagejob/contract"
)

// bucket is the harness's object store with faults that the test causes.
type bucket struct {
	*archive.Store
	stat      func(key string) error
	answered  func(error) // the result of stat is on its way
	versions  func() error
	create    func() error
	malformed bool // every commit marker is
}

func (b *bucket) Stat(ctx context.Context, key string) (archive.Info, error) {
	if b.stat != nil {
		if err := b.stat(key); err != nil {
			return archive.Info{}, err
		}
	}
	info, err := b.Store.Stat(ctx, key)
	if b.answered != nil {
		b.answered(err)
	}
	if err == nil && b.malformed {
		err = workspace.Fail(workspace.ReasonArchiveCorrupted, contract.ErrMalformedMeta)
	}
	return info, err
}

func (b *bucket) Versions(ctx context.Context, id workspace.ID) ([]workspace.ArchiveVersion, error) {
	if b.versions != nil {
		if err := b.versions(); err != nil {
			return nil, err
		}
	}
	return b.Store.Versions(ctx, id)
}

func (b *bucket) CreateEmpty(ctx context.Context, key string) error {
	if b.create != nil {
		if err := b.create(); err != nil {
			return err
		}
	}
	return b.Store.CreateEmpty(ctx, key)
}

// useBucket makes the harness's controller use b, and returns its log.
func (h *harness) useBucket(b *bucket, change func(*reconcile.Settings)) *observer.ObservedLogs {
	core, logs := observer.New(zap.InfoLevel)
	b.Store = h.archives
	h.use(b, zap.New(core), change)
	return logs
}

// countedBackend counts the calls that create something.
type countedBackend struct {
	reconcile.Backend
	made atomic.Int32
}

func (c *countedBackend) Provision(ctx context.Context, s backend.VolumeSpec) error {
	c.made.Add(1)
	return c.Backend.Provision(ctx, s)
}

func (c *countedBackend) Start(ctx context.Context, s backend.StartSpec) error {
	c.made.Add(1)
	return c.Backend.Start(ctx, s)
}

// TestNothingIsMadeWithoutTheLease: a process that was stopped and continues may not have noticed yet that another
// process leads. It creates nothing until its lease is certain again.
func TestNothingIsMadeWithoutTheLease(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	engine := &countedBackend{Backend: h.backend}
	h.engine = engine
	core, logs := observer.New(zap.WarnLevel)
	h.use(h.archives, zap.New(core), nil)
	h.lapsed.Store(true)
	h.lead()
	id := h.create()
	wait.Until(t, "an action is held back", func() bool { return logs.FilterMessageSnippet("workspace action failed").Len() > 0 })
	if n := engine.made.Load(); n != 0 {
		t.Errorf("%d calls were made although the lease may have run out", n)
	}
	if w := h.row(id); w.ErrorCount != 0 {
		t.Errorf("it counts as a failure of the workspace: %+v", w)
	}
	h.lapsed.Store(false)
	h.settles(id, workspace.PhaseRunning)
}

// TestReplacedWhileCheckingTheArchive: another process becomes the leader while the object store is asked about the
// archive. The leadership is checked only after the store's answer, which may take long, so the volume stays.
func TestReplacedWhileCheckingTheArchive(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	var stats, jobLists, dropped atomic.Int32
	var id workspace.ID
	h.useBucket(&bucket{stat: func(key string) error {
		rows, err := h.store.Workspaces(t.Context(), []workspace.ID{id})
		if err != nil {
			return err
		}
		// The first probe of the saved archive is for the decision, the second is the actuator's.
		if rows[0].ArchiveKey == key && stats.Add(1) == 2 {
			h.epoch()
		}
		return nil
	}}, nil)
	finished := make(chan struct{})
	h.backend.Before = func(_ context.Context, method string, _ workspace.ID) error {
		switch {
		case method == "DeleteVolume":
			dropped.Add(1)
		case method == "Jobs" && stats.Load() >= 2 && jobLists.Add(1) == 3:
			close(finished)
		}
		return nil
	}
	id = h.create()
	h.lead()
	h.settles(id, workspace.PhaseRunning)
	h.setDesired(id, workspace.DesiredArchived)
	<-finished
	h.resign()
	if dropped.Load() != 0 {
		t.Error("a leader that was replaced while it asked the object store deleted the volume")
	}
}

// TestArchiveGoneWithoutAWakeUp: if the collector's wake-up was lost, a sweep notices that the archive of a deleted
// workspace is gone.
func TestArchiveGoneWithoutAWakeUp(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.useBucket(&bucket{}, func(s *reconcile.Settings) { s.SweepInterval = 50 * time.Millisecond })
	h.lead()
	id := h.create()
	h.reach(id, workspace.DesiredArchived, workspace.PhaseArchived)
	if err := h.service.Delete(t.Context(), h.owner, id, false); err != nil {
		t.Fatal(err)
	}
	h.controller.Wake(id)
	w := h.settles(id, workspace.PhaseDeleting)
	if _, err := h.archives.Delete(t.Context(), []string{w.ArchiveKey, w.ArchiveKey + contract.MetaSuffix}); err != nil {
		t.Fatal(err)
	}
	h.settles(id, workspace.PhaseDeleted)
}

// TestStoreOutage: during an outage of the object store, operations that need it wait, and no condition changes. The
// outage is logged once, and all operations continue after it.
func TestStoreOutage(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	var outage atomic.Bool
	var probes, peak, inFlight atomic.Int32
	away := func() error {
		if outage.Load() {
			return workspace.Fail(workspace.ReasonUnreachable, errors.New("no answer"))
		}
		return nil
	}
	logs := h.useBucket(&bucket{
		stat: func(string) error {
			for n, m := inFlight.Add(1), peak.Load(); n > m && !peak.CompareAndSwap(m, n); m = peak.Load() {
			}
			defer inFlight.Add(-1)
			probes.Add(1)
			return away()
		},
		create: away,
	}, nil)
	outage.Store(true)
	h.guard.bucket.Store(ptr(away()))
	var ids []workspace.ID
	for range 40 {
		ids = append(ids, h.create())
		h.setDesired(ids[len(ids)-1], workspace.DesiredArchived)
	}
	h.lead()
	for _, id := range ids {
		w := h.waits(id, workspace.WaitStoreAway)
		if w.Operation != workspace.OpNone || w.ErrorReason != "" || w.Conditions.True(workspace.ArchiveReady) {
			t.Errorf("%s %s, want it to wait without an operation", w.Operation, w.ErrorReason)
		}
	}
	if n := logs.FilterMessageSnippet("the object store cannot be used").Len(); n != 1 {
		t.Errorf("%d lines about the object store, want 1", n)
	}
	outage.Store(false)
	h.guard.bucket.Store(nil)
	for _, id := range ids {
		if w := h.settles(id, workspace.PhaseArchived); w.Waiting != nil {
			t.Errorf("archived, and waits for %s", w.Waiting.Reason)
		}
	}
	if peak.Load() > 16 {
		t.Errorf("%d probes at once", peak.Load())
	}
}

// TestStoreLostWhileArchiving: if the object store is lost while a workspace is archived, the workspace returns to
// STANDBY, and its owner can open it. It is archived when the store is back.
func TestStoreLostWhileArchiving(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.useBucket(&bucket{}, nil)
	id := h.create()
	h.lead()
	h.settles(id, workspace.PhaseRunning)
	h.guard.bucket.Store(ptr(workspace.Fail(workspace.ReasonUnreachable, errors.New("no answer"))))
	h.setDesired(id, workspace.DesiredArchived)
	if w := h.waits(id, workspace.WaitStoreAway); w.Phase != workspace.PhaseStandby || w.Operation != workspace.OpNone {
		t.Errorf("%s %s, want STANDBY", w.Phase, w.Operation)
	}
	h.setDesired(id, workspace.DesiredRunning)
	if w := h.settles(id, workspace.PhaseRunning); w.Waiting != nil {
		t.Errorf("running, and waits for %s", w.Waiting.Reason)
	}
	h.setDesired(id, workspace.DesiredArchived)
	h.waits(id, workspace.WaitStoreAway)
	h.guard.bucket.Store(nil)
	h.settles(id, workspace.PhaseArchived)
}

// TestMalformedMarkerKeepsTheVolume: an archive with a malformed commit marker cannot be restored, so the volume must
// not be deleted. The object store does not count as unreachable because of it.
func TestMalformedMarkerKeepsTheVolume(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b := &bucket{malformed: true}
	logs := h.useBucket(b, nil)
	id := h.create()
	h.lead()
	h.settles(id, workspace.PhaseRunning)
	h.setDesired(id, workspace.DesiredArchived)
	w := h.waits(id, workspace.WaitArchiveFailed)
	if w.ErrorReason != "" || !strings.Contains(w.Waiting.Message, contract.ErrMalformedMeta.Error()) {
		t.Errorf("%s %q, want it to wait for another attempt", w.ErrorReason, w.Waiting.Message)
	}
	if volumes, err := h.backend.Volumes(t.Context(), id); err != nil || len(volumes) != 1 {
		t.Errorf("volumes %v, %v: the volume was deleted", volumes, err)
	}
	if n := logs.FilterMessageSnippet("the object store").Len(); n != 0 {
		t.Errorf("%d lines about the object store", n)
	}
}

// TestLockedRowDelaysOnlyItself: if a transaction that was left open locks the row of a workspace, other workspaces do
// not wait for it.
func TestLockedRowDelaysOnlyItself(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	locked, free := h.create(), h.create()
	tx, err := storetest.Pool(t, h.store).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := tx.Exec(t.Context(), `SELECT FROM workspaces WHERE id = $1 FOR UPDATE`, string(locked)); err != nil {
		t.Fatal(err)
	}
	h.lead()
	h.settles(free, workspace.PhaseRunning)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.settles(locked, workspace.PhaseRunning)
}

// TestAWakeUpDuringAProbeIsNotLost: the last archive of a workspace disappears while the object store's answer about it
// is on its way. A wake-up during the probe reports that. It must not get lost, because the next sweep is far away.
func TestAWakeUpDuringAProbeIsNotLost(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	var hold atomic.Bool
	reached, release := make(chan struct{}), make(chan struct{})
	h.useBucket(&bucket{answered: func(error) {
		if hold.CompareAndSwap(true, false) {
			reached <- struct{}{}
			<-release
		}
	}}, func(s *reconcile.Settings) { s.SweepInterval, s.IdleInterval = time.Hour, time.Hour })
	h.lead()
	id := h.create()
	h.settles(id, workspace.PhaseRunning)
	h.setDesired(id, workspace.DesiredArchived)
	h.settles(id, workspace.PhaseArchived)
	if err := h.service.Delete(t.Context(), h.owner, id, false); err != nil {
		t.Fatal(err)
	}
	h.controller.Wake(id)
	w := h.settles(id, workspace.PhaseDeleting)
	hold.Store(true)
	h.controller.Wake(id)
	<-reached
	if _, err := h.archives.Delete(t.Context(), []string{w.ArchiveKey, w.ArchiveKey + contract.MetaSuffix}); err != nil {
		t.Fatal(err)
	}
	h.controller.Wake(id)
	close(release)
	h.settles(id, workspace.PhaseDeleted)
}

// TestAnOutageOutlastsATerm: a process that loses the lead during an outage, and then leads again, still logs the end
// of the outage.
func TestAnOutageOutlastsATerm(t *testing.T) {
	h := newHarness(t)
	engine := &blurred{Backend: h.backend}
	h.engine = engine
	core, logs := observer.New(zap.InfoLevel)
	h.use(h.archives, zap.New(core), nil)
	engine.hang.Store(true)
	h.lead()
	h.create()
	wait.Until(t, "its beginning", func() bool { return logs.FilterMessageSnippet("cannot observe volumes").Len() == 1 })
	h.resign()
	engine.hang.Store(false)
	h.lead()
	wait.Until(t, "its end", func() bool { return logs.FilterMessageSnippet("observing volumes works again").Len() == 1 })
}
