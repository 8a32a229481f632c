package planner_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/coordinator/workspace/planner"
)

var (
	noNode      = &workspace.Pending{Reason: workspace.WaitUnschedulable, Message: "the cluster has no node"}
	pulls       = &workspace.Pending{Reason: workspace.WaitPullingImage, Message: "the node fetches it"}
	terminating = &workspace.Pending{Reason: workspace.WaitTerminating, Message: "node1 has not confirmed"}
	nodeLost    = &workspace.Pending{Reason: workspace.WaitNodeLost, Message: "node1 does not report"}
	noImage     = &workspace.Pending{Reason: workspace.WaitPullingImage, Message: "no such image", Failure: workspace.ReasonImagePullFailed}
	noSecret    = &workspace.Pending{Reason: workspace.WaitContainer, Message: "a Secret is missing", Failure: workspace.ReasonActionFailed}
)

// pendingContainer is a container that was started and does not run yet.
func pendingContainer(w *workspace.Pending) *workspace.Container {
	return &workspace.Container{Running: true, Volume: true, Health: workspace.HealthStarting, Pending: w}
}

// TestOperationsWaitForTheirBackend: each operation names the obstacle, does only what it would do anyway, and never
// ends in an error. An operation keeps waiting for a machine that may still write. With any other wait it is postponed
// after its limit, so that the desired state may change.
func TestOperationsWaitForTheirBackend(t *testing.T) {
	job := func(kind workspace.JobKind, w *workspace.Pending) []workspace.Job {
		return []workspace.Job{{Kind: kind, OpID: "op", State: workspace.JobRunning, Pending: w}}
	}
	for name, c := range map[string]struct {
		op      workspace.Operation
		seen    func(*workspace.Workspace, *workspace.Observation)
		pending *workspace.Pending
		action  planner.Action
	}{
		"a start without a node":                   {workspace.OpStarting, func(_ *workspace.Workspace, o *workspace.Observation) { o.Container = pendingContainer(noNode) }, noNode, ""},
		"a start whose last container does not go": {workspace.OpStarting, func(_ *workspace.Workspace, o *workspace.Observation) { o.Container = pendingContainer(terminating) }, terminating, ""},
		"a start on a node that is lost":           {workspace.OpStarting, func(_ *workspace.Workspace, o *workspace.Observation) { o.Container = pendingContainer(nodeLost) }, nodeLost, ""},
		"a stop":                                   {workspace.OpStopping, func(_ *workspace.Workspace, o *workspace.Observation) { o.Container = pendingContainer(terminating) }, terminating, planner.ActDeleteContainer},
		"a stop on a node that is lost":            {workspace.OpStopping, func(_ *workspace.Workspace, o *workspace.Observation) { o.Container = pendingContainer(nodeLost) }, nodeLost, planner.ActDeleteContainer},
		"a restore": {workspace.OpRestoring, func(w *workspace.Workspace, o *workspace.Observation) {
			w.HomeCtx.RestoreOpID, w.ArchiveKey, w.Conditions = "op", "key", conditions(false, true, false)
			o.Jobs = job(workspace.JobRestore, noNode)
		}, noNode, ""},
		"an archive": {workspace.OpArchiving, func(w *workspace.Workspace, o *workspace.Observation) {
			w.ArchiveOpID = "op"
			o.Jobs = job(workspace.JobArchive, nodeLost)
		}, nodeLost, ""},
		"a deletion": {workspace.OpDeleting, func(w *workspace.Workspace, o *workspace.Observation) {
			w.DeletedAt, w.DesiredState, o.Container = now, workspace.DesiredDeleted, pendingContainer(terminating)
		}, terminating, planner.ActDeleteContainer},
	} {
		w, o := during(c.op, workspace.DesiredRunning)
		c.seen(&w, &o)
		w.OpStartedAt = now
		if n := planner.Reconcile(now.Add(time.Second), w, o, false, policy()).Next; n.Waiting != nil || n.Operation != c.op {
			t.Errorf("%s: what every start goes through is told: %s, %+v", name, n.Operation, n.Waiting)
		}
		d := planner.Reconcile(now.Add(10*time.Second), w, o, false, policy())
		n := d.Next
		if n.Operation != c.op || d.Action != c.action || waits(n) != c.pending.Reason || n.Waiting.Message != c.pending.Message || n.ErrorReason != "" {
			t.Errorf("%s: %s %q %s, waits for %+v", name, n.Operation, d.Action, n.ErrorReason, n.Waiting)
			continue
		}
		if again := planner.Reconcile(now.Add(20*time.Second), n, o, false, policy()); again.Changed || !again.Next.Waiting.Since.Equal(now.Add(10*time.Second)) {
			t.Errorf("%s: the same wait is written again: %+v", name, again.Next.Waiting)
		}
		if n = planner.Reconcile(now.Add(20*time.Second), n, o, true, policy()).Next; waits(n) != c.pending.Reason {
			t.Errorf("%s: between two attempts it waits for %q", name, waits(n))
		}
		if c.pending == nodeLost || c.pending == terminating {
			resumes(t, name, n, o, c.action)
			continue
		}
		d = planner.Reconcile(now.Add(time.Hour), n, o, false, policy())
		n = d.Next
		if n.Operation != workspace.OpNone || n.ErrorReason != "" || n.ErrorCount != 0 || n.Phase == workspace.PhaseError || waits(n) != c.pending.Reason ||
			!n.Waiting.Since.Equal(now.Add(10*time.Second)) || (d.Action == planner.ActDeleteJobs) != (len(o.Jobs) > 0) || d.Retry == 0 {
			t.Errorf("%s: in the end %s %s %q, %q, waits for %+v", name, n.Operation, n.ErrorReason, n.ErrorMessage, d.Action, n.Waiting)
		}
	}
}

