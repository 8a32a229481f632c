package planner_test

import (
	"strings"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/coordinator/workspace/planner"
)

// TestStartIsRetried: a container that exits during its start is started again, up to MaxRetry times, and each
// failure is counted once.
func TestStartIsRetried(t *testing.T) {
	w, o := at(workspace.PhaseStandby)
	w.DesiredState = workspace.DesiredRunning
	starts, at := 0, now
	retryAt := now
	for range 30 {
		at = at.Add(time.Second)
		d := planner.Reconcile(at, w, o, at.Before(retryAt), policy())
		if d.Next.ErrorCount > w.ErrorCount {
			retryAt = at.Add(2 * time.Second)
		}
		w = d.Next
		switch d.Action {
		case planner.ActStart:
			starts++
			o.Container = &workspace.Container{ExitCode: 1, StartedAt: at, FinishedAt: at.Add(time.Millisecond)}
		case planner.ActDeleteContainer:
			o.Container = nil
		}
	}
	if starts != 3 || w.ErrorReason != workspace.ReasonRetryExceeded || o.Container == nil {
		t.Errorf("%d starts, then %s; container kept: %v; want 3, RetryExceeded, and the last one kept", starts, w.ErrorReason, o.Container != nil)
	}
}

// TestAnEngineWithAnotherClock: whatever time the engine's clock shows, a container that exits during its start counts
// as a failed start, and a container that had exited before does not.
func TestAnEngineWithAnotherClock(t *testing.T) {
	for _, ahead := range []time.Duration{-3 * time.Hour, -2 * time.Second, 0, 2 * time.Second, 3 * time.Hour} {
		w, o := at(workspace.PhaseStandby)
		w.DesiredState = workspace.DesiredRunning
		o.Container = &workspace.Container{ExitCode: 1, Volume: true, FinishedAt: now.Add(ahead - time.Millisecond)}
		starts := 0
		for i := 1; i <= 30; i++ {
			at := now.Add(time.Duration(i) * time.Second)
			d := planner.Reconcile(at, w, o, false, policy())
			w = d.Next
			switch d.Action {
			case planner.ActStart:
				if starts++; w.ErrorCount != starts-1 {
					t.Errorf("%s ahead: start %d after %d failures", ahead, starts, w.ErrorCount)
				}
				o.Container = &workspace.Container{ExitCode: 1, Volume: true, StartedAt: at.Add(ahead), FinishedAt: at.Add(ahead + time.Millisecond)}
			case planner.ActDeleteContainer:
				o.Container = nil
			}
		}
		if starts != 3 || w.ErrorReason != workspace.ReasonRetryExceeded {
			t.Errorf("%s ahead: %d starts, then %q; want 3 and RetryExceeded", ahead, starts, w.ErrorReason)
		}
	}
}

// TestTimeoutNamesTheLastFailure: the timeout must not hide why the operation took so long, and a failure that is found
// together with the timeout is counted once.
func TestTimeoutNamesTheLastFailure(t *testing.T) {
	w, o := at(workspace.PhaseStandby)
	w.Operation, w.OpStartedAt, w.DesiredState = workspace.OpStarting, now, workspace.DesiredRunning
	o.Container = &workspace.Container{ExitCode: 1, StartedAt: now, FinishedAt: now.Add(time.Second)}
	n := planner.Reconcile(now.Add(time.Hour), w, o, false, policy()).Next
	if n.ErrorReason != workspace.ReasonTimeout || n.ErrorCount != 1 || !strings.Contains(n.ErrorMessage, "exit code 1") {
		t.Errorf("%s %d %q, want one Timeout that names the container's failure", n.ErrorReason, n.ErrorCount, n.ErrorMessage)
	}
}

