package workspace_test

import (
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
)

// TestUndeleteAfterTheVolumeWasGivenUp: a deletion has dropped the volume without an
// archive of it. The archive from before is not the workspace's data: nobody restores it
// without a choice (SPEC 12.2).
func TestUndeleteAfterTheVolumeWasGivenUp(t *testing.T) {
	for name, c := range map[string]struct {
		used bool
		want workspace.ErrorReason
	}{
		"used since the archive": {true, workspace.ReasonDataLost},
		"as it was archived":     {false, ""},
	} {
		w, o := at(workspace.PhaseStandby)
		w.ArchiveKey, w.HomeCtx = "K1", workspace.HomeContext{VolumeOpID: "A", RestoreMarker: "K1", Dirty: c.used}
		w.Conditions = conditions(true, true, false)
		o.Volume, o.Archive = volume("A"), workspace.Present
		w.DeletedAt, w.DeleteNow, w.DesiredState = now, true, workspace.DesiredDeleted
		d := workspace.Reconcile(now, w, o, false, policy())
		if d.Action != workspace.ActDeleteVolume {
			t.Fatalf("%s: %q, want the volume deleted", name, d.Action)
		}
		o.Volume = nil
		w = workspace.Reconcile(now, d.Next, o, false, policy()).Next
		if w.Operation != workspace.OpNone || w.Phase != workspace.PhaseDeleting {
			t.Fatalf("%s: %s %s", name, w.Phase, w.Operation)
		}
		for range 3 { // it may be undone at any of the next ticks
			w = workspace.Reconcile(now, w, o, false, policy()).Next
			back := w
			back.DeletedAt, back.DeleteNow, back.DesiredState = time.Time{}, false, workspace.DesiredRunning
			if n := workspace.Reconcile(now, back, o, false, policy()).Next; n.ErrorReason != c.want || c.want == "" && n.Operation != workspace.OpRestoring {
				t.Errorf("%s: undone, %s %s %q, want %q", name, n.Phase, n.Operation, n.ErrorReason, c.want)
			}
		}
	}
}