// TestAStartThatWaitsGoesOnByItself: a start that waits continues by itself, however long the wait takes. If another
// state is desired meanwhile, that is carried out.
func TestAStartThatWaitsGoesOnByItself(t *testing.T) {
	for _, pending := range []*workspace.Pending{noNode, pulls, {Reason: workspace.WaitVolume, Message: "attached elsewhere"}} {
		w, o := during(workspace.OpStarting, workspace.DesiredRunning)
		w.OpStartedAt, o.Container = now, pendingContainer(pending)
		for _, after := range []time.Duration{10 * time.Second, 6 * time.Minute, time.Hour, 100 * time.Hour} {
			d := planner.Reconcile(now.Add(after), w, o, false, policy())
			w = d.Next
			if w.ErrorReason != "" || w.Phase != workspace.PhaseStandby || waits(w) != pending.Reason || d.Action != planner.ActNothing ||
				(w.Operation == workspace.OpNone) != (after > policy().Timeouts[workspace.OpStarting]) {
				t.Errorf("%s after %s: %s %s %s %q, waits for %+v", pending.Reason, after, w.Phase, w.Operation, w.ErrorReason, d.Action, w.Waiting)
			}
		}
		asleep := w
		asleep.DesiredState = workspace.DesiredStandby
		if d := planner.Reconcile(now.Add(101*time.Hour), asleep, o, false, policy()); d.Next.Operation != workspace.OpStopping || d.Action != planner.ActDeleteContainer {
			t.Errorf("%s: no longer wanted: %s %q", pending.Reason, d.Next.Operation, d.Action)
		}
		o.Container = running
		if n := planner.Reconcile(now.Add(101*time.Hour), w, o, false, policy()).Next; n.Phase != workspace.PhaseRunning || n.Waiting != nil || n.Operation != workspace.OpNone {
			t.Errorf("%s: in the end %s %s, waits for %+v", pending.Reason, n.Phase, n.Operation, n.Waiting)
		}
	}
}