// TestDeletedInErrorKeepsItsVolumeForTheDelay: the volume may be the only copy of the files. The container and the jobs
// are removed immediately. The volume is removed after the delay, or when an administrator gives it up. If the deletion
// is undone in between, the workspace is in ERROR again.
func TestDeletedInErrorKeepsItsVolumeForTheDelay(t *testing.T) {
	for _, reason := range []workspace.ErrorReason{workspace.ReasonRetryExceeded, workspace.ReasonConflict, workspace.ReasonTimeout} {
		w, o := at(workspace.PhaseStandby)
		o.Volume = &workspace.Volume{OpID: "other"}
		w.HomeCtx.VolumeOpID = "other"
		if reason == workspace.ReasonConflict {
			w.HomeCtx.VolumeOpID, w.HomeCtx.ForeignVolumeOpID = "", "other"
		}
		w.Phase, w.ErrorReason, w.ErrorMessage, w.ErrorCount = workspace.PhaseError, reason, "what happened", 3
		w.DeletedAt, w.DesiredState = now, workspace.DesiredDeleted
		reconcile := func(at time.Time) planner.Decision {
			d := planner.Reconcile(at, w, o, false, policy())
			w = d.Next
			return d
		}
		o.Jobs = []workspace.Job{{Kind: workspace.JobArchive, OpID: "old", State: workspace.JobFailed}}
		if d := reconcile(now); d.Action != planner.ActDeleteJobs {
			t.Errorf("%s: first %q, want the job removed", reason, d.Action)
		}
		o.Jobs, o.Container = nil, &workspace.Container{ExitCode: 1, Volume: true}
		if d := reconcile(now); d.Action != planner.ActDeleteContainer || w.Operation != workspace.OpStopping {
			t.Errorf("%s: then %s %q, want the container removed", reason, w.Operation, d.Action)
		}
		o.Container = nil
		reconcile(now)
		if d := reconcile(now.Add(time.Hour)); d.Action != planner.ActNothing || w.Operation != workspace.OpNone ||
			w.Waiting == nil || w.Waiting.Reason != workspace.WaitKeptUntilDeleted || !strings.Contains(w.Waiting.Message, "2026-03-01T14:00:00Z") {
			t.Errorf("%s: within the delay %s %q, waiting %+v", reason, w.Operation, d.Action, w.Waiting)
		}
		undone := w
		undone.DeletedAt, undone.DesiredState = time.Time{}, workspace.DesiredArchived
		if n := planner.Reconcile(now, undone, o, false, policy()).Next; n.Phase != workspace.PhaseError || n.ErrorReason != reason || n.ErrorMessage != "what happened" {
			t.Errorf("%s: undone it is %s %s %q", reason, n.Phase, n.ErrorReason, n.ErrorMessage)
		}
		given := w
		given.DeleteNow = true
		if d := planner.Reconcile(now, given, o, false, policy()); d.Action != planner.ActDeleteVolume || d.VolumeOpID != "other" {
			t.Errorf("%s: given up: %q of %q", reason, d.Action, d.VolumeOpID)
		}
		if d := reconcile(now.Add(2 * time.Hour)); d.Action != planner.ActDeleteVolume || w.Operation != workspace.OpDeleting || d.VolumeOpID != "other" {
			t.Errorf("%s: after the delay %s %q of %q, want DELETING", reason, w.Operation, d.Action, d.VolumeOpID)
		}
	}
}

// TestNoTimeIsPromisedForAVolumeInDoubt: the workspace was deleted while people worked on a volume that the database
// does not know. Its files were not given up, so it stays permanently, and the message says so.
func TestNoTimeIsPromisedForAVolumeInDoubt(t *testing.T) {
	w, o := at(workspace.PhaseRunning)
	w.HomeCtx.VolumeOpID, o.Volume = "mine", &workspace.Volume{OpID: "other"}
	reconcile := func(at time.Time) planner.Decision {
		d := planner.Reconcile(at, w, o, false, policy())
		w = d.Next
		return d
	}
	if reconcile(now); w.Waiting == nil || w.Waiting.Reason != workspace.WaitConflict {
		t.Fatalf("in use it waits for %+v", w.Waiting)
	}
	w.DeletedAt, w.DesiredState = now, workspace.DesiredDeleted
	if d := reconcile(now); d.Action != planner.ActDeleteContainer {
		t.Fatalf("deleted: %s %q", w.Operation, d.Action)
	}
	o.Container = nil
	reconcile(now)
	for _, after := range []time.Duration{time.Hour, policy().KeepDeleted, 1000 * time.Hour} {
		d := reconcile(now.Add(after))
		if d.Action != planner.ActNothing || w.Waiting == nil || w.Waiting.Reason != workspace.WaitKeptUntilGivenUp ||
			strings.Contains(w.Waiting.Message, "until 2026-") || !strings.Contains(w.Waiting.Message, "an administrator gives it up") {
			t.Errorf("%s after the deletion: %s %q, waiting %+v", after, w.Operation, d.Action, w.Waiting)
		}
	}
	w.DeleteNow = true
	if d := reconcile(now); d.Action != planner.ActDeleteVolume {
		t.Errorf("given up: %s %q", w.Operation, d.Action)
	}
}

