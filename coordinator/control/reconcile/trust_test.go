package reconcile_test

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/backendtest/memory"
	"github.com/codehub/gateway/coordinator/control/reconcile"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/identity"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/storetest"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/storagejob/contract"
)

// TestAnotherEngineIsNotBelieved: if another engine answers, the controller concludes nothing from its answers, and
// changes nothing on it. Running workspaces stay as they are (SPEC 2).
func TestAnotherEngineIsNotBelieved(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	var other atomic.Bool
	var looks, acts atomic.Int32
	h.backend.Before = func(_ context.Context, method string, _ workspace.ID) error {
		switch method {
		case "Jobs":
			looks.Add(1)
		case "Provision", "Start", "Delete", "DeleteVolume", "StartJob", "DeleteJobs":
			if other.Load() {
				acts.Add(1)
			}
		}
		return nil
	}
	h.lead()
	id := h.create()
	before := h.settles(id, workspace.PhaseRunning)
	other.Store(true)
	h.guard.backend.Store(ptr(&identity.MismatchError{Resource: store.ResourceBackend, Expected: "A", Found: "B"}))
	h.backend.LoseVolume(id)
	n := looks.Load()
	wait.Until(t, "it was looked at", func() bool { h.controller.WakeAll(); return looks.Load() > n+5 })
	if w := h.row(id); w.Phase != workspace.PhaseRunning || w.Endpoint != before.Endpoint || w.ErrorReason != "" {
		t.Errorf("%s %s, endpoint %q, want it to stay as it was", w.Phase, w.ErrorReason, w.Endpoint)
	}
	h.setDesired(id, workspace.DesiredStandby)
	if w := h.waits(id, workspace.WaitBackendMismatch); w.Operation != workspace.OpNone || w.Waiting.Message == "" {
		t.Errorf("%s, waits for %+v", w.Operation, w.Waiting)
	}
	if acts.Load() != 0 {
		t.Errorf("%d actuators were called", acts.Load())
	}
	other.Store(false)
	h.guard.backend.Store(nil)
	if w := h.settles(id, workspace.PhaseError); w.ErrorReason != workspace.ReasonDataLost {
		t.Errorf("then %s, want DataLost", w.ErrorReason)
	}
}

// TestAnotherBucketIsNotBelieved: if another bucket answers, an archive that is missing there does not count as lost,
// and no volume is removed because an archive is there.
func TestAnotherBucketIsNotBelieved(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.useBucket(&bucket{}, nil)
	h.lead()
	id := h.create()
	h.reach(id, workspace.DesiredArchived, workspace.PhaseArchived)
	elsewhere := &bucket{stat: func(string) error { return fs.ErrNotExist }}
	h.resign()
	h.useBucket(elsewhere, nil)
	h.guard.bucket.Store(ptr(&identity.MismatchError{Resource: store.ResourceBucket, Expected: "A", Found: "B"}))
	h.lead()
	h.setDesired(id, workspace.DesiredRunning)
	if w := h.waits(id, workspace.WaitBucketMismatch); w.Phase != workspace.PhaseArchived || w.ErrorReason != "" {
		t.Errorf("%s %s, want ARCHIVED", w.Phase, w.ErrorReason)
	}
	h.resign()
	h.useBucket(&bucket{}, nil)
	h.guard.bucket.Store(nil)
	h.lead()
	h.settles(id, workspace.PhaseRunning)
}

// TestBucketReplacedBeforeTheVolumeIsDropped: the bucket's identity is checked once more right before.
func TestBucketReplacedBeforeTheVolumeIsDropped(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	var id workspace.ID
	h.useBucket(&bucket{stat: func(key string) error {
		if rows, err := h.store.Workspaces(context.Background(), []workspace.ID{id}); err == nil && rows[0].ArchiveKey == key {
			h.guard.bucket.Store(ptr(&identity.MismatchError{Resource: store.ResourceBucket, Expected: "A", Found: "B"}))
		}
		return nil
	}}, nil)
	id = h.create()
	h.lead()
	h.settles(id, workspace.PhaseRunning)
	h.setDesired(id, workspace.DesiredArchived)
	h.waits(id, workspace.WaitBucketMismatch)
	if v, _ := h.backend.Volumes(t.Context(), id); len(v) != 1 {
		t.Error("the volume was dropped")
	}
}