// TestWhatHasNotBegunIsMadeAnewFromOtherSettings: a container that has not begun to run is started again under other
// settings. A job that has not begun is removed, so that the next one has the present settings. That is no failure, and
// it does not happen before a retry is due.
func TestWhatHasNotBegunIsMadeAnewFromOtherSettings(t *testing.T) {
	old := *noNode
	old.Outdated = true
	for _, backingOff := range []bool{false, true} {
		w, o := during(workspace.OpStarting, workspace.DesiredRunning)
		w.OpStartedAt, o.Container = now, pendingContainer(&old)
		want := map[bool]planner.Action{false: planner.ActStart}[backingOff]
		if d := planner.Reconcile(now.Add(time.Minute), w, o, backingOff, policy()); d.Action != want || d.Next.ErrorReason != "" || d.Next.Operation != workspace.OpStarting {
			t.Errorf("backing off %v: %s %s %q", backingOff, d.Next.Operation, d.Next.ErrorReason, d.Action)
		}
		w.Operation, w.OpStartedAt = workspace.OpNone, time.Time{} // it was postponed
		if d := planner.Reconcile(now.Add(time.Minute), w, o, backingOff, policy()); d.Action != want || d.Next.ErrorReason != "" {
			t.Errorf("after it gave way, backing off %v: %s %s %q", backingOff, d.Next.Operation, d.Next.ErrorReason, d.Action)
		}
		w, o = during(workspace.OpRestoring, workspace.DesiredRunning)
		w.OpStartedAt, w.HomeCtx.RestoreOpID, w.ArchiveKey, w.Conditions = now, "op", "key", conditions(false, true, false)
		o.Jobs = []workspace.Job{{Kind: workspace.JobRestore, OpID: "op", State: workspace.JobRunning, Pending: &old}}
		want = map[bool]planner.Action{false: planner.ActDeleteJobs}[backingOff]
		if d := planner.Reconcile(now.Add(time.Minute), w, o, backingOff, policy()); d.Action != want || d.Next.ErrorReason != "" || d.Next.HomeCtx.RestoreOpID != "op" {
			t.Errorf("a restore, backing off %v: %s %q", backingOff, d.Next.ErrorReason, d.Action)
		}
	}
}

// resumes checks that the operation of w waits for a machine for as long as necessary, and that this time does
// not count when it continues.
func resumes(t *testing.T, name string, w workspace.Workspace, o workspace.Observation, again planner.Action) {
	t.Helper()
	p, later := policy(), now.Add(100*time.Hour)
	d := planner.Reconcile(later, w, o, false, p)
	if n := d.Next; n.Operation != w.Operation || n.ErrorCount != 0 || n.ErrorReason != "" || waits(n) != waits(w) || d.Action != again {
		t.Errorf("%s, much later: %s %s %q, waits for %+v", name, n.Operation, n.ErrorReason, d.Action, n.Waiting)
	}
	if o.Container != nil {
		one := *o.Container
		one.Pending, o.Container = nil, &one
	}
	for i := range o.Jobs {
		o.Jobs[i].Pending = nil
	}
	// The machine may be back before the cluster answers again.
	unseen := workspace.Observation{Unseen: workspace.AllSensors, UnseenReason: workspace.WaitBackendAway, UnseenMessage: "no answer"}
	away := planner.Reconcile(later, w, unseen, false, p).Next
	if n := planner.Reconcile(later.Add(time.Second), away, o, false, p).Next; waits(away) != workspace.WaitBackendAway || n.Operation != w.Operation || n.ErrorReason != "" {
		t.Errorf("%s, when the cluster was away in between: %s %s %q, waited for %q", name, n.Operation, n.ErrorReason, n.ErrorMessage, waits(away))
	}
	n := planner.Reconcile(later, w, o, false, p).Next
	if n.Operation != w.Operation || n.ErrorReason != "" || waits(n) != "" && again == "" {
		t.Errorf("%s, when it goes on: %s %s %q, waits for %+v", name, n.Operation, n.ErrorReason, n.ErrorMessage, n.Waiting)
	}
	n.Waiting = nil
	if n = planner.Reconcile(later.Add(time.Hour), n, o, false, p).Next; n.Operation != workspace.OpNone {
		t.Errorf("%s, without progress after that: %s, waits for %+v", name, n.Operation, n.Waiting)
	}
}

