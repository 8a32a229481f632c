package planner_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/coordinator/workspace/planner"
)

// waitsFor returns the row of a workspace whose operation has been waiting for that reason.
func waitsFor(op workspace.Operation, wanted workspace.DesiredState, reason string) (workspace.Workspace, workspace.Observation) {
	w, o := during(op, wanted)
	w.Waiting = &workspace.Waiting{Reason: reason, Message: "x", Since: now.Add(-time.Minute)}
	w.ArchiveOpID, w.HomeCtx.RestoreOpID = "op", "op"
	switch op {
	case workspace.OpProvisioning:
		w.Phase, w.Conditions, w.HomeCtx, w.ArchiveOpID, o.Volume = workspace.PhasePending, conditions(false, false, false), workspace.HomeContext{}, "", nil
	case workspace.OpRestoring:
		w.Phase, w.ArchiveKey, w.Conditions = workspace.PhaseArchived, "key", conditions(false, true, false)
		o.Archive, o.Witnessed = workspace.Present, true
	}
	if wanted == workspace.DesiredDeleted {
		w.DeletedAt = now
	}
	return w, o
}

// TestAWaitThatLeadsElsewhereIsCancelled: once another state is desired, an operation that only waits for resources
// from outside ends without an error. This holds for every kind of wait. Everything that it began is removed. An
// operation that leads to the new state continues.
func TestAWaitThatLeadsElsewhereIsCancelled(t *testing.T) {
	const running, standby, archived, deleted = workspace.DesiredRunning, workspace.DesiredStandby, workspace.DesiredArchived, workspace.DesiredDeleted
	reasons := []string{
		workspace.WaitUnschedulable, workspace.WaitVolume, workspace.WaitQuota, workspace.WaitPullingImage, workspace.WaitContainer,
	}
	for op, leads := range map[workspace.Operation][]workspace.DesiredState{
		workspace.OpProvisioning: {running, standby},
		workspace.OpRestoring:    {running, standby},
		workspace.OpStarting:     {running},
		workspace.OpArchiving:    {archived, deleted},
	} {
		for _, wanted := range []workspace.DesiredState{running, standby, archived, deleted} {
			goesOn := false
			for _, l := range leads {
				goesOn = goesOn || l == wanted
			}
			check := func(how, reason string, d planner.Decision, action planner.Action) {
				t.Helper()
				n := d.Next
				if goesOn {
					if n.Operation != op {
						t.Errorf("%s, %s, %s, wants %s: it has ended, waits for %+v", how, op, reason, wanted, n.Waiting)
					}
					return
				}
				if n.Operation != workspace.OpNone || n.Waiting != nil || n.ErrorReason != "" || n.ErrorCount != 0 || d.Action != action {
					t.Errorf("%s, %s, %s, wants %s: %s, waits for %+v, %s %d, %q", how, op, reason, wanted, n.Operation, n.Waiting, n.ErrorReason, n.ErrorCount, d.Action)
				}
				if string(n.Phase) == string(wanted) && d.Action == planner.ActNothing && d.Retry <= 0 {
					t.Errorf("%s, %s, %s, wants %s: nothing looks at what is left of it", how, op, reason, wanted)
				}
			}
			for _, reason := range reasons {
				// The backend reports the wait of the container or job that was begun.
				w, o := waitsFor(op, wanted, reason)
				pending, action := &workspace.Pending{Reason: reason, Message: "x"}, planner.ActNothing
				switch op {
				case workspace.OpStarting:
					o.Container = pendingContainer(pending)
				case workspace.OpRestoring:
					o.Jobs, action = []workspace.Job{{Kind: workspace.JobRestore, OpID: "op", State: workspace.JobRunning, Pending: pending}}, planner.ActDeleteJobs
				case workspace.OpArchiving:
					o.Jobs, action = []workspace.Job{{Kind: workspace.JobArchive, OpID: "op", State: workspace.JobRunning, Pending: pending}}, planner.ActDeleteJobs
				}
				check("begun", reason, planner.Reconcile(now, w, o, false, policy()), action)
			}
			for _, reason := range append(reasons, workspace.WaitBackendAway, workspace.WaitEgressRules, workspace.WaitJobImage, workspace.WaitEvicted) {
				// An actuator has reported the wait, and would be called again.
				w, o := waitsFor(op, wanted, reason)
				check("tried", reason, planner.Reconcile(now, w, o, false, policy()), planner.ActNothing)
			}
			if op != workspace.OpProvisioning { // a pull on the engine
				w, o := waitsFor(op, wanted, workspace.WaitPullingImage)
				o.Pull = &workspace.Pull{Image: "x", Jobs: op != workspace.OpStarting}
				check("pulled", workspace.WaitPullingImage, planner.Reconcile(now, w, o, false, policy()), planner.ActNothing)
			}
			if op == workspace.OpRestoring || op == workspace.OpArchiving { // a place in the queue
				w, o := waitsFor(op, wanted, workspace.WaitJobQueue)
				o.Queued = &workspace.Queued{Before: 3}
				check("queued", workspace.WaitJobQueue, planner.Reconcile(now, w, o, false, policy()), planner.ActNothing)
			}
		}
	}
}