// TestLapsedLeaseDeletesNothing (SPEC 12.11).
func TestLapsedLeaseDeletesNothing(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	var deletes atomic.Int32
	h.backend.Before = func(_ context.Context, method string, _ workspace.ID) error {
		if method == "Delete" {
			deletes.Add(1)
		}
		return nil
	}
	logs := h.useBucket(&bucket{}, nil)
	h.lead()
	id := h.create()
	h.settles(id, workspace.PhaseRunning)
	h.lapsed.Store(true)
	h.setDesired(id, workspace.DesiredStandby)
	wait.Until(t, "the action was held back", func() bool { return logs.FilterMessageSnippet("workspace action failed").Len() > 0 })
	if w := h.row(id); deletes.Load() != 0 || w.ErrorCount != 0 {
		t.Errorf("%d deletions, %d failures counted", deletes.Load(), w.ErrorCount)
	}
	h.lapsed.Store(false)
	h.settles(id, workspace.PhaseStandby)
}

// TestALeaseThatLapsesInsideAnActuator: if the lease lapses during an action, the rest of the action is skipped, and no
// failure is counted (SPEC 12.11).
func TestALeaseThatLapsesInsideAnActuator(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	var starts atomic.Int32
	h.backend.Before = func(_ context.Context, method string, _ workspace.ID) error {
		if method == "Start" && starts.Add(1) == 1 {
			h.lapsed.Store(true)
		}
		return nil
	}
	logs := h.useBucket(&bucket{}, nil)
	h.lead()
	id := h.create()
	wait.Until(t, "the action was held back", func() bool { return logs.FilterMessageSnippet("workspace action failed").Len() > 0 })
	if w := h.row(id); w.Operation != workspace.OpStarting || w.ErrorCount != 0 {
		t.Errorf("%s, %d failures counted", w.Operation, w.ErrorCount)
	}
	h.lapsed.Store(false)
	h.settles(id, workspace.PhaseRunning)
}

// TestImplausibleLossIsNotBelieved: if one look shows most workspaces as lost, all of them keep their phases, and one
// error is logged. The loss of a single workspace is believed.
func TestImplausibleLossIsNotBelieved(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	core, logs := observer.New(zap.InfoLevel)
	h.use(h.archives, zap.New(core), nil)
	h.lead()
	var ids []workspace.ID
	for range 6 {
		ids = append(ids, h.create())
	}
	for _, id := range ids {
		h.settles(id, workspace.PhaseRunning)
	}
	h.setDesired(ids[0], workspace.DesiredStandby)
	h.settles(ids[0], workspace.PhaseStandby)
	h.backend.LoseVolume(ids[5])
	if w := h.settles(ids[5], workspace.PhaseError); w.ErrorReason != workspace.ReasonDataLost {
		t.Fatalf("one of six: %s, want DataLost", w.ErrorReason)
	}
	h.backend.LoseVolume(ids[:4]...) // at once: the loss of the first one alone would be believed
	h.controller.Hint(ids...)
	const doubt = "too many workspaces would have lost"
	wait.Until(t, "the look was doubted", func() bool { return logs.FilterMessageSnippet(doubt).Len() > 0 })
	var looks atomic.Int32
	h.guard.looked.Store(&looks)
	wait.Until(t, "it was looked at again", func() bool { h.controller.WakeAll(); return looks.Load() > 5 })
	for i, id := range ids[:5] {
		if w := h.row(id); w.ErrorReason != "" || w.Phase == workspace.PhaseError {
			t.Errorf("workspace %d: %s %s", i, w.Phase, w.ErrorReason)
		}
	}
	if n := logs.FilterMessageSnippet(doubt).Len(); n != 1 {
		t.Errorf("%d lines, want 1", n)
	}
	s := quick()
	s.MaxLossShare = 1
	h.controller.Apply(s)
	for _, id := range ids[:4] {
		if w := h.settles(id, workspace.PhaseError); w.ErrorReason != workspace.ReasonDataLost {
			t.Errorf("accepted: %s", w.ErrorReason)
		}
	}
}