// TestWhatDoesNotPassEndsTheOperation: an obstacle that does not pass by itself ends the operation as a failure with
// its reason. Nothing of the attempt stays, because the cause may be repaired before the next one.
func TestWhatDoesNotPassEndsTheOperation(t *testing.T) {
	w, o := during(workspace.OpStarting, workspace.DesiredRunning)
	o.Container = pendingContainer(noImage)
	d := planner.Reconcile(now, w, o, false, policy())
	if n := d.Next; n.ErrorReason != workspace.ReasonImagePullFailed || n.ErrorMessage != noImage.Message || n.Phase != workspace.PhaseError || d.Action != planner.ActDeleteContainer || n.Waiting != nil {
		t.Errorf("no such image: %s %s %q, %q", n.Phase, n.ErrorReason, n.ErrorMessage, d.Action)
	}
	if d = planner.Reconcile(now, w, o, true, policy()); d.Next.ErrorReason != "" || d.Action != planner.ActNothing {
		t.Errorf("before the next attempt is due: %s %q", d.Next.ErrorReason, d.Action)
	}
	// After a recovery, the container of the previous attempt says nothing about this one.
	w, o = at(workspace.PhaseStandby)
	w.DesiredState, o.Container = workspace.DesiredRunning, pendingContainer(noImage)
	if d = planner.Reconcile(now, w, o, false, policy()); d.Next.Operation != workspace.OpStarting || d.Next.ErrorReason != "" || d.Action != planner.ActDeleteContainer {
		t.Errorf("a new attempt: %s %s %q", d.Next.Operation, d.Next.ErrorReason, d.Action)
	}
	w, o = during(workspace.OpStarting, workspace.DesiredRunning)
	for i := range 3 {
		o.Container = pendingContainer(noSecret)
		d = planner.Reconcile(now, w, o, false, policy())
		if w = d.Next; w.ErrorCount != i+1 || d.Action != planner.ActDeleteContainer || (w.ErrorReason == workspace.ReasonRetryExceeded) != (i == 2) {
			t.Errorf("attempt %d: %s %d %q", i, w.ErrorReason, w.ErrorCount, d.Action)
		}
	}
	// A restore gets its own volume for the next attempt; an archive operation is postponed.
	w, o = during(workspace.OpRestoring, workspace.DesiredRunning)
	w.HomeCtx.RestoreOpID, w.ArchiveKey, w.Conditions = "op", "key", conditions(false, true, false)
	o.Jobs = []workspace.Job{{Kind: workspace.JobRestore, OpID: "op", State: workspace.JobRunning, Pending: noSecret}}
	if d = planner.Reconcile(now, w, o, false, policy()); d.Next.ErrorReason != workspace.ReasonActionFailed || d.Next.HomeCtx.RestoreOpID == "op" || d.Action != planner.ActDeleteJobs {
		t.Errorf("a restore: %s %q, restore %s", d.Next.ErrorReason, d.Action, d.Next.HomeCtx.RestoreOpID)
	}
	w, o = during(workspace.OpArchiving, workspace.DesiredArchived)
	w.ArchiveOpID = "op"
	o.Jobs = []workspace.Job{{Kind: workspace.JobArchive, OpID: "op", State: workspace.JobRunning, Pending: noImage}}
	if d = planner.Reconcile(now, w, o, false, policy()); waits(d.Next) != workspace.WaitJobImage || !strings.Contains(d.Next.Waiting.Message, noImage.Message) ||
		d.Next.Phase != workspace.PhaseStandby || d.Action != planner.ActDeleteJobs {
		t.Errorf("an archive: %s %q, waits for %+v", d.Next.Phase, d.Action, d.Next.Waiting)
	}
}

