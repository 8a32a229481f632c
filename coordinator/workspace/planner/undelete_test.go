package planner_test

import (
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/coordinator/workspace/planner"
)

// TestUndeleteAfterTheVolumeWasGivenUp: a deletion has dropped the volume without archiving it. The earlier archive is
// not the workspace's data, so it is not restored without a choice (SPEC 12.2).
func TestUndeleteAfterTheVolumeWasGivenUp(t *testing.T) {
	for name, c := range map[string]struct {
		used bool
		want workspace.ErrorReason
	}{
		"used since the archive": {true, workspace.ReasonDataLost},
		"as it was archived":     {false, ""},
	} {
		w, o := at(workspace.PhaseStandby)
		w.ArchiveKey, w.HomeCtx = "K1", workspace.HomeContext{VolumeRecord: workspace.VolumeRecord{VolumeOpID: "A", RestoreMarker: "K1", Dirty: c.used}}
		w.Conditions = conditions(true, true, false)
		o.Volume, o.Archive = volume("A"), workspace.Present
		w.DeletedAt, w.DeleteNow, w.DesiredState = now, true, workspace.DesiredDeleted
		d := planner.Reconcile(now, w, o, false, policy())
		if d.Action != planner.ActDeleteVolume {
			t.Fatalf("%s: %q, want the volume deleted", name, d.Action)
		}
		o.Volume = nil
		w = planner.Reconcile(now, d.Next, o, false, policy()).Next
		if w.Operation != workspace.OpNone || w.Phase != workspace.PhaseDeleting {
			t.Fatalf("%s: %s %s", name, w.Phase, w.Operation)
		}
		for range 3 { // it may be undone at any of the next ticks
			w = planner.Reconcile(now, w, o, false, policy()).Next
			back := w
			back.DeletedAt, back.DeleteNow, back.DesiredState = time.Time{}, false, workspace.DesiredRunning
			if n := planner.Reconcile(now, back, o, false, policy()).Next; n.ErrorReason != c.want || c.want == "" && n.Operation != workspace.OpRestoring {
				t.Errorf("%s: undone, %s %s %q, want %q", name, n.Phase, n.Operation, n.ErrorReason, c.want)
			}
		}
	}
}

// TestADeletionStepsDownFirst, even when its delay has passed. The delay alone gives up a volume only if archiving it
// was tried and has failed. There may have been no leader during the delay, or the row may be from before the deletion
// was undone.
func TestADeletionStepsDownFirst(t *testing.T) {
	type step struct {
		op     workspace.Operation
		action planner.Action
	}
	archive := step{workspace.OpArchiving, planner.ActStartArchive}
	remove := step{workspace.OpDeleting, planner.ActDeleteVolume}
	for name, c := range map[string]struct {
		change func(*workspace.Workspace, *workspace.Observation)
		want   step
	}{
		"nothing was tried": {func(*workspace.Workspace, *workspace.Observation) {}, archive},
		"the store was away, and is back": {func(w *workspace.Workspace, _ *workspace.Observation) {
			w.Waiting = &workspace.Waiting{Reason: workspace.WaitStoreAway}
		}, archive},
		"it runs": {func(_ *workspace.Workspace, o *workspace.Observation) { o.Container = running },
			step{workspace.OpStopping, planner.ActDeleteContainer}},
		"the store is away": {func(_ *workspace.Workspace, o *workspace.Observation) { o.Store = away }, remove},
		"archiving failed": {func(w *workspace.Workspace, _ *workspace.Observation) {
			w.Waiting = &workspace.Waiting{Reason: workspace.WaitArchiveFailed}
		}, remove},
		"an administrator gave it up": {func(w *workspace.Workspace, _ *workspace.Observation) { w.DeleteNow = true }, remove},
		"it was in error":             {func(w *workspace.Workspace, _ *workspace.Observation) { w.ErrorReason = workspace.ReasonTimeout }, remove},
		"it was in error, and the volume was made since": {func(w *workspace.Workspace, o *workspace.Observation) {
			w.ErrorReason, o.Volume = workspace.ReasonTimeout, volume("B")
		}, step{workspace.OpNone, planner.ActNothing}},
		"it was in error, with another volume": {func(w *workspace.Workspace, o *workspace.Observation) {
			w.ErrorReason, w.HomeCtx.ForeignVolumeOpID, o.Volume.OpID = workspace.ReasonTimeout, "B", "B"
		}, remove},
		"it was in error, and another volume was found since": {func(w *workspace.Workspace, o *workspace.Observation) {
			w.ErrorReason, w.HomeCtx.ForeignVolumeOpID, o.Volume.OpID = workspace.ReasonConflict, "C", "B"
		}, step{workspace.OpNone, planner.ActNothing}},
		"the store is away, and the volume was found since": {func(w *workspace.Workspace, o *workspace.Observation) {
			o.Store, w.Conditions = away, w.Conditions.With(workspace.VolumeReady, false, "VolumeMissing", "", now)
		}, step{workspace.OpNone, planner.ActNothing}},
		"the store is away, and the engine's clock is ahead": {func(_ *workspace.Workspace, o *workspace.Observation) {
			o.Store, o.Volume.CreatedAt = away, now.Add(time.Hour)
		}, remove},
		"another leader has begun to delete it": {func(w *workspace.Workspace, _ *workspace.Observation) {
			w.Operation, w.OpStartedAt = workspace.OpDeleting, now
		}, step{workspace.OpNone, planner.ActNothing}},
		"this leader has begun to delete it": {func(w *workspace.Workspace, o *workspace.Observation) {
			w.Operation, w.OpStartedAt, o.Witnessed = workspace.OpDeleting, now, true
		}, remove},
	} {
		w, o := at(workspace.PhaseStandby)
		w.HomeCtx.VolumeOpID, o.Volume = "A", volume("A")
		o.Volume.CreatedAt = now.Add(-4 * time.Hour)
		w.DeletedAt, w.DesiredState = now.Add(-3*time.Hour), workspace.DesiredDeleted
		ready := w.Conditions[workspace.VolumeReady]
		ready.LastTransitionTime = now.Add(-4 * time.Hour)
		w.Conditions[workspace.VolumeReady] = ready
		c.change(&w, &o)
		d := planner.Reconcile(now, w, o, false, policy())
		if got := (step{d.Next.Operation, d.Action}); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestAnIDIsOfOneVolume: a volume that is provisioned again gets an id of its own, so that an older row does not
// mistake the new volume for the one that was given up.
func TestAnIDIsOfOneVolume(t *testing.T) {
	for name, c := range map[string]struct {
		volume *workspace.Volume
		keeps  bool
	}{"it is gone": {nil, false}, "it is there": {volume("A"), true}} {
		w, o := at(workspace.PhasePending)
		w.DesiredState, w.HomeCtx.VolumeOpID, w.HomeCtx.RestoreMarker = workspace.DesiredRunning, "A", "unfinished"
		o.Volume = c.volume
		n := planner.Reconcile(now, w, o, false, policy()).Next
		if n.Operation != workspace.OpProvisioning || n.HomeCtx.VolumeOpID == "" || (n.HomeCtx.VolumeOpID == "A") != c.keeps {
			t.Errorf("%s: %q with the id %q, want the same %v", name, n.Operation, n.HomeCtx.VolumeOpID, c.keeps)
		}
	}
}