// blurred is a backend that cannot inspect one container, or whose volume listing hangs.
type blurred struct {
	*memory.Backend
	id   atomic.Pointer[workspace.ID]
	hang atomic.Bool
}

func (b *blurred) Containers(ctx context.Context, ids ...workspace.ID) (map[workspace.ID]workspace.Container, error) {
	found, err := b.Backend.Containers(ctx, ids...)
	if id := b.id.Load(); id != nil && err == nil {
		found[*id] = workspace.Container{Unknown: "input/output error"}
	}
	return found, err
}

func (b *blurred) Volumes(ctx context.Context, ids ...workspace.ID) (map[workspace.ID]workspace.Volume, error) {
	if b.hang.Load() {
		return nil, errors.New("no answer")
	}
	return b.Backend.Volumes(ctx, ids...)
}

var _ reconcile.Backend = (*blurred)(nil)

// TestOneBrokenContainerFreezesOneWorkspace: if a container cannot be inspected, its workspace stays as it is, and the
// others continue.
func TestOneBrokenContainerFreezesOneWorkspace(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b := &blurred{Backend: h.backend}
	h.engine = b
	h.useBucket(&bucket{}, nil)
	h.lead()
	broken, other := h.create(), h.create()
	h.settles(broken, workspace.PhaseRunning)
	h.settles(other, workspace.PhaseRunning)
	b.id.Store(&broken)
	h.setDesired(broken, workspace.DesiredStandby)
	h.setDesired(other, workspace.DesiredStandby)
	h.settles(other, workspace.PhaseStandby)
	if w := h.waits(broken, workspace.WaitBackendAway); w.Phase != workspace.PhaseRunning || w.Operation != workspace.OpNone {
		t.Errorf("%s %s, want it to stay RUNNING", w.Phase, w.Operation)
	}
	b.id.Store(nil)
	h.settles(broken, workspace.PhaseStandby)
	// Without volumes, a container that should stop still stops; nothing starts.
	h.setDesired(other, workspace.DesiredRunning)
	h.settles(other, workspace.PhaseRunning)
	b.hang.Store(true)
	h.setDesired(other, workspace.DesiredStandby)
	h.settles(other, workspace.PhaseStandby)
	h.setDesired(broken, workspace.DesiredRunning)
	h.waits(broken, workspace.WaitBackendAway)
	b.hang.Store(false)
	h.settles(broken, workspace.PhaseRunning)
}

// TestAnOlderDatabaseDoesNotRestoreOverNewerFiles: the row is older than the volume.
func TestAnOlderDatabaseDoesNotRestoreOverNewerFiles(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	var restores, drops atomic.Int32
	succeed := h.backend.Work
	h.backend.Work = func(ctx context.Context, spec backend.JobSpec) (int64, error) {
		if spec.Kind == workspace.JobRestore {
			restores.Add(1)
		}
		return succeed(ctx, spec)
	}
	h.backend.Before = func(_ context.Context, method string, _ workspace.ID) error {
		if method == "DeleteVolume" {
			drops.Add(1)
		}
		return nil
	}
	h.lead()
	id := h.create()
	h.reach(id, workspace.DesiredArchived, workspace.PhaseArchived)
	h.resign()
	backup := h.row(id)
	h.lead()
	h.setDesired(id, workspace.DesiredRunning)
	h.settles(id, workspace.PhaseRunning)
	h.setDesired(id, workspace.DesiredStandby)
	h.settles(id, workspace.PhaseStandby)
	h.resign()
	fence := h.epoch()
	now := h.row(id)
	if saved, err := h.store.Save(t.Context(), fence, now, backup, nil); err != nil || !saved {
		t.Fatalf("restoring the row: %v %v", saved, err)
	}
	was, dropped := restores.Load(), drops.Load()
	h.lead()
	h.setDesired(id, workspace.DesiredRunning)
	w := h.settles(id, workspace.PhaseError)
	if w.ErrorReason != workspace.ReasonConflict || restores.Load() != was || drops.Load() != dropped {
		t.Errorf("%s after %d restores and %d deletions of a volume, want Conflict", w.ErrorReason, restores.Load()-was, drops.Load()-dropped)
	}
	storetest.Exec(t, h.store, `UPDATE workspaces SET error_reason = NULL, error_message = NULL, error_count = 0,
		recovery = '{"id": "1", "choice": "volume"}' WHERE id = $1`, string(id))
	h.controller.Wake(id)
	if w = h.settles(id, workspace.PhaseRunning); restores.Load() != was || w.HomeCtx.RecoveryID != "1" {
		t.Errorf("after %d restores, recovery %q", restores.Load()-was, w.HomeCtx.RecoveryID)
	}
}

