package planner_test

import (
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/coordinator/workspace/planner"
)

// TestWhatOthersEndIsNoCrash: however often a node is drained or a container removed by force, the workspace is
// started again. Exits of the program itself in between are counted as before.
func TestWhatOthersEndIsNoCrash(t *testing.T) {
	w, o := at(workspace.PhaseRunning)
	for i := range 10 {
		o.Container = &workspace.Container{Volume: true, ExitCode: 137, Disrupted: true, StartedAt: now, FinishedAt: now.Add(time.Second)}
		d := planner.Reconcile(now.Add(2*time.Second), w, o, false, policy())
		if w = d.Next; w.Operation != workspace.OpStarting || d.Action != planner.ActStart || w.ErrorReason != "" || w.HomeCtx.Crashes != 0 {
			t.Fatalf("eviction %d: %s %s %q, %d crashes", i, w.Operation, w.ErrorReason, d.Action, w.HomeCtx.Crashes)
		}
		// The next container is evicted before it was ready.
		o.Container = &workspace.Container{Volume: true, ExitCode: 137, Disrupted: true, StartedAt: now.Add(3 * time.Second), FinishedAt: now.Add(4 * time.Second)}
		d = planner.Reconcile(now.Add(5*time.Second), w, o, false, policy())
		if w = d.Next; w.Operation != workspace.OpStarting || d.Action != planner.ActStart || w.ErrorCount != 0 || w.ErrorReason != "" ||
			waits(w) != workspace.WaitEvicted || d.Retry < time.Second || d.Retry > 30*time.Second {
			t.Fatalf("eviction %d during the start: %s %s %q again in %s, waits for %+v", i, w.Operation, w.ErrorReason, d.Action, d.Retry, w.Waiting)
		}
		if d = planner.Reconcile(now.Add(5*time.Second), w, o, true, policy()); d.Action != planner.ActNothing || d.Next.ErrorReason != "" {
			t.Fatalf("eviction %d, before the next attempt is due: %q %s", i, d.Action, d.Next.ErrorReason)
		}
		o.Container = running
		if w = planner.Reconcile(now.Add(6*time.Second), w, o, false, policy()).Next; w.Phase != workspace.PhaseRunning || w.Waiting != nil {
			t.Fatalf("eviction %d: %s, waits for %+v", i, w.Phase, w.Waiting)
		}
	}
	w.HomeCtx.Crashes = 2
	o.Container = &workspace.Container{Volume: true, ExitCode: 1, StartedAt: now, FinishedAt: now.Add(time.Second)}
	if w = planner.Reconcile(now, w, o, false, policy()).Next; w.ErrorReason != workspace.ReasonRetryExceeded {
		t.Errorf("a third crash: %s %s", w.Phase, w.ErrorReason)
	}
}

// TestAJobThatOthersHaveEndedIsDoneAgain without counting a failure.
func TestAJobThatOthersHaveEndedIsDoneAgain(t *testing.T) {
	for kind, op := range map[workspace.JobKind]workspace.Operation{workspace.JobRestore: workspace.OpRestoring, workspace.JobArchive: workspace.OpArchiving} {
		w, o := during(op, workspace.DesiredRunning)
		w.OpStartedAt, w.HomeCtx.RestoreOpID, w.ArchiveOpID = now, "op", "op"
		if kind == workspace.JobRestore {
			w.ArchiveKey, w.Conditions = "key", conditions(false, true, false)
		}
		o.Jobs = []workspace.Job{{Kind: kind, OpID: "op", State: workspace.JobFailed, Reason: workspace.ReasonActionFailed, Message: "its node was drained", Disrupted: true}}
		for range 5 { // more than the retries of an error
			d := planner.Reconcile(now.Add(time.Second), w, o, false, policy())
			if n := d.Next; n.Operation != workspace.OpNone || n.ErrorCount != 0 || n.ErrorReason != "" || waits(n) != workspace.WaitEvicted ||
				d.Action != planner.ActDeleteJobs || d.Retry == 0 || d.Retry > 30*time.Second {
				t.Errorf("%s: %s %s %q again in %s, waits for %+v", kind, n.Operation, n.ErrorReason, d.Action, d.Retry, n.Waiting)
			}
			w.HomeCtx.Deferred = d.Next.HomeCtx.Deferred
		}
	}
}

// TestWhatBecameReadyEndsTheError: a container that became ready ends an error that only says that it did not come up
// in time, but does not end an error about the data.
func TestWhatBecameReadyEndsTheError(t *testing.T) {
	ends := map[workspace.ErrorReason]bool{
		workspace.ReasonTimeout: true, workspace.ReasonRetryExceeded: true, workspace.ReasonImagePullFailed: true,
		workspace.ReasonDataLost: false, workspace.ReasonConflict: false, workspace.ReasonArchiveCorrupted: false, workspace.ReasonContainerWithoutVolume: false,
	}
	starts := pendingContainer(nil)
	for reason, want := range ends {
		in := func(change func(*workspace.Workspace, *workspace.Observation)) workspace.Workspace {
			w, o := at(workspace.PhaseStandby)
			w.Phase, w.ErrorReason, w.ErrorMessage, w.ErrorCount, w.DesiredState = workspace.PhaseError, reason, "it failed", 3, workspace.DesiredRunning
			o.Container = running
			change(&w, &o)
			return planner.Reconcile(now, w, o, false, policy()).Next
		}
		n := in(func(*workspace.Workspace, *workspace.Observation) {})
		if ended := n.Phase == workspace.PhaseRunning && n.ErrorReason == "" && n.ErrorMessage == "" && n.ErrorCount == 0; ended != want || !ended && n.ErrorReason != reason {
			t.Errorf("%s: %s %s %q %d", reason, n.Phase, n.ErrorReason, n.ErrorMessage, n.ErrorCount)
		}
		for name, change := range map[string]func(*workspace.Workspace, *workspace.Observation){
			"it is not ready":  func(_ *workspace.Workspace, o *workspace.Observation) { o.Container = starts },
			"it is not wanted": func(w *workspace.Workspace, _ *workspace.Observation) { w.DesiredState = workspace.DesiredStandby },
			"on another volume": func(_ *workspace.Workspace, o *workspace.Observation) {
				k := *running
				k.Volume, o.Container = false, &k
			},
			"on an unknown volume":   func(w *workspace.Workspace, _ *workspace.Observation) { w.HomeCtx.VolumeOpID = "another" },
			"the volume is not seen": func(_ *workspace.Workspace, o *workspace.Observation) { o.Unseen = workspace.SensorVolumes },
			"nothing is seen":        func(_ *workspace.Workspace, o *workspace.Observation) { o.Unseen = workspace.AllSensors },
		} {
			if n := in(change); n.Phase != workspace.PhaseError || n.ErrorReason == "" {
				t.Errorf("%s, but %s: %s %s", reason, name, n.Phase, n.ErrorReason)
			}
		}
	}
}
