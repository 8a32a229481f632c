package planner_test

import (
	"strings"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/coordinator/workspace/planner"
)

// TestWaitingForAnImage: while its image is being pulled, an operation waits beyond any timeout and shows this. It does
// not ask the engine again. A failed pull is terminal immediately, except on an intact volume.
func TestWaitingForAnImage(t *testing.T) {
	for name, c := range map[string]struct {
		op      workspace.Operation
		desired workspace.DesiredState
		change  func(*workspace.Workspace, *workspace.Observation)
		then    planner.Action // when the image exists
		reason  workspace.ErrorReason
		waits   string // when the pull failed
	}{
		"starting": {workspace.OpStarting, workspace.DesiredRunning, nil,
			planner.ActStart, workspace.ReasonImagePullFailed, ""},
		"restoring": {workspace.OpRestoring, workspace.DesiredRunning, func(w *workspace.Workspace, o *workspace.Observation) {
			w.ArchiveKey, w.HomeCtx.RestoreOpID, w.HomeCtx.Dirty = "K1", "A", false
			w.Conditions, o.Archive, o.Witnessed = conditions(false, true, false), workspace.Present, true
		}, planner.ActStartRestore, workspace.ReasonImagePullFailed, ""},
		"archiving": {workspace.OpArchiving, workspace.DesiredArchived, func(w *workspace.Workspace, _ *workspace.Observation) {
			w.ArchiveOpID = "op"
		}, planner.ActStartArchive, "", workspace.WaitArchiveFailed},
		"archiving a deleted one": {workspace.OpArchiving, workspace.DesiredDeleted, func(w *workspace.Workspace, _ *workspace.Observation) {
			w.ArchiveOpID, w.DeletedAt = "op", now.Add(-2*time.Minute)
		}, planner.ActStartArchive, "", workspace.WaitArchiveFailed},
	} {
		w, o := during(c.op, c.desired)
		if c.change != nil {
			c.change(&w, &o)
		}
		w.OpStartedAt = now.Add(-10 * time.Hour) // a large image
		o.Pull = &workspace.Pull{Done: 120e6, Total: 540e6}
		d := planner.Reconcile(now, w, o, false, policy())
		if n := d.Next; d.Action != planner.ActNothing || n.Operation != c.op || n.ErrorReason != "" || waits(n) != workspace.WaitPullingImage ||
			n.Waiting.Message != "pulling 120 of 540 MB" || n.Waiting.Done != 120e6 || n.Waiting.Total != 540e6 || n.ArchiveOpID != w.ArchiveOpID {
			t.Errorf("%s: %s %q %s, waits for %+v", name, n.Operation, d.Action, n.ErrorReason, n.Waiting)
		}
		o.Pull = &workspace.Pull{Failure: "manifest unknown"}
		n := planner.Reconcile(now, d.Next, o, false, policy()).Next
		if n.Operation != workspace.OpNone || n.ErrorReason != c.reason || c.waits != waits(n) ||
			!strings.Contains(n.ErrorMessage+messageOf(n), "manifest unknown") {
			t.Errorf("%s, it could not be pulled: %s %s, waits for %q", name, n.Operation, n.ErrorReason, waits(n))
		}
		o.Pull, o.ProgressAt = nil, now
		if d := planner.Reconcile(now, d.Next, o, false, policy()); d.Action != c.then || d.Next.Waiting != nil {
			t.Errorf("%s, it is here: %q, waits for %q", name, d.Action, waits(d.Next))
		}
	}
}

// messageOf returns the message of a workspace's wait, or "".
func messageOf(w workspace.Workspace) string {
	if w.Waiting == nil {
		return ""
	}
	return w.Waiting.Message
}