// TestAYoungerArchiveIsNotIgnored: the volume is gone, and the bucket has an archive that is younger than the row. A
// wake-up must not restore the older archive that the row names.
func TestAYoungerArchiveIsNotIgnored(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.lead()
	id := h.create()
	h.reach(id, workspace.DesiredArchived, workspace.PhaseArchived)
	h.resign()
	backup := h.row(id)
	wait.Until(t, "the store's clock tells two archives apart", func() bool { return time.Since(backup.ObservedAt) > 1100*time.Millisecond })
	h.lead()
	h.setDesired(id, workspace.DesiredRunning)
	h.reach(id, workspace.DesiredArchived, workspace.PhaseArchived)
	h.resign()
	now := h.row(id)
	if saved, err := h.store.Save(t.Context(), h.epoch(), now, backup, nil); err != nil || !saved {
		t.Fatalf("restoring the row: %v %v", saved, err)
	}
	h.lead()
	h.setDesired(id, workspace.DesiredRunning)
	if w := h.settles(id, workspace.PhaseError); w.ErrorReason != workspace.ReasonConflict || !strings.Contains(w.ErrorMessage, now.ArchiveKey) {
		t.Errorf("%s %q, want a Conflict that names %s", w.ErrorReason, w.ErrorMessage, now.ArchiveKey)
	}
}

// TestAMissingArchiveIsLost when the recorded bucket has reported that twice.
func TestAMissingArchiveIsLost(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	var gone atomic.Int32 // answers that say so since it was archived
	h.useBucket(&bucket{answered: func(err error) {
		if errors.Is(err, fs.ErrNotExist) {
			gone.Add(1)
		}
	}}, nil)
	h.lead()
	id := h.create()
	h.reach(id, workspace.DesiredArchived, workspace.PhaseArchived)
	w := h.row(id)
	gone.Store(0)
	if _, err := h.archives.Delete(t.Context(), []string{w.ArchiveKey, w.ArchiveKey + contract.MetaSuffix}); err != nil {
		t.Fatal(err)
	}
	h.setDesired(id, workspace.DesiredRunning)
	if w = h.settles(id, workspace.PhaseError); w.ErrorReason != workspace.ReasonDataLost || gone.Load() < 2 {
		t.Errorf("%s after %d answers that it is gone", w.ErrorReason, gone.Load())
	}
}

// TestDeletionIsUndone after the volume was archived, with only the archive left.
func TestDeletionIsUndone(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.lead()
	id := h.create()
	h.settles(id, workspace.PhaseRunning)
	if err := h.service.Delete(t.Context(), service.Actor{UserID: h.owner.UserID, Through: "test"}, id, false); err != nil {
		t.Fatal(err)
	}
	h.controller.Wake(id)
	h.await(id, "only the archive to be left", func(w workspace.Workspace) bool { return w.AwaitsGC })
	storetest.Exec(t, h.store, `UPDATE workspaces SET deleted_at = NULL, desired_state = 'ARCHIVED' WHERE id = $1`, string(id))
	h.controller.Wake(id)
	if w := h.settles(id, workspace.PhaseArchived); w.AwaitsGC {
		t.Error("it still awaits the garbage collection")
	}
	h.setDesired(id, workspace.DesiredRunning)
	h.settles(id, workspace.PhaseRunning)
}