// TestWhatWorksIsNotCancelled: an operation is not cancelled while its storage job runs, or may run on a machine that
// does not report, or while its container runs and is not ready yet. It ends by itself (SPEC 1, contract 4). Anything
// that was told to end does end.
func TestWhatWorksIsNotCancelled(t *testing.T) {
	for _, reason := range []string{"", workspace.WaitNodeLost, workspace.WaitTerminating} {
		for op, kind := range map[workspace.Operation]workspace.JobKind{workspace.OpRestoring: workspace.JobRestore, workspace.OpArchiving: workspace.JobArchive} {
			w, o := waitsFor(op, workspace.DesiredRunning, workspace.WaitUnschedulable)
			if op == workspace.OpRestoring {
				w.DesiredState = workspace.DesiredArchived
			}
			job := workspace.Job{Kind: kind, OpID: "op", State: workspace.JobRunning}
			if reason != "" {
				job.Pending = &workspace.Pending{Reason: reason, Message: "x"}
			}
			o.Jobs = []workspace.Job{job}
			if d := planner.Reconcile(now, w, o, false, policy()); d.Next.Operation != op || d.Action != planner.ActNothing {
				t.Errorf("%s, %q: %s %q", op, reason, d.Next.Operation, d.Action)
			}
		}
	}
	w, o := waitsFor(workspace.OpStarting, workspace.DesiredStandby, workspace.WaitPullingImage)
	o.Container = pendingContainer(nil)
	if d := planner.Reconcile(now, w, o, false, policy()); d.Next.Operation != workspace.OpStarting || d.Action != planner.ActNothing {
		t.Errorf("a container that runs: %s %q", d.Next.Operation, d.Action)
	}
	w, o = waitsFor(workspace.OpStopping, workspace.DesiredRunning, workspace.WaitTerminating)
	o.Container = pendingContainer(terminating)
	if d := planner.Reconcile(now, w, o, false, policy()); d.Next.Operation != workspace.OpStopping || d.Action != planner.ActDeleteContainer {
		t.Errorf("a stop: %s %q", d.Next.Operation, d.Action)
	}
}

// TestACancelledStartLeavesNothing: the next operation removes its container, and another requested start
// begins anew.
func TestACancelledStartLeavesNothing(t *testing.T) {
	w, o := waitsFor(workspace.OpStarting, workspace.DesiredStandby, workspace.WaitPullingImage)
	o.Container = pendingContainer(pulls)
	n := planner.Reconcile(now, w, o, false, policy()).Next
	d := planner.Reconcile(now.Add(time.Second), n, o, false, policy())
	if d.Next.Operation != workspace.OpStopping || d.Action != planner.ActDeleteContainer {
		t.Fatalf("then %s %q", d.Next.Operation, d.Action)
	}
	o.Container = nil
	n = planner.Reconcile(now.Add(2*time.Second), d.Next, o, false, policy()).Next
	if n.Phase != workspace.PhaseStandby || n.Operation != workspace.OpNone {
		t.Fatalf("in the end %s %s", n.Phase, n.Operation)
	}
	n.DesiredState = workspace.DesiredRunning
	if d = planner.Reconcile(now.Add(3*time.Second), n, o, false, policy()); d.Next.Operation != workspace.OpStarting || d.Action != planner.ActStart {
		t.Errorf("again: %s %q", d.Next.Operation, d.Action)
	}
	// The result of an actuator that was still running says nothing about the present desired state.
	quota := fmt.Errorf("start: %w", &workspace.PendingError{Pending: workspace.Pending{Reason: workspace.WaitQuota}, Err: errors.New("403")})
	w, o = waitsFor(workspace.OpStarting, workspace.DesiredStandby, workspace.WaitQuota)
	n = failed(now, w, quota, policy()).Next
	if d = planner.Reconcile(now, n, o, false, policy()); d.Next.Operation != workspace.OpNone || d.Action != planner.ActNothing {
		t.Errorf("after an actuator's error: %s %q", d.Next.Operation, d.Action)
	}
}

// TestAnOutdatedContainerIsReplaced: a container made from outdated settings is replaced before its obstacle is judged.
// Either another image was chosen, or the settings were corrected.
func TestAnOutdatedContainerIsReplaced(t *testing.T) {
	for _, pending := range []*workspace.Pending{noNode, pulls, noImage, noSecret} {
		outdated := *pending
		outdated.Outdated = true
		w, o := during(workspace.OpStarting, workspace.DesiredRunning)
		o.Container = pendingContainer(&outdated)
		if d := planner.Reconcile(now, w, o, false, policy()); d.Action != planner.ActStart || d.Next.ErrorReason != "" || d.Next.Operation != workspace.OpStarting {
			t.Errorf("%+v: %q %s", outdated, d.Action, d.Next.ErrorReason)
		}
		// Its operation was postponed.
		w, o = at(workspace.PhaseStandby)
		w.DesiredState, o.Container = workspace.DesiredRunning, pendingContainer(&outdated)
		if d := planner.Reconcile(now, w, o, false, policy()); d.Action != planner.ActStart || d.Next.ErrorReason != "" || d.Next.Operation != workspace.OpStarting {
			t.Errorf("without an operation, %+v: %q %s %s", outdated, d.Action, d.Next.Operation, d.Next.ErrorReason)
		}
		w, o = during(workspace.OpArchiving, workspace.DesiredArchived)
		w.ArchiveOpID = "op"
		o.Jobs = []workspace.Job{{Kind: workspace.JobArchive, OpID: "op", State: workspace.JobRunning, Pending: &outdated}}
		if d := planner.Reconcile(now, w, o, false, policy()); d.Action != planner.ActDeleteJobs || d.Next.ErrorCount != 0 || d.Next.Operation != workspace.OpArchiving {
			t.Errorf("a job, %+v: %q, %+v", outdated, d.Action, d.Next)
		}
	}
}
