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
	away     = workspace.StoreAnswer{State: workspace.StoreAway, Message: "no answer"}
	refuses  = workspace.StoreAnswer{State: workspace.StoreRefuses, Message: "403: check the keys"}
	mismatch = workspace.StoreAnswer{State: workspace.StoreMismatch, Message: "another bucket"}
)

// waits returns the reason of a workspace's wait, or "".
func waits(w workspace.Workspace) string {
	if w.Waiting == nil {
		return ""
	}
	return w.Waiting.Reason
}

// TestTheStoreIsAskedFirst: operations that need the object store do not begin before the store answers and is the
// recorded one (SPEC 3).
func TestTheStoreIsAskedFirst(t *testing.T) {
	for name, c := range map[string]struct {
		phase   workspace.Phase
		desired workspace.DesiredState
		asks    bool
	}{
		"archiving":            {workspace.PhaseStandby, workspace.DesiredArchived, true},
		"archiving a deletion": {workspace.PhaseStandby, workspace.DesiredDeleted, true},
		"restoring":            {workspace.PhaseArchived, workspace.DesiredRunning, true},
		"an empty archive":     {workspace.PhasePending, workspace.DesiredArchived, true},
		"provisioning":         {workspace.PhasePending, workspace.DesiredRunning, false},
		"starting":             {workspace.PhaseStandby, workspace.DesiredRunning, false},
		"stopping":             {workspace.PhaseRunning, workspace.DesiredArchived, false},
	} {
		w, o := at(c.phase)
		w.DesiredState = c.desired
		if c.desired == workspace.DesiredDeleted {
			w.DeletedAt = now
		}
		o.Store = workspace.StoreAnswer{}
		if d := planner.Reconcile(now, w, o, false, policy()); d.Ask.Bucket != c.asks || (d.Next.Operation == workspace.OpNone) != c.asks {
			t.Errorf("%s: asks %v and begins %s", name, d.Ask, d.Next.Operation)
		}
		if d := planner.Reconcile(now, w, o, true, policy()); !d.Ask.None() {
			t.Errorf("%s: asks before the next attempt is due", name)
		}
		for answer, reason := range map[workspace.StoreAnswer]string{
			away: workspace.WaitStoreAway, refuses: workspace.WaitStoreRefuses, mismatch: workspace.WaitBucketMismatch,
		} {
			o.Store = answer
			d := planner.Reconcile(now, w, o, false, policy())
			if !c.asks {
				if d.Next.Operation == workspace.OpNone {
					t.Errorf("%s: is not begun while the store is down", name)
				}
				continue
			}
			if d.Next.Operation != workspace.OpNone || d.Next.ErrorReason != "" || waits(d.Next) != reason ||
				!strings.Contains(d.Next.Waiting.Message, answer.Message) || d.Retry < time.Second {
				t.Errorf("%s: %s %s, waits for %q, again in %s; want %s", name, d.Next.Operation, d.Next.ErrorReason, waits(d.Next), d.Retry, reason)
			}
			later := planner.Reconcile(now.Add(5*time.Minute), d.Next, o, false, policy())
			if later.Changed || !later.Next.Waiting.Since.Equal(now) || later.Retry <= d.Retry || later.Retry > 10*time.Minute {
				t.Errorf("%s: five minutes later changed %v, since %s, again in %s", name, later.Changed, later.Next.Waiting.Since, later.Retry)
			}
			back := o
			back.Store = answers
			if n := planner.Reconcile(now.Add(time.Hour), later.Next, back, false, policy()).Next; n.Operation == workspace.OpNone || n.Waiting != nil {
				t.Errorf("%s: with the store back %s, waits for %q", name, n.Operation, waits(n))
			}
		}
	}
}

