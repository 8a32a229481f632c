package reconcile_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/control/reconcile"
	"github.com/codehub/gateway/coordinator/store/storetest"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// TestARowFromBeforeItsArchivesIsNotProvisioned: the restored row says that the workspace has no home yet, but the
// bucket has an archive of it (SPEC 12.9), so it gets no new volume. Another workspace with the same row but without an
// archive gets one.
func TestARowFromBeforeItsArchivesIsNotProvisioned(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.lead()
	id, other := h.create(), h.create()
	h.reach(id, workspace.DesiredArchived, workspace.PhaseArchived)
	h.settles(other, workspace.PhaseRunning)
	key := h.row(id).ArchiveKey
	h.resign()
	h.backend.LoseVolume(other)
	for _, c := range []struct {
		name, operation string
		id              workspace.ID
	}{{"before it was provisioned", "'NONE'", id}, {"while it was provisioned", "'PROVISIONING'", id}, {"never archived", "'PROVISIONING'", other}} {
		storetest.Exec(t, h.store, `UPDATE workspaces SET phase = 'PENDING', desired_state = 'RUNNING', counted = true, conditions = '{}', archive_key = NULL,
			archive_op_id = NULL, error_reason = NULL, error_message = NULL, error_count = 0, home_ctx = '{"volume_op_id": "A"}', endpoint = NULL,
			created_at = now() - interval '1 day', operation = `+c.operation+`, op_started_at = CASE `+c.operation+` WHEN 'NONE' THEN NULL ELSE now() END
			WHERE id = $1`, string(c.id))
		h.lead()
		if c.id == other {
			h.settles(other, workspace.PhaseRunning)
			continue
		}
		w := h.settles(id, workspace.PhaseError)
		if w.ErrorReason != workspace.ReasonConflict || !strings.Contains(w.ErrorMessage, key) {
			t.Errorf("%s: %s %q, want a Conflict that names %s", c.name, w.ErrorReason, w.ErrorMessage, key)
		}
		if v, _ := h.backend.Volumes(t.Context(), id); len(v) != 0 {
			t.Errorf("%s: an empty volume was made", c.name)
		}
		h.resign()
	}
}

// TestAFreshWorkspaceNeedsNoObjectStore: the store is not even asked.
func TestAFreshWorkspaceNeedsNoObjectStore(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	var asked atomic.Int32
	away := func() error {
		asked.Add(1)
		return workspace.Fail(workspace.ReasonUnreachable, errors.New("no route"))
	}
	h.useBucket(&bucket{stat: func(string) error { return away() }, versions: away, create: away}, nil)
	h.guard.bucket.Store(ptr(errors.New("not known")))
	h.lead()
	id := h.create()
	h.settles(id, workspace.PhaseRunning)
	h.setDesired(id, workspace.DesiredStandby)
	h.settles(id, workspace.PhaseStandby)
	if n := asked.Load(); n != 0 {
		t.Errorf("the object store was asked %d times", n)
	}
}

// TestAStoreThatHangsDoesNotBlindTheSweep: while the object store hangs, the sweep still looks at volumes, and asks
// about only one archive.
func TestAStoreThatHangsDoesNotBlindTheSweep(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	var hangs atomic.Bool
	var asked atomic.Int32
	b := &bucket{stat: func(string) error {
		if !hangs.Load() {
			return nil
		}
		asked.Add(1)
		return workspace.Fail(workspace.ReasonUnreachable, errors.New("no answer"))
	}}
	h.useBucket(b, func(s *reconcile.Settings) { s.SweepInterval = time.Hour })
	h.lead()
	asleep := h.create()
	h.reach(asleep, workspace.DesiredStandby, workspace.PhaseStandby)
	for range 3 {
		id := h.create()
		h.reach(id, workspace.DesiredArchived, workspace.PhaseArchived)
		if err := h.service.Delete(t.Context(), h.owner, id, false); err != nil {
			t.Fatal(err)
		}
		h.controller.Wake(id)
		h.await(id, "only the archive to be left", func(w workspace.Workspace) bool { return w.AwaitsGC })
	}
	h.resign()
	hangs.Store(true)
	h.backend.LoseVolume(asleep)
	h.lead() // its first sweep comes immediately
	if w := h.settles(asleep, workspace.PhaseError); w.ErrorReason != workspace.ReasonDataLost {
		t.Errorf("%s, want DataLost", w.ErrorReason)
	}
	wait.Until(t, "an archive was asked for", func() bool { return asked.Load() > 0 })
	if n := asked.Load(); n != 1 {
		t.Errorf("%d archives were asked for while the store was away", n)
	}
}

// TestAYoungerArchiveOfAVolumeThatIsGone: a restored row says that the workspace is in STANDBY, on a volume that is
// unchanged since the archive K1. Later a newer archive K2 was made and the volume was removed, which the row does not
// know. If only the missing volume counted, K1 would look like the current archive.
func TestAYoungerArchiveOfAVolumeThatIsGone(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.lead()
	id := h.create()
	h.reach(id, workspace.DesiredArchived, workspace.PhaseArchived)
	first := h.row(id)
	h.setDesired(id, workspace.DesiredStandby)
	h.settles(id, workspace.PhaseStandby)
	h.resign()
	backup := h.row(id)
	wait.Until(t, "the store's clock tells two archives apart", func() bool { return time.Since(first.ObservedAt) > 1100*time.Millisecond })
	h.lead()
	h.setDesired(id, workspace.DesiredRunning)
	h.reach(id, workspace.DesiredArchived, workspace.PhaseArchived)
	h.resign()
	newer := h.row(id)
	if saved, err := h.store.Save(t.Context(), h.epoch(), newer, backup, nil); err != nil || !saved {
		t.Fatalf("restoring the row: %v %v", saved, err)
	}
	storetest.Exec(t, h.store, `UPDATE workspaces SET desired_state = 'RUNNING' WHERE id = $1`, string(id))
	h.lead()
	if w := h.settles(id, workspace.PhaseError); w.ErrorReason != workspace.ReasonConflict || !strings.Contains(w.ErrorMessage, newer.ArchiveKey) {
		t.Errorf("%s %q, want a Conflict that names %s", w.ErrorReason, w.ErrorMessage, newer.ArchiveKey)
	}
}

// TestANewLeaderRemovesWhatARestoreHasLeft: the previous leader saved that the workspace is archived, but ended before
// it removed the volume of an interrupted restore. The new leader removes the volume.
func TestANewLeaderRemovesWhatARestoreHasLeft(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.lead()
	id := h.create()
	h.reach(id, workspace.DesiredArchived, workspace.PhaseArchived)
	h.resign()
	if err := h.backend.Provision(t.Context(), backend.VolumeSpec{ID: id, OpID: "A"}); err != nil {
		t.Fatal(err)
	}
	storetest.Exec(t, h.store, `UPDATE workspaces SET home_ctx = home_ctx || '{"volume_op_id": "A"}' WHERE id = $1`, string(id))
	h.lead()
	wait.Until(t, "the volume is gone", func() bool {
		v, err := h.backend.Volumes(t.Context(), id)
		return err == nil && len(v) == 0
	})
	if w := h.row(id); w.Phase != workspace.PhaseArchived {
		t.Errorf("it is %s, %s", w.Phase, w.ErrorMessage)
	}
}
