package planner_test

import (
	"testing"

	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/coordinator/workspace/planner"
)

// reverting returns a workspace in that phase whose owner wants to go back to K0.
func reverting(p workspace.Phase) (workspace.Workspace, workspace.Observation) {
	w, o := at(p)
	w.Revert = &workspace.Revert{ID: "r", Key: "K0", At: now}
	if p != workspace.PhasePending {
		w.ArchiveKey = "K1"
		w.HomeCtx.RestoreMarker = "K1"
	}
	w.DesiredState = workspace.DesiredRunning
	o.Chosen = workspace.Present
	return w, o
}

// TestRevertingStepsDownFirst: a revert first brings the workspace to ARCHIVED, and does not change the desired state.
func TestRevertingStepsDownFirst(t *testing.T) {
	for p, want := range map[workspace.Phase]workspace.Operation{
		workspace.PhaseRunning: workspace.OpStopping, workspace.PhaseStandby: workspace.OpArchiving, workspace.PhaseArchived: workspace.OpNone,
	} {
		w, o := reverting(p)
		d := planner.Reconcile(now, w, o, false, policy())
		if d.Next.Operation != want || d.Next.DesiredState != workspace.DesiredRunning {
			t.Errorf("%s: %s, desired %s", p, d.Next.Operation, d.Next.DesiredState)
		}
		w.HomeCtx.RevertID = "r" // carried out
		if d := planner.Reconcile(now, w, o, false, policy()); p != workspace.PhaseRunning && d.Next.Operation == want {
			t.Errorf("%s: %s after the revert", p, d.Next.Operation)
		}
	}
}

// TestTheRevertItself: when the present state is in an archive and nowhere else, the older archive becomes the current
// one. Otherwise the request ends with an error that names the obstacle.
func TestTheRevertItself(t *testing.T) {
	const (
		done  = "done"
		asks  = "asks"
		waits = "waits"
		ends  = "ends"
	)
	for name, c := range map[string]struct {
		change func(*workspace.Workspace, *workspace.Observation)
		want   string
		newest string
	}{
		"everything is there":                  {nil, done, "K1"},
		"after another revert":                 {func(w *workspace.Workspace, _ *workspace.Observation) { w.HomeCtx.Newest = "K3" }, done, "K3"},
		"nothing was asked":                    {func(_ *workspace.Workspace, o *workspace.Observation) { o.Store = workspace.StoreAnswer{} }, asks, ""},
		"the older one was not asked for":      {func(_ *workspace.Workspace, o *workspace.Observation) { o.Chosen = workspace.Unknown }, asks, ""},
		"the present one is not known":         {func(_ *workspace.Workspace, o *workspace.Observation) { o.Archive = workspace.Unknown }, asks, ""},
		"the older one is gone":                {func(_ *workspace.Workspace, o *workspace.Observation) { o.Chosen = workspace.Absent }, ends, ""},
		"the store is away":                    {func(_ *workspace.Workspace, o *workspace.Observation) { o.Store = away }, ends, ""},
		"the present one is older than it was": {func(_ *workspace.Workspace, o *workspace.Observation) { o.Younger = "K9" }, "Conflict", ""},
		"the present one is missing":           {func(_ *workspace.Workspace, o *workspace.Observation) { o.Archive = workspace.Absent }, "DataLost", ""},
		"deleted": {func(w *workspace.Workspace, _ *workspace.Observation) {
			w.DeletedAt, w.DesiredState = now, workspace.DesiredDeleted
		}, ends, ""},
		"it is the present one": {func(w *workspace.Workspace, _ *workspace.Observation) { w.Revert.Key = "K1" }, done, ""},
	} {
		w, o := reverting(workspace.PhaseArchived)
		w.HomeCtx.RestoreMarker = ""
		if name == "the present one is missing" {
			w.HomeCtx.Dirty = false
		}
		if c.change != nil {
			c.change(&w, &o)
		}
		d := planner.Reconcile(now, w, o, false, policy())
		n := d.Next
		got := waits
		switch {
		case d.Ask.Bucket:
			got = asks
		case n.ErrorReason != "":
			got = string(n.ErrorReason)
		case n.HomeCtx.RevertID == "r" && n.HomeCtx.RevertProblem == "":
			got = done
		case n.HomeCtx.RevertID == "r":
			got = ends
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s: %+v", name, got, c.want, n.HomeCtx)
			continue
		}
		switch {
		case got != done && n.ArchiveKey != w.ArchiveKey:
			t.Errorf("%s: the archive became %s", name, n.ArchiveKey)
		case got == done && n.ArchiveKey != w.Revert.Key:
			t.Errorf("%s: the archive is %s", name, n.ArchiveKey)
		case got == done && w.Revert.Key != "K1" && (n.HomeCtx.Replaced != "K1" || n.HomeCtx.Newest != c.newest):
			t.Errorf("%s: no way back: %+v", name, n.HomeCtx)
		case got != asks && n.Reverting():
			t.Errorf("%s: it goes on", name)
		}
	}
}

// TestARevertEndsWhenThePresentStateCannotBeArchived: a user with an intact volume can open it.
func TestARevertEndsWhenThePresentStateCannotBeArchived(t *testing.T) {
	w, o := reverting(workspace.PhaseStandby)
	o.Store = away
	n := planner.Reconcile(now, w, o, false, policy()).Next
	if n.Reverting() || n.HomeCtx.RevertProblem == "" {
		t.Fatalf("the store is away: %+v", n.HomeCtx)
	}
	if d := planner.Reconcile(now, n, o, false, policy()); d.Next.Operation != workspace.OpStarting {
		t.Errorf("then %s, want STARTING", d.Next.Operation)
	}
	w, o = reverting(workspace.PhaseStandby)
	w.Operation, w.OpStartedAt, w.ArchiveOpID = workspace.OpArchiving, now, "op"
	o.Jobs = []workspace.Job{{Kind: workspace.JobArchive, OpID: "op", State: workspace.JobFailed, Reason: workspace.ReasonUnreachable, Message: "no route"}}
	if n := planner.Reconcile(now, w, o, false, policy()).Next; n.Reverting() || n.Operation != workspace.OpNone {
		t.Errorf("the job has failed: %s %+v", n.Operation, n.HomeCtx)
	}
}

// A recovery with a choice ends the request permanently; a retry does not.
func TestARecoveryEndsARevert(t *testing.T) {
	for choice, ends := range map[workspace.RecoveryChoice]bool{workspace.RecoverRetry: false, workspace.RecoverArchive: true, workspace.RecoverVolume: true} {
		w, o := reverting(workspace.PhaseStandby)
		w.Phase = workspace.PhaseError
		w.Recovery = &workspace.Recovery{ID: "c", Choice: choice, Key: "K1", ReplaceVolume: true}
		n := planner.Reconcile(now, w, o, false, policy()).Next
		if n.Reverting() == ends {
			t.Errorf("%s: reverting %v", choice, n.Reverting())
		}
	}
}