// TestWaitingForARefusalEnds: if the store refuses, a workspace without an intact volume waits only until the limit.
// The message of its error names the remedy. An unreachable store may come back.
func TestWaitingForARefusalEnds(t *testing.T) {
	for name, c := range map[string]struct {
		phase  workspace.Phase
		wanted workspace.DesiredState
		store  workspace.StoreAnswer
		ends   bool
	}{
		"no volume, refused":      {workspace.PhaseArchived, workspace.DesiredRunning, refuses, true},
		"never created, refused":  {workspace.PhasePending, workspace.DesiredArchived, refuses, true},
		"no volume, away":         {workspace.PhaseArchived, workspace.DesiredRunning, away, false},
		"no volume, other bucket": {workspace.PhaseArchived, workspace.DesiredRunning, mismatch, false},
		"intact volume, refused":  {workspace.PhaseStandby, workspace.DesiredArchived, refuses, false},
	} {
		w, o := at(c.phase)
		w.DesiredState, o.Store = c.wanted, c.store
		if c.phase == workspace.PhaseArchived {
			o.Archive = workspace.Unknown
		}
		w = planner.Reconcile(now, w, o, false, policy()).Next
		n := planner.Reconcile(now.Add(10*time.Minute), w, o, false, policy()).Next
		if n.Phase == workspace.PhaseError {
			t.Errorf("%s: ERROR at the limit", name)
		}
		n = planner.Reconcile(now.Add(10*time.Minute+time.Second), n, o, false, policy()).Next
		if ended := n.Phase == workspace.PhaseError; ended != c.ends ||
			ended && (n.ErrorReason != workspace.ReasonTimeout || !strings.Contains(n.ErrorMessage, c.store.Message) || n.Waiting != nil) {
			t.Errorf("%s: past the limit %s %s %q, waits for %q", name, n.Phase, n.ErrorReason, n.ErrorMessage, waits(n))
		}
	}
	// The volume is gone, and only the refusing store knows whether its upload is complete.
	w, o := during(workspace.OpArchiving, workspace.DesiredArchived)
	w.ArchiveOpID, o.Volume, o.Store = "op", nil, refuses
	w = planner.Reconcile(now, w, o, false, policy()).Next
	if w.Operation != workspace.OpArchiving || waits(w) != workspace.WaitStoreRefuses {
		t.Errorf("without its volume: %s, waits for %q", w.Operation, waits(w))
	}
	if n := planner.Reconcile(now.Add(time.Hour), w, o, false, policy()).Next; n.ErrorReason != workspace.ReasonDataLost {
		t.Errorf("without its volume, in the end: %s, want a choice", n.ErrorReason)
	}
}