// TestWhatAnAdministratorMustGiveHasNoEnd: operations wait without a limit for the image of storage jobs, and for the
// firewall rules of workspaces. However long that takes, nothing counts as a failure, and an intact volume can be
// opened meanwhile.
func TestWhatAnAdministratorMustGiveHasNoEnd(t *testing.T) {
	for _, reason := range []string{workspace.WaitJobImage, workspace.WaitEgressRules} {
		missing := fmt.Errorf("starting: %w", &workspace.PendingError{
			Pending: workspace.Pending{Reason: reason, Message: "set job_image"}, Err: errors.New("not there")})
		w, o := during(workspace.OpStarting, workspace.DesiredRunning)
		w.OpStartedAt, o.ProgressAt = now, now
		w = planner.Reconcile(now, w, o, true, policy()).Next
		for day := range 5 {
			at := now.Add(time.Duration(day) * 24 * time.Hour)
			d := failed(at, w, missing, policy())
			if n := d.Next; n.Operation != workspace.OpStarting || n.ErrorCount != 0 || n.Phase == workspace.PhaseError || waits(n) != reason ||
				d.Retry < time.Second || d.Retry > 30*time.Second {
				t.Fatalf("%s, day %d: %s %s, waits for %+v, again in %s", reason, day, n.Operation, n.ErrorReason, n.Waiting, d.Retry)
			}
			w = d.Next
			if d = planner.Reconcile(at, w, o, true, policy()); d.Changed || d.Action != planner.ActNothing {
				t.Errorf("%s, day %d, before the next attempt: %q, waits for %q", reason, day, d.Action, waits(d.Next))
			}
			if d = planner.Reconcile(at, w, o, false, policy()); d.Action != planner.ActStart || d.Next.Phase == workspace.PhaseError {
				t.Errorf("%s, day %d, the next attempt: %q %s", reason, day, d.Action, d.Next.ErrorReason)
			}
		}
		// It is available: the limits start again.
		o.Container = pendingContainer(nil)
		d := planner.Reconcile(now.Add(120*time.Hour), w, o, false, policy())
		if n := d.Next; n.Phase == workspace.PhaseError || n.Operation != workspace.OpStarting || n.Waiting != nil {
			t.Errorf("%s, then: %s %s %s, waits for %q", reason, n.Phase, n.Operation, n.ErrorReason, waits(n))
		}
		w, _ = during(workspace.OpArchiving, workspace.DesiredArchived)
		w.ArchiveOpID = "op"
		if d := failed(now, w, missing, policy()); d.Next.Operation != workspace.OpNone || d.Next.Phase != workspace.PhaseStandby || waits(d.Next) != reason {
			t.Errorf("%s, an archive: %s %s, waits for %q", reason, d.Next.Operation, d.Next.Phase, waits(d.Next))
		}
	}
}

// TestAnActuatorThatMustWait is no failure. The wait is shown until the next attempt has a result; after the
// operation's limit it is postponed and tried again.
func TestAnActuatorThatMustWait(t *testing.T) {
	quota := fmt.Errorf("start: %w", &workspace.PendingError{
		Pending: workspace.Pending{Reason: workspace.WaitQuota, Message: "the quota q is used up"}, Err: errors.New("403")})
	w, o := during(workspace.OpStarting, workspace.DesiredRunning)
	w.OpStartedAt = now
	w = planner.Reconcile(now, w, o, true, policy()).Next
	for i := range 5 { // more than the retries of an error
		d := failed(now.Add(time.Minute), w, quota, policy())
		if n := d.Next; n.Operation != workspace.OpStarting || n.ErrorCount != 0 || n.ErrorReason != "" || waits(n) != workspace.WaitQuota ||
			d.Retry < time.Second || d.Retry > 30*time.Second || d.Action != planner.ActNothing {
			t.Fatalf("attempt %d: %s %s, waits for %+v, again in %s", i, n.Operation, n.ErrorReason, n.Waiting, d.Retry)
		}
		w = d.Next
		if d = planner.Reconcile(now.Add(time.Minute), w, o, true, policy()); d.Changed || d.Action != planner.ActNothing {
			t.Errorf("before the next attempt is due: %q %+v", d.Action, d.Next)
		}
		if d = planner.Reconcile(now.Add(time.Minute), w, o, false, policy()); d.Changed || d.Action != planner.ActStart {
			t.Errorf("when it is due: %q, waits for %+v", d.Action, d.Next.Waiting)
		}
	}
	if n := planner.Reconcile(now.Add(time.Hour), w, o, false, policy()).Next; n.Operation != workspace.OpNone || n.ErrorReason != "" || waits(n) != workspace.WaitQuota {
		t.Errorf("in the end: %s %s %q", n.Operation, n.ErrorReason, n.ErrorMessage)
	} else if d := planner.Reconcile(now.Add(2*time.Hour), n, o, false, policy()); d.Next.Operation != workspace.OpStarting || d.Action != planner.ActStart {
		t.Errorf("and then: %s %q", d.Next.Operation, d.Action)
	}
	o.Container = &workspace.Container{Running: true, Volume: true, Health: workspace.HealthStarting}
	if n := planner.Reconcile(now.Add(time.Minute), w, o, false, policy()).Next; n.Waiting != nil {
		t.Errorf("the container is there, and it waits for %+v", n.Waiting)
	}
	never := &workspace.PendingError{Pending: *noSecret, Err: errors.New("403")}
	if n := failed(now, w, never, policy()).Next; n.ErrorReason != workspace.ReasonActionFailed || n.ErrorMessage != noSecret.Message || n.ErrorCount != 1 || n.Waiting != nil {
		t.Errorf("what does not pass: %s %q", n.ErrorReason, n.ErrorMessage)
	}
	w.Operation = workspace.OpArchiving
	if n := failed(now, w, never, policy()).Next; waits(n) != workspace.WaitArchiveFailed {
		t.Errorf("what does not pass, of an archive: %+v", n.Waiting)
	}
}