// TestOrphanJobsAreRemovedWithBackoff: if a job cannot be removed, its removal must not be tried at every tick.
func TestOrphanJobsAreRemovedWithBackoff(t *testing.T) {
	for _, inError := range []bool{false, true} {
		w, o := at(workspace.PhaseStandby)
		if inError {
			w.Phase, w.ErrorReason = workspace.PhaseError, workspace.ReasonTimeout
		}
		o.Jobs = []workspace.Job{{Kind: workspace.JobRestore, OpID: "old", State: workspace.JobRunning}}
		for backingOff, want := range map[bool]planner.Action{true: planner.ActNothing, false: planner.ActDeleteJobs} {
			d := planner.Reconcile(now, w, o, backingOff, policy())
			if d.Action != want || d.Next.Operation != workspace.OpNone {
				t.Errorf("in ERROR %v, backing off %v: %s %q, want %q", inError, backingOff, d.Next.Operation, d.Action, want)
			}
		}
	}
}

// TestLostWhileInError: the loss of a volume is recorded even while its workspace is in ERROR, so that the recovery
// does not begin with an empty volume (SPEC 12.2).
func TestLostWhileInError(t *testing.T) {
	w, o := at(workspace.PhaseStandby)
	w.DesiredState = workspace.DesiredRunning
	w.Phase, w.ErrorReason, w.ErrorCount = workspace.PhaseError, workspace.ReasonRetryExceeded, 3
	o.Volume = nil
	w = planner.Reconcile(now, w, o, false, policy()).Next
	if w.Phase != workspace.PhaseError || w.ErrorReason != workspace.ReasonDataLost {
		t.Errorf("%s %s, want ERROR DataLost", w.Phase, w.ErrorReason)
	}
	if d := planner.Reconcile(now, w, o, false, policy()); d.Changed && d.Next.ErrorCount != w.ErrorCount {
		t.Error("the loss is counted again at every tick")
	}
}

// TestDeletedOnlyWhenNothingIsLeft: resources that make no condition true still exist.
func TestDeletedOnlyWhenNothingIsLeft(t *testing.T) {
	for name, o := range map[string]workspace.Observation{
		"a volume that was not restored": {Volume: homeVolume, Archive: workspace.Absent},
		"a container that has exited":    {Container: &workspace.Container{ExitCode: 1}, Archive: workspace.Absent},
		"a job":                          {Jobs: []workspace.Job{{Kind: workspace.JobArchive}}, Archive: workspace.Absent},
		"an archive, unknown":            {Archive: workspace.Unknown},
		"containers, unknown":            {Unseen: workspace.SensorContainers, Archive: workspace.Absent},
	} {
		w, _ := at(workspace.PhaseArchived)
		w.HomeCtx.RestoreMarker, w.Conditions = "", conditions(false, false, false)
		w.DeletedAt, w.DesiredState = now, workspace.DesiredDeleted
		if d := planner.Reconcile(now, w, o, false, policy()); d.Next.Phase != workspace.PhaseDeleting || d.Next.AwaitsGC {
			t.Errorf("%s: %s, awaits GC %v, want DELETING", name, d.Next.Phase, d.Next.AwaitsGC)
		}
	}
}

// TestUnexpectedVolume: a former leader created an empty volume late. When this volume appears under an archived
// workspace, it is not mistaken for the workspace's home.
func TestUnexpectedVolume(t *testing.T) {
	archiving, o := at(workspace.PhaseStandby)
	archiving.DesiredState, archiving.Operation, archiving.OpStartedAt = workspace.DesiredArchived, workspace.OpArchiving, now
	archiving.ArchiveOpID, archiving.ArchiveKey = "op", id.ArchiveKey("op")
	archiving.HomeCtx = workspace.HomeContext{VolumeRecord: workspace.VolumeRecord{RestoreMarker: archiving.ArchiveKey}}
	archiving.Conditions = conditions(true, true, false)
	o.Volume, o.Archive = nil, workspace.Present

	creating, _ := at(workspace.PhasePending)
	creating.DesiredState, creating.Operation, creating.OpStartedAt = workspace.DesiredArchived, workspace.OpCreateEmptyArchive, now
	creating.ArchiveOpID = "op"

	for name, c := range map[string]struct {
		w workspace.Workspace
		o workspace.Observation
	}{
		"archived":            {archiving, o},
		"created as archived": {creating, workspace.Observation{Upload: workspace.Present, Witnessed: true}},
	} {
		w := planner.Reconcile(now, c.w, c.o, false, policy()).Next
		if w.Phase != workspace.PhaseArchived || w.Operation != workspace.OpNone {
			t.Fatalf("%s: %s %s, want ARCHIVED", name, w.Phase, w.Operation)
		}
		w.DesiredState = workspace.DesiredRunning
		orphan := workspace.Observation{Store: answers, Volume: homeVolume, Archive: workspace.Present}
		if d := planner.Reconcile(now, w, orphan, false, policy()); d.Next.Operation != workspace.OpRestoring {
			t.Errorf("%s: %s %s, want RESTORING", name, d.Next.Phase, d.Next.Operation)
		}
	}
}