// TestArchivingGivesWay: after any failure with an intact volume, the workspace stays in STANDBY, can be opened, and
// is archived later (SPEC 3).
func TestArchivingGivesWay(t *testing.T) {
	job := func(state workspace.JobState, reason workspace.ErrorReason) []workspace.Job {
		return []workspace.Job{{Kind: workspace.JobArchive, OpID: "op", State: state, Reason: reason, Message: "what happened", Size: 1}}
	}
	for name, c := range map[string]struct {
		change func(*workspace.Workspace, *workspace.Observation)
		want   string
	}{
		"the job fails": {func(_ *workspace.Workspace, o *workspace.Observation) {
			o.Jobs = job(workspace.JobFailed, workspace.ReasonActionFailed)
		}, workspace.WaitArchiveFailed},
		"the job finds the store away": {func(_ *workspace.Workspace, o *workspace.Observation) {
			o.Jobs = job(workspace.JobFailed, workspace.ReasonUnreachable)
		}, workspace.WaitStoreAway},
		"the job finds a broken archive": {func(_ *workspace.Workspace, o *workspace.Observation) {
			o.Jobs = job(workspace.JobFailed, workspace.ReasonArchiveCorrupted)
		}, workspace.WaitArchiveFailed},
		"the upload is not there": {func(_ *workspace.Workspace, o *workspace.Observation) {
			o.Jobs, o.Upload = job(workspace.JobSucceeded, ""), workspace.Absent
		}, workspace.WaitArchiveFailed},
		"the upload has another size": {func(_ *workspace.Workspace, o *workspace.Observation) {
			o.Jobs, o.Upload, o.UploadSize = job(workspace.JobSucceeded, ""), workspace.Present, 2
		}, workspace.WaitArchiveFailed},
		"the store goes away": {func(_ *workspace.Workspace, o *workspace.Observation) {
			o.Jobs, o.Store = job(workspace.JobSucceeded, ""), away
		}, workspace.WaitStoreAway},
		"the time is over": {func(w *workspace.Workspace, o *workspace.Observation) {
			w.OpStartedAt, o.Jobs = now.Add(-time.Hour), job(workspace.JobRunning, "")
		}, workspace.WaitArchiveFailed},
		"the saved archive is gone": {func(w *workspace.Workspace, o *workspace.Observation) {
			w.ArchiveKey, w.HomeCtx.RestoreMarker = id.ArchiveKey("op"), id.ArchiveKey("op")
			o.Jobs, o.Archive = job(workspace.JobSucceeded, ""), workspace.Absent
		}, workspace.WaitArchiveFailed},
	} {
		w, o := during(workspace.OpArchiving, workspace.DesiredArchived)
		w.ArchiveOpID = "op"
		c.change(&w, &o)
		d := planner.Reconcile(now, w, o, false, policy())
		n := d.Next
		if n.Phase != workspace.PhaseStandby || n.Operation != workspace.OpNone || n.ErrorReason != "" || waits(n) != c.want ||
			d.Action != planner.ActDeleteJobs || d.Retry < time.Second || n.HomeCtx.Deferred != 1 {
			t.Errorf("%s: %s %s %s, waits for %q, %q, again in %s", name, n.Phase, n.Operation, n.ErrorReason, waits(n), d.Action, d.Retry)
		}
		o.Jobs, o.Store, n.DesiredState = nil, answers, workspace.DesiredRunning
		if n = planner.Reconcile(now, n, o, false, policy()).Next; n.Operation != workspace.OpStarting || n.Waiting != nil {
			t.Errorf("%s: opened by its owner: %s, waits for %q", name, n.Operation, waits(n))
		}
	}
	w, _ := during(workspace.OpArchiving, workspace.DesiredArchived)
	for i, err := range []error{errors.New("no space"), workspace.Fail(workspace.ReasonUnreachable, errors.New("no route")),
		&workspace.StoreError{State: workspace.StoreRefuses, Err: errors.New("403")}} {
		d := failed(now, w, fmt.Errorf("archive: %w", err), policy())
		if n := d.Next; n.Phase != workspace.PhaseStandby || n.Operation != workspace.OpNone || n.Waiting == nil || d.Action != planner.ActDeleteJobs {
			t.Errorf("failure %d: %s %s %s", i, n.Phase, n.Operation, n.ErrorReason)
		}
	}
	if n := failed(now, w, workspace.Fail(workspace.ReasonConflict, errors.New("another volume")), policy()).Next; n.ErrorReason != workspace.ReasonConflict {
		t.Errorf("a conflict gives way: %s", n.ErrorReason)
	}
}

// TestPausesGrow up to ten minutes, but only up to half a minute while the store is away.
func TestPausesGrow(t *testing.T) {
	for _, c := range []struct {
		store    workspace.StoreAnswer
		deferred int
		waited   time.Duration
		want     time.Duration
	}{
		{away, 0, 0, time.Second},
		{away, 3, 0, 8 * time.Second},
		{away, 0, time.Minute, 30 * time.Second},
		{away, 0, time.Hour, 30 * time.Second},
		{refuses, 0, time.Minute, 30 * time.Second},
		{refuses, 20, 0, 10 * time.Minute},
		{refuses, 0, time.Hour, 10 * time.Minute},
	} {
		w, o := at(workspace.PhaseStandby)
		w.DesiredState, o.Store, w.HomeCtx.Deferred = workspace.DesiredArchived, c.store, c.deferred
		w = planner.Reconcile(now, w, o, false, policy()).Next
		if d := planner.Reconcile(now.Add(c.waited), w, o, false, policy()); d.Retry != c.want {
			t.Errorf("after %d attempts and %s: again in %s, want %s", c.deferred, c.waited, d.Retry, c.want)
		}
	}
}