// TestABackendThatDoesNotAnswerAnActuator: however often the backend does not answer an actuator, the operation waits,
// as it does when the backend does not answer an observation. The wait of an archive is a different matter.
func TestABackendThatDoesNotAnswerAnActuator(t *testing.T) {
	away := fmt.Errorf("start: %w", workspace.Fail(workspace.ReasonUnreachable, errors.New("the engine is stopping")))
	for _, op := range []workspace.Operation{workspace.OpProvisioning, workspace.OpStarting, workspace.OpStopping, workspace.OpDeleting} {
		w, _ := during(op, workspace.DesiredRunning)
		for i := range 5 { // more than the retries of an error
			d := failed(now.Add(time.Duration(i)*time.Second), w, away, policy())
			if n := d.Next; n.Operation != op || n.ErrorCount != 0 || n.ErrorReason != "" || waits(n) != workspace.WaitBackendAway ||
				d.Retry < time.Second || d.Retry > 30*time.Second || d.Action != planner.ActNothing {
				t.Fatalf("%s, attempt %d: %s, waits for %+v, again in %s, %q", op, i, n.ErrorReason, n.Waiting, d.Retry, d.Action)
			}
			w = d.Next
		}
	}
	w, _ := during(workspace.OpRestoring, workspace.DesiredRunning)
	if n := failed(now, w, away, policy()).Next; n.ErrorReason != workspace.ReasonUnreachable || n.ErrorCount != 1 {
		t.Errorf("a restore: %s, %d", n.ErrorReason, n.ErrorCount)
	}
}

// TestARunningWorkspaceWhoseNodeIsLost stays in use, shows the loss, and recovers by itself.
func TestARunningWorkspaceWhoseNodeIsLost(t *testing.T) {
	w, o := at(workspace.PhaseRunning)
	lost := *running
	lost.Ready, lost.Health, lost.Pending = false, workspace.HealthUnhealthy, nodeLost
	o.Container = &lost
	d := planner.Reconcile(now, w, o, false, policy())
	n := d.Next
	if n.Phase != workspace.PhaseRunning || n.Endpoint != lost.Endpoint || waits(n) != workspace.WaitNodeLost || n.Waiting.Message != nodeLost.Message ||
		n.Conditions[workspace.ContainerReady].Message != nodeLost.Message || d.Action != planner.ActNothing || n.Operation != workspace.OpNone {
		t.Errorf("%s at %q, waits for %+v, %q", n.Phase, n.Endpoint, n.Waiting, d.Action)
	}
	if d = planner.Reconcile(now.Add(100*time.Hour), n, o, false, policy()); d.Changed {
		t.Errorf("much later: %+v", d.Next)
	}
	o.Container = running
	if n = planner.Reconcile(now, n, o, false, policy()).Next; n.Phase != workspace.PhaseRunning || n.Waiting != nil || !n.Conditions.True(workspace.ContainerReady) {
		t.Errorf("back: %s, waits for %+v", n.Phase, n.Waiting)
	}
	// The container was told to end from outside: its address may go to another container at any time.
	lost.Endpoint, lost.Pending = "", terminating
	o.Container = &lost
	if n = planner.Reconcile(now, w, o, false, policy()).Next; n.Phase != workspace.PhaseRunning || n.Endpoint != "" || waits(n) != workspace.WaitTerminating {
		t.Errorf("ending: %s at %q, waits for %+v", n.Phase, n.Endpoint, n.Waiting)
	}
}