// TestAProgressLimitsNothingForEver: an operation that makes progress is late only after the overall limit.
func TestAProgressLimitsNothingForEver(t *testing.T) {
	for _, c := range []struct {
		began, progress time.Duration // ago
		late            bool
	}{
		{time.Hour, time.Minute, false},
		{time.Hour, 31 * time.Minute, true},
		{time.Minute, time.Hour, false}, // the progress of an earlier operation
		{25 * time.Hour, time.Second, true},
		{23 * time.Hour, 29 * time.Minute, false},
	} {
		w, o := during(workspace.OpRestoring, workspace.DesiredRunning)
		w.ArchiveKey, w.HomeCtx.RestoreOpID, w.HomeCtx.Dirty = "K1", "A", false
		w.Conditions, o.Archive = conditions(false, true, false), workspace.Present
		o.Jobs = []workspace.Job{{Kind: workspace.JobRestore, OpID: "A", State: workspace.JobRunning}}
		w.OpStartedAt, o.ProgressAt = now.Add(-c.began), now.Add(-c.progress)
		n := planner.Reconcile(now, w, o, false, policy()).Next
		if late := n.ErrorReason == workspace.ReasonTimeout; late != c.late || late != (n.Operation == workspace.OpNone) {
			t.Errorf("begun %s ago, progress %s ago: %s %s, want late %v", c.began, c.progress, n.Operation, n.ErrorReason, c.late)
		}
	}
}

// TestAPullThatFailsForNowIsTriedAgain: a failed pull is tried again after growing pauses. The workspace shows the
// cause, and this is never an error. Meanwhile the desired state may change, and an attempt that somebody requests
// begins immediately.
func TestAPullThatFailsForNowIsTriedAgain(t *testing.T) {
	w, o := during(workspace.OpStarting, workspace.DesiredRunning)
	w.OpStartedAt = now
	at := now
	var pauses []time.Duration
	for range 12 {
		o.Pull = &workspace.Pull{Failure: "toomanyrequests: later", Cause: workspace.CauseRateLimit}
		d := planner.Reconcile(at, w, o, false, policy())
		n := d.Next
		if d.Action != planner.ActNothing || n.Operation != workspace.OpStarting || n.ErrorReason != "" || n.ErrorCount != 0 ||
			!n.Waiting.FailedPull() || n.Waiting.Cause != workspace.CauseRateLimit || !n.Waiting.Since.Equal(now) || n.Waiting.Message != "toomanyrequests: later" {
			t.Fatalf("%s %q %s, waits for %+v", n.Operation, d.Action, n.ErrorReason, n.Waiting)
		}
		pauses = append(pauses, d.Retry)
		o.Pull = nil
		if idle := planner.Reconcile(at, n, o, true, policy()); idle.Action != planner.ActNothing || !idle.Next.Waiting.FailedPull() {
			t.Fatalf("before the next attempt: %q, waits for %+v", idle.Action, idle.Next.Waiting)
		}
		again := planner.Reconcile(at, n, o, false, policy())
		if again.Action != planner.ActStart || !again.Next.Waiting.FailedPull() {
			t.Fatalf("the next attempt: %q, waits for %+v", again.Action, again.Next.Waiting)
		}
		o.Pull = &workspace.Pull{}
		if n = planner.Reconcile(at, again.Next, o, false, policy()).Next; !n.Waiting.FailedPull() {
			t.Fatalf("before a byte has come: %+v", n.Waiting)
		}
		w, at = n, at.Add(time.Second)
	}
	if pauses[0] != time.Second || pauses[1] != 2*time.Second || pauses[5] != 32*time.Second || pauses[11] != 5*time.Minute {
		t.Errorf("it is tried again after %s", pauses)
	}
	// Bytes arrive, and then no more.
	o.Pull = &workspace.Pull{Done: 1, Total: 2}
	n := planner.Reconcile(at, w, o, false, policy()).Next
	if n.Waiting.FailedPull() || n.Waiting.Done != 1 || n.Waiting.Tries != 12 {
		t.Errorf("bytes arrive: %+v", n.Waiting)
	}
	// After its limit the operation is postponed, as with other waits, and still shows the cause.
	o.Pull = nil
	late := at.Add(6 * time.Minute)
	gave := planner.Reconcile(late, w, o, true, policy()).Next
	if gave.Operation != workspace.OpNone || gave.Phase != workspace.PhaseStandby || gave.ErrorReason != "" || !gave.Waiting.FailedPull() {
		t.Errorf("after its limit: %s %s %s, waits for %+v", gave.Phase, gave.Operation, gave.ErrorReason, gave.Waiting)
	}
	w.DesiredState = workspace.DesiredStandby
	if d := planner.Reconcile(at, w, o, false, policy()); d.Next.Operation != workspace.OpNone || d.Next.Waiting != nil || d.Next.Phase != workspace.PhaseStandby {
		t.Errorf("put to sleep: %s, waits for %+v", d.Next.Operation, d.Next.Waiting)
	}
}