// TestDeletionWaitsForTheStore: the only copy of a deleted workspace's files stays for the delay; the deletion
// can be undone until then, at every step.
func TestDeletionWaitsForTheStore(t *testing.T) {
	w, o := at(workspace.PhaseStandby)
	w.HomeCtx.VolumeOpID, o.Volume, o.Store = "A", volume("A"), away
	w.DeletedAt, w.DesiredState = now, workspace.DesiredDeleted
	w = planner.Reconcile(now, w, o, false, policy()).Next
	if waits(w) != workspace.WaitStoreAway || !strings.Contains(w.Waiting.Message, "2026-03-01T14:00:00Z") || w.Phase != workspace.PhaseDeleting {
		t.Fatalf("%s, waits for %+v", w.Phase, w.Waiting)
	}
	if d := planner.Reconcile(now.Add(2*time.Hour-time.Second), w, o, false, policy()); d.Next.Operation != workspace.OpNone || d.Action != planner.ActNothing {
		t.Errorf("before the delay has passed: %s %q", d.Next.Operation, d.Action)
	}
	if d := planner.Reconcile(now.Add(2*time.Hour), w, o, false, policy()); d.Action != planner.ActDeleteVolume || d.VolumeOpID != "A" {
		t.Errorf("after the delay: %q of %q", d.Action, d.VolumeOpID)
	}
	forever := policy()
	forever.KeepDeleted = 0
	if d := planner.Reconcile(now.Add(1000*time.Hour), w, o, false, forever); d.Action != planner.ActNothing {
		t.Errorf("without a delay it is deleted at once: %q", d.Action)
	}
	w.DeletedAt, w.DesiredState = time.Time{}, workspace.DesiredArchived
	if n := planner.Reconcile(now, w, o, false, policy()).Next; n.Phase != workspace.PhaseStandby || strings.Contains(n.Waiting.Message, "undone") {
		t.Errorf("undone: %s, waits for %+v", n.Phase, n.Waiting)
	}
}

// TestUndeleteFromEveryStep leads back to the phase that matches the observation.
func TestUndeleteFromEveryStep(t *testing.T) {
	for phase, want := range map[workspace.Phase]workspace.Phase{
		workspace.PhaseRunning: workspace.PhaseRunning, workspace.PhaseStandby: workspace.PhaseStandby,
		workspace.PhaseArchived: workspace.PhaseArchived, workspace.PhaseError: workspace.PhaseError,
	} {
		w, o := at(phase)
		w.DeletedAt, w.DesiredState = now, workspace.DesiredDeleted
		for range 4 { // as far as it gets without any action
			w = planner.Reconcile(now, w, o, true, policy()).Next
		}
		if w.AwaitsGC != (phase == workspace.PhaseArchived) || w.Phase != workspace.PhaseDeleting {
			t.Errorf("%s, deleted: %s, awaits GC %v", phase, w.Phase, w.AwaitsGC)
		}
		w.DeletedAt, w.DesiredState = time.Time{}, workspace.DesiredArchived
		n := planner.Reconcile(now, w, o, true, policy()).Next
		if n.Phase != want || n.AwaitsGC || (n.ErrorReason != "") != (phase == workspace.PhaseError) {
			t.Errorf("%s, undone: %s %s, awaits GC %v", phase, n.Phase, n.ErrorReason, n.AwaitsGC)
		}
	}
}

// TestDeletedOperationsNeverEndInError: they are tried again.
func TestDeletedOperationsNeverEndInError(t *testing.T) {
	for _, op := range []workspace.Operation{workspace.OpStopping, workspace.OpArchiving, workspace.OpDeleting} {
		w, o := during(op, workspace.DesiredDeleted)
		w.DeletedAt, o.Container = now, running
		d := failed(now, w, errors.New("refused"), policy())
		if n := d.Next; n.Phase == workspace.PhaseError || n.ErrorReason != "" || n.Operation != workspace.OpNone || n.Waiting == nil || d.Retry == 0 {
			t.Errorf("%s fails: %s %s %s, waits for %q", op, n.Phase, n.Operation, n.ErrorReason, waits(n))
		}
	}
}