// TestTheCauseOfAnEndIsTold.
func TestTheCauseOfAnEndIsTold(t *testing.T) {
	ended := &workspace.Container{Volume: true, ExitCode: 137, Cause: "it ran out of memory", StartedAt: now.Add(-time.Second), FinishedAt: now}
	w, o := at(workspace.PhaseRunning)
	o.Container = ended
	w.HomeCtx.Crashes = 2
	n := planner.Reconcile(now, w, o, false, policy()).Next
	if m := n.Conditions[workspace.ContainerReady].Message; m != "the container exited with code 137: it ran out of memory" {
		t.Errorf("the condition says %q", m)
	}
	if !strings.Contains(n.ErrorMessage, "exit code 137: it ran out of memory") {
		t.Errorf("a crash loop says %q", n.ErrorMessage)
	}
	w, o = during(workspace.OpStarting, workspace.DesiredRunning)
	o.Container = ended
	if n = planner.Reconcile(now, w, o, false, policy()).Next; !strings.Contains(n.ErrorMessage, "exit code 137: it ran out of memory") {
		t.Errorf("a start says %q", n.ErrorMessage)
	}
}

// TestAVolumeInDoubt: nothing is concluded from it. In particular, a container is not stopped if its volume would be
// removed with it.
func TestAVolumeInDoubt(t *testing.T) {
	doubt := &workspace.Volume{OpID: "A", Unknown: "its claim is being deleted"}
	for _, phase := range []workspace.Phase{workspace.PhasePending, workspace.PhaseArchived, workspace.PhaseStandby, workspace.PhaseRunning} {
		for _, desired := range []workspace.DesiredState{workspace.DesiredRunning, workspace.DesiredStandby, workspace.DesiredArchived, workspace.DesiredDeleted} {
			w, o := at(phase)
			w.DesiredState, o.Volume = desired, doubt
			if desired == workspace.DesiredDeleted {
				w.DeletedAt = now
			}
			d := planner.Reconcile(now, w, o, false, policy())
			n := d.Next
			if d.Action != planner.ActNothing || n.Operation != workspace.OpNone || n.ErrorReason != "" || waits(n) != workspace.WaitVolume || !strings.Contains(n.Waiting.Message, doubt.Unknown) {
				t.Errorf("%s, wants %s: %s %q %s, waits for %+v", phase, desired, n.Operation, d.Action, n.ErrorReason, n.Waiting)
			}
			if n.Conditions.True(workspace.VolumeReady) != w.Conditions.True(workspace.VolumeReady) {
				t.Errorf("%s, wants %s: the volume's condition changed", phase, desired)
			}
			o.Volume = nil
			if phase == workspace.PhaseStandby || phase == workspace.PhaseRunning {
				o.Volume = homeVolume
			}
			if n = planner.Reconcile(now, n, o, false, policy()).Next; waits(n) == workspace.WaitVolume {
				t.Errorf("%s, wants %s: without doubt it waits for %+v", phase, desired, n.Waiting)
			}
		}
	}
	for _, op := range []workspace.Operation{workspace.OpStopping, workspace.OpArchiving, workspace.OpRestoring, workspace.OpStarting, workspace.OpDeleting, workspace.OpProvisioning} {
		w, o := during(op, workspace.DesiredStandby)
		o.Volume, o.Container = doubt, running
		if d := planner.Reconcile(now.Add(100*time.Hour), w, o, false, policy()); d.Action != planner.ActNothing || d.Next.Operation != op || waits(d.Next) != workspace.WaitVolume {
			t.Errorf("%s: %s %q, waits for %+v", op, d.Next.Operation, d.Action, d.Next.Waiting)
		}
	}
	// A user who has given up the files does not wait for them.
	w, o := at(workspace.PhaseRunning)
	w.DesiredState, w.DeletedAt, w.DeleteNow, o.Volume = workspace.DesiredDeleted, now, true, doubt
	if d := planner.Reconcile(now, w, o, false, policy()); d.Action != planner.ActDeleteContainer {
		t.Errorf("given up: %s %q", d.Next.Operation, d.Action)
	}
}