// TestARetryOfThePullReplacesWhatANodeTries: the node backs off longer and longer. A container that has begun
// to run stays.
func TestARetryOfThePullReplacesWhatANodeTries(t *testing.T) {
	asked := &workspace.Recovery{ID: "asked", Choice: workspace.RecoverRetry}
	for name, c := range map[string]struct {
		pending *workspace.Pending
		then    planner.Action
	}{
		"it cannot be pulled": {&workspace.Pending{Reason: workspace.WaitPullingImage, Message: "503", Cause: workspace.CauseServerError}, planner.ActDeleteContainer},
		"it is being pulled":  {pulls, planner.ActNothing},
		"it has no node":      {noNode, planner.ActNothing},
		"it runs":             {nil, planner.ActNothing},
	} {
		w, o := during(workspace.OpStarting, workspace.DesiredRunning)
		w.OpStartedAt = now.Add(-time.Minute)
		o.Container = pendingContainer(c.pending)
		if d := planner.Reconcile(now, w, o, false, policy()); d.Action != planner.ActNothing {
			t.Errorf("%s: %q", name, d.Action)
		} else if c.pending != nil && d.Next.Waiting.Cause != c.pending.Cause {
			t.Errorf("%s: waits for %+v", name, d.Next.Waiting)
		}
		w.Recovery = asked
		d := planner.Reconcile(now, w, o, false, policy())
		if d.Action != c.then || d.Next.HomeCtx.RecoveryID != "asked" || d.Next.Operation != workspace.OpStarting {
			t.Errorf("%s, asked for again: %q, carried out %q", name, d.Action, d.Next.HomeCtx.RecoveryID)
		}
		if d := planner.Reconcile(now, d.Next, o, false, policy()); d.Action != planner.ActNothing {
			t.Errorf("%s, once more: %q", name, d.Action)
		}
	}
}

// TestARetryOfThePullDecidesNothingElse: the start was postponed, or the image has arrived meanwhile. The record of the
// files stays, and no other decision waits for the retry.
func TestARetryOfThePullDecidesNothingElse(t *testing.T) {
	failed := &workspace.Waiting{Reason: workspace.WaitPullingImage, Cause: workspace.CauseRateLimit, Since: now, Tries: 9}
	known := workspace.Fingerprint{Value: "v", VolumeOpID: "A", ArchiveKey: "key"}
	for name, c := range map[string]struct {
		phase     workspace.Phase
		waiting   *workspace.Waiting
		container *workspace.Container
		then      planner.Action
		operation workspace.Operation
	}{
		"it has given way": {workspace.PhaseStandby, failed, nil, planner.ActStart, workspace.OpStarting},
		"a node tries": {workspace.PhaseStandby, failed,
			pendingContainer(&workspace.Pending{Reason: workspace.WaitPullingImage, Message: "503", Cause: workspace.CauseServerError}),
			planner.ActDeleteContainer, workspace.OpNone},
		"it runs":        {workspace.PhaseRunning, nil, running, planner.ActNothing, workspace.OpNone},
		"it is to sleep": {workspace.PhaseRunning, nil, running, planner.ActDeleteContainer, workspace.OpStopping},
	} {
		w, o := at(c.phase)
		w.DesiredState, w.Waiting, w.Recovery = workspace.DesiredRunning, c.waiting, &workspace.Recovery{ID: "asked", Choice: workspace.RecoverRetry}
		w.HomeCtx.Fingerprint, w.HomeCtx.Crashes, w.HomeCtx.Unread = known, 1, 1
		o.Container, o.Unseen = c.container, workspace.SensorJobs
		if c.operation == workspace.OpStopping {
			w.DesiredState = workspace.DesiredStandby
		}
		d := planner.Reconcile(now, w, o, false, policy())
		if h := d.Next.HomeCtx; h.Fingerprint != known || h.Crashes != 1 || h.Unread != 1 || c.operation == workspace.OpStopping && d.Action != c.then {
			t.Errorf("%s, no jobs are seen: %q %+v", name, d.Action, h)
		}
		o.Unseen = 0
		d = planner.Reconcile(now, d.Next, o, false, policy())
		if h := d.Next.HomeCtx; d.Action != c.then || d.Next.Operation != c.operation || h.Fingerprint != known || h.RecoveryID != "asked" {
			t.Errorf("%s: %q %s %+v", name, d.Action, d.Next.Operation, h)
		}
	}
}