// TestALockedArchiveWaits: an archive that no key opens is intact. The workspace waits for the key, and nothing
// is given up.
func TestALockedArchiveWaits(t *testing.T) {
	w, o := during(workspace.OpRestoring, workspace.DesiredRunning)
	w.HomeCtx.RestoreOpID = "op"
	key := w.ArchiveKey
	o.Jobs = []workspace.Job{{Kind: workspace.JobRestore, OpID: "op", State: workspace.JobFailed, Reason: workspace.ReasonActionFailed,
		Message: "encrypted to keys; see encryption identities", Locked: true}}
	for i := range 5 { // more than the retries of an error
		d := planner.Reconcile(now, w, o, false, policy())
		n := d.Next
		if n.Operation != workspace.OpNone || n.ErrorReason != "" || n.ErrorCount != 0 || n.ArchiveKey != key ||
			waits(n) != workspace.WaitArchiveLocked || d.Action != planner.ActDeleteJobs || d.Retry < time.Second {
			t.Fatalf("attempt %d: %s %s, waits for %q, %q, again in %s", i, n.Operation, n.ErrorReason, waits(n), d.Action, d.Retry)
		}
		if !strings.Contains(n.Waiting.Message, "encryption identities") {
			t.Errorf("the message is %q", n.Waiting.Message)
		}
		w.HomeCtx.Deferred = n.HomeCtx.Deferred
	}
}

// TestAJobOfAnotherReleaseWaits: the output of a job of another release may mean something else. It must not make an
// archive look corrupted or lost.
func TestAJobOfAnotherReleaseWaits(t *testing.T) {
	for _, reason := range []workspace.ErrorReason{workspace.ReasonActionFailed, workspace.ReasonImagePullFailed} {
		w, o := during(workspace.OpRestoring, workspace.DesiredRunning)
		w.HomeCtx.RestoreOpID = "op"
		o.Jobs = []workspace.Job{{Kind: workspace.JobRestore, OpID: "op", State: workspace.JobFailed, Reason: reason,
			Message: "job image j:1 has contract 3", Unfit: reason == workspace.ReasonActionFailed}}
		for i := range 5 { // more than the retries of an error
			d := planner.Reconcile(now, w, o, false, policy())
			n := d.Next
			if n.Operation != workspace.OpNone || n.ErrorReason != "" || n.ErrorCount != 0 || n.ArchiveKey != w.ArchiveKey ||
				waits(n) != workspace.WaitJobImage || d.Action != planner.ActDeleteJobs || d.Retry < time.Second || d.Retry > 30*time.Second {
				t.Fatalf("%s, attempt %d: %s %s, waits for %q, %q, again in %s", reason, i, n.Operation, n.ErrorReason, waits(n), d.Action, d.Retry)
			}
			if !strings.Contains(n.Waiting.Message, "j:1 has contract 3") {
				t.Errorf("the message is %q", n.Waiting.Message)
			}
			w.HomeCtx.Deferred = n.HomeCtx.Deferred
		}
	}
}

// TestAFileThatChangesIsNamed: people read the storage job's own message.
func TestAFileThatChangesIsNamed(t *testing.T) {
	w, o := during(workspace.OpArchiving, workspace.DesiredArchived)
	w.ArchiveOpID = "op"
	o.Jobs = []workspace.Job{{Kind: workspace.JobArchive, OpID: "op", State: workspace.JobFailed, Reason: workspace.ReasonActionFailed,
		Message: `file "./db.sqlite": changed while it was read`, Changed: "./db.sqlite"}}
	n := planner.Reconcile(now, w, o, false, policy()).Next
	if waits(n) != workspace.WaitArchiveFailed || n.ArchiveKey == w.ID.ArchiveKey("op") || !strings.Contains(n.Waiting.Message, `"./db.sqlite": changed while it was read`) || n.Waiting.Subject != "./db.sqlite" {
		t.Errorf("waits for %q: %+v", waits(n), n.Waiting)
	}
}