// TestThePullsOfAnotherImageBeginAnew: for another image, or when another attempt is requested, the pause is one second
// again, and the next attempt counts as the first. The former image is not mentioned.
func TestThePullsOfAnotherImageBeginAnew(t *testing.T) {
	failed := workspace.Waiting{
		Reason: workspace.WaitPullingImage, Message: "503 of A", Cause: workspace.CauseServerError, Since: now.Add(-time.Hour), Tries: 10, Image: "A",
	}
	asked := &workspace.Recovery{ID: "asked", Choice: workspace.RecoverRetry}
	for name, c := range map[string]struct {
		image     string
		operation workspace.Operation
		recovery  *workspace.Recovery
		under     bool // the retry is requested during a pull
		tries     int
		pause     time.Duration
		since     time.Time
		says      string // before the next attempt has failed
	}{
		"the same image":                         {image: "A", operation: workspace.OpStarting, tries: 11, pause: 5 * time.Minute, since: failed.Since, says: "503 of A"},
		"it is not known":                        {image: "", operation: workspace.OpStarting, tries: 11, pause: 5 * time.Minute, since: failed.Since, says: "503 of A"},
		"another image":                          {image: "B", operation: workspace.OpStarting, tries: 1, pause: time.Second, since: now},
		"another image, after it gave way":       {image: "B", operation: workspace.OpNone, tries: 1, pause: time.Second, since: now},
		"another attempt":                        {image: "A", operation: workspace.OpStarting, recovery: asked, tries: 1, pause: time.Second, since: failed.Since, says: "503 of A"},
		"another attempt, during the one before": {image: "A", operation: workspace.OpStarting, recovery: asked, under: true, tries: 1, pause: time.Second, since: failed.Since, says: "503 of A"},
	} {
		w, o := during(c.operation, workspace.DesiredRunning)
		if c.operation == workspace.OpNone {
			w.OpStartedAt, w.HomeCtx.Deferred = time.Time{}, 9
		}
		waiting := failed
		w.OpStartedAt, w.Waiting, w.Recovery, o.Image = now, &waiting, c.recovery, c.image
		if !c.under {
			d := planner.Reconcile(now, w, o, false, policy())
			if d.Action != planner.ActStart {
				t.Fatalf("%s: %q", name, d.Action)
			}
			w = d.Next
		}
		o.Pull = &workspace.Pull{}
		w = planner.Reconcile(now, w, o, false, policy()).Next
		if w.Waiting == nil || !strings.Contains(w.Waiting.Message, c.says) || c.says == "" && w.Waiting.FailedPull() {
			t.Errorf("%s, before a byte has come: %+v", name, w.Waiting)
		}
		o.Pull = &workspace.Pull{Failure: "429", Cause: workspace.CauseRateLimit}
		d := planner.Reconcile(now, w, o, false, policy())
		if got := d.Next.Waiting; got.Tries != c.tries || d.Retry != c.pause || !got.Since.Equal(c.since) || got.Image != c.image || got.Message != "429" {
			t.Errorf("%s: the next attempt follows after %s: %+v", name, d.Retry, got)
		}
	}
}
