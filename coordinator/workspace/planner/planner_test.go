package planner_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/coordinator/workspace/planner"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const id workspace.ID = "5f0c1a52-0000-4000-8000-0000000000aa"

func policy() planner.Policy {
	return planner.Policy{
		Timeouts: planner.DefaultTimeouts(), MaxRetry: 3,
		WaitLimit: 10 * time.Minute, KeepDeleted: 2 * time.Hour,
		NewOpID: func() string { return "new-op" },
	}
}

func conditions(volume, archive, container bool) workspace.Conditions {
	c := workspace.Conditions{}
	for t, v := range map[workspace.ConditionType]bool{
		workspace.VolumeReady: volume, workspace.ArchiveReady: archive, workspace.ContainerReady: container,
	} {
		s := "False"
		if v {
			s = "True"
		}
		c[t] = workspace.Condition{Status: s, LastTransitionTime: now.Add(-time.Hour)}
	}
	return c
}

// homeVolume is a volume created before volumes were labelled; answers is the answer of a working store.
var (
	homeVolume = &workspace.Volume{}
	answers    = workspace.StoreAnswer{State: workspace.StoreAnswers}
)

var running = &workspace.Container{Running: true, Ready: true, Volume: true, Endpoint: "172.18.0.2:8080", StartedAt: now.Add(-time.Hour)}

// at returns a workspace that has converged in a phase, and its observation.
func at(p workspace.Phase) (workspace.Workspace, workspace.Observation) {
	w := workspace.Workspace{ID: id, Phase: p, Operation: workspace.OpNone, DesiredState: workspace.DesiredState(p), PhaseChangedAt: now.Add(-time.Hour),
		CreatedAt: now.Add(-time.Minute)}
	o := workspace.Observation{Store: answers}
	switch p {
	case workspace.PhaseRunning:
		o.Volume, o.Container = homeVolume, running
		w.Conditions, w.Endpoint, w.HomeCtx.Dirty = conditions(true, false, true), running.Endpoint, true
	case workspace.PhaseStandby:
		o.Volume = homeVolume
		w.Conditions, w.HomeCtx.Dirty = conditions(true, false, false), true
	case workspace.PhaseError:
		o.Volume, o.Container = homeVolume, running
		w.Conditions, w.HomeCtx.Dirty, w.ErrorReason, w.DesiredState = conditions(true, false, true), true, workspace.ReasonTimeout, workspace.DesiredRunning
	case workspace.PhaseArchived:
		o.Archive = workspace.Present
		w.Conditions, w.ArchiveKey = conditions(false, true, false), "key"
		w.HomeCtx.RestoreMarker = "key"
	default:
		w.Conditions = conditions(false, false, false)
	}
	return w, o
}

// TestNextOperation is the table of SPEC 3, every phase against every desired state.
func TestNextOperation(t *testing.T) {
	type step struct {
		op     workspace.Operation
		action planner.Action
	}
	none := step{workspace.OpNone, planner.ActNothing}
	provision := step{workspace.OpProvisioning, planner.ActProvision}
	restore := step{workspace.OpRestoring, planner.ActProvision}
	stop := step{workspace.OpStopping, planner.ActDeleteContainer}
	archive := step{workspace.OpArchiving, planner.ActStartArchive}
	for _, c := range []struct {
		phase                                workspace.Phase
		archived, standby, running, deletion step
	}{
		{workspace.PhasePending, step{workspace.OpCreateEmptyArchive, planner.ActCreateEmptyArchive}, provision, provision, none},
		{workspace.PhaseArchived, none, restore, restore, none},
		{workspace.PhaseStandby, archive, none, step{workspace.OpStarting, planner.ActStart}, archive},
		{workspace.PhaseRunning, stop, stop, none, stop},
		{workspace.PhaseError, none, none, none, stop},
	} {
		for desired, want := range map[workspace.DesiredState]step{
			workspace.DesiredArchived: c.archived, workspace.DesiredStandby: c.standby,
			workspace.DesiredRunning: c.running, workspace.DesiredDeleted: c.deletion,
		} {
			t.Run(string(c.phase)+"→"+string(desired), func(t *testing.T) {
				w, o := at(c.phase)
				w.DesiredState = desired
				if desired == workspace.DesiredDeleted {
					w.DeletedAt = now
				}
				d := planner.Reconcile(now, w, o, false, policy())
				if d.Next.Operation != want.op || d.Action != want.action {
					t.Errorf("%s %s, want %s %s", d.Next.Operation, d.Action, want.op, want.action)
				}
				if want.op != workspace.OpNone && !d.Next.OpStartedAt.Equal(now) {
					t.Errorf("started at %s, want %s", d.Next.OpStartedAt, now)
				}
				waits := planner.Reconcile(now, w, o, true, policy())
				if waits.Next.Operation != workspace.OpNone || waits.Action != planner.ActNothing {
					t.Errorf("while a retry is not due: %s %s", waits.Next.Operation, waits.Action)
				}
			})
		}
	}
}

// TestDeletionStepsDown: what is left of a deleted workspace decides the order of removal. Anything from which its
// archive can still be made is archived (SPEC 3).
func TestDeletionStepsDown(t *testing.T) {
	exited := &workspace.Container{ExitCode: 1, Volume: true}
	for name, c := range map[string]struct {
		phase     workspace.Phase
		container *workspace.Container
		volume    bool
		want      workspace.Operation
	}{
		"pending, with a container":    {workspace.PhasePending, exited, false, workspace.OpDeleting},
		"archived, with a container":   {workspace.PhaseArchived, exited, false, workspace.OpDeleting},
		"archived, with an old volume": {workspace.PhaseArchived, nil, true, workspace.OpDeleting},
		"standby, with a container":    {workspace.PhaseStandby, exited, true, workspace.OpStopping},
		"standby":                      {workspace.PhaseStandby, nil, true, workspace.OpArchiving},
		"error, with both":             {workspace.PhaseError, running, true, workspace.OpStopping},
		"error, with a volume":         {workspace.PhaseError, nil, true, workspace.OpNone},
		"error, with nothing":          {workspace.PhaseError, nil, false, workspace.OpNone},
	} {
		t.Run(name, func(t *testing.T) {
			w, o := at(c.phase)
			w.DeletedAt, w.DesiredState = now, workspace.DesiredDeleted
			if c.phase == workspace.PhaseArchived {
				w.HomeCtx.RestoreMarker = ""
			}
			o.Container, o.Volume = c.container, nil
			if c.volume {
				o.Volume = homeVolume
			}
			if d := planner.Reconcile(now, w, o, false, policy()); d.Next.Operation != c.want {
				t.Errorf("%s, want %s", d.Next.Operation, c.want)
			}
		})
	}
	// deleted_at and desired_state contradict each other: the schema rules it out.
	w, o := at(workspace.PhaseStandby)
	w.DesiredState = workspace.DesiredDeleted
	if d := planner.Reconcile(now, w, o, false, policy()); d.Next.Operation != workspace.OpNone || d.Action != planner.ActNothing {
		t.Errorf("without deleted_at: %s %s, want nothing", d.Next.Operation, d.Action)
	}
}

// TestErrorReasons is the table of error reasons of SPEC 3.
func TestErrorReasons(t *testing.T) {
	for reason, terminal := range map[workspace.ErrorReason]bool{
		"":                                     false,
		workspace.ReasonTimeout:                true,
		workspace.ReasonRetryExceeded:          true,
		workspace.ReasonActionFailed:           false,
		workspace.ReasonDataLost:               true,
		workspace.ReasonUnreachable:            false,
		workspace.ReasonImagePullFailed:        true,
		workspace.ReasonContainerWithoutVolume: true,
		workspace.ReasonArchiveCorrupted:       true,
	} {
		if reason.Terminal() != terminal {
			t.Errorf("%q: terminal %v, want %v", reason, reason.Terminal(), terminal)
		}
	}
}

func TestConvergedIsNotWritten(t *testing.T) {
	for _, p := range []workspace.Phase{workspace.PhaseArchived, workspace.PhaseStandby, workspace.PhaseRunning} {
		w, o := at(p)
		first := planner.Reconcile(now, w, o, false, policy()) // reasons and messages
		d := planner.Reconcile(now.Add(time.Hour), first.Next, o, false, policy())
		if d.Changed || d.Action != planner.ActNothing {
			t.Errorf("%s: changed %v, action %q", p, d.Changed, d.Action)
		}
	}
}

// TestDataLost is SPEC 12.2: lost data is neither provisioned empty nor restored from an older archive.
func TestDataLost(t *testing.T) {
	vanished := func(p workspace.Phase, change func(*workspace.Workspace, *workspace.Observation)) planner.Decision {
		w, o := at(p)
		w.DesiredState = workspace.DesiredRunning
		o.Volume, o.Container = nil, nil
		change(&w, &o)
		return planner.Reconcile(now, w, o, false, policy())
	}
	older := func(w *workspace.Workspace, o *workspace.Observation) {
		w.ArchiveKey, w.HomeCtx.RestoreMarker, o.Archive = "older", "older", workspace.Present
		w.Conditions = conditions(true, true, w.Phase == workspace.PhaseRunning)
	}
	for name, d := range map[string]planner.Decision{
		"a standby volume":        vanished(workspace.PhaseStandby, func(*workspace.Workspace, *workspace.Observation) {}),
		"a running volume":        vanished(workspace.PhaseRunning, func(*workspace.Workspace, *workspace.Observation) {}),
		"with an older archive":   vanished(workspace.PhaseStandby, older),
		"the archive in ARCHIVED": vanished(workspace.PhaseArchived, func(_ *workspace.Workspace, o *workspace.Observation) { o.Archive = workspace.Absent }),
		"archiving, not uploaded": vanished(workspace.PhaseStandby, func(w *workspace.Workspace, o *workspace.Observation) {
			w.Operation, w.OpStartedAt, w.ArchiveOpID, o.Upload = workspace.OpArchiving, now, "op", workspace.Absent
		}),
	} {
		if d.Next.Phase != workspace.PhaseError || d.Next.ErrorReason != workspace.ReasonDataLost || d.Next.Operation != workspace.OpNone {
			t.Errorf("%s: %s %s %s, want ERROR DataLost", name, d.Next.Phase, d.Next.ErrorReason, d.Next.Operation)
		}
	}
	clean := vanished(workspace.PhaseStandby, func(w *workspace.Workspace, o *workspace.Observation) {
		older(w, o)
		w.HomeCtx.Dirty = false // restored and never started since: the archive is current
	})
	if clean.Next.Operation != workspace.OpRestoring {
		t.Errorf("with a current archive: %s %s, want RESTORING", clean.Next.Phase, clean.Next.Operation)
	}
}

func TestContainerWithoutVolume(t *testing.T) {
	w, o := at(workspace.PhasePending)
	o.Container = running
	d := planner.Reconcile(now, w, o, false, policy())
	if d.Next.Phase != workspace.PhaseError || d.Next.ErrorReason != workspace.ReasonContainerWithoutVolume ||
		d.Next.Conditions.True(workspace.PolicyHealthy) {
		t.Errorf("%s %s", d.Next.Phase, d.Next.ErrorReason)
	}
}

func TestContainerOnAnotherVolume(t *testing.T) {
	w, o := at(workspace.PhaseRunning)
	elsewhere := *running
	elsewhere.Volume = false
	o.Container = &elsewhere
	if d := planner.Reconcile(now, w, o, false, policy()); d.Next.ErrorReason != workspace.ReasonContainerWithoutVolume {
		t.Errorf("%s %s", d.Next.Phase, d.Next.ErrorReason)
	}
}

func TestRetriesEndInError(t *testing.T) {
	w, o := at(workspace.PhaseStandby)
	w.DesiredState = workspace.DesiredRunning
	w = planner.Reconcile(now, w, o, false, policy()).Next
	for i := 1; i <= 3; i++ {
		d := failed(now, w, errors.New("connection refused"), policy())
		w = d.Next
		if ended := w.Phase == workspace.PhaseError; ended != (i == 3) || w.ErrorCount != i {
			t.Fatalf("failure %d: phase %s count %d", i, w.Phase, w.ErrorCount)
		}
	}
	if w.ErrorReason != workspace.ReasonRetryExceeded || !strings.Contains(w.ErrorMessage, "connection refused") || w.Operation != workspace.OpNone {
		t.Errorf("%s %q %s", w.ErrorReason, w.ErrorMessage, w.Operation)
	}
	if d := planner.Reconcile(now.Add(time.Hour), w, o, false, policy()); d.Action != planner.ActNothing || d.Next.Operation != workspace.OpNone {
		t.Errorf("left alone in ERROR: %s %s", d.Action, d.Next.Operation)
	}
	w.ErrorReason, w.ErrorCount = "", 0
	if d := planner.Reconcile(now.Add(time.Hour), w, o, false, policy()); d.Next.Operation != workspace.OpStarting {
		t.Errorf("after recovery: %s %s", d.Next.Phase, d.Next.Operation)
	}
}

func TestTimeout(t *testing.T) {
	timeouts := planner.DefaultTimeouts()
	for op := range actuators {
		limit := timeouts[op]
		if op == workspace.OpNone || op == workspace.OpArchiving || op == workspace.OpCreateEmptyArchive {
			delete(timeouts, op) // they give way, or end at once: see TestArchivingGivesWay
			continue
		}
		if limit <= 0 {
			t.Fatalf("%s has no default timeout", op)
		}
		delete(timeouts, op)
		w, o := at(workspace.PhaseStandby)
		w.Operation, w.OpStartedAt, w.ArchiveOpID = op, now, "op"
		w.DesiredState = workspace.DesiredRunning
		if op == workspace.OpProvisioning || op == workspace.OpRestoring {
			w.ArchiveKey, w.Conditions = "key", conditions(false, true, false)
		}
		if op == workspace.OpStopping || op == workspace.OpDeleting {
			o.Container = &workspace.Container{Running: true}
		}
		if d := planner.Reconcile(now.Add(limit), w, o, true, policy()); d.Next.Operation != op {
			t.Errorf("%s at its limit: %s %s", op, d.Next.Operation, d.Next.ErrorReason)
		}
		d := planner.Reconcile(now.Add(limit+time.Second), w, o, true, policy())
		if d.Next.Phase != workspace.PhaseError || d.Next.ErrorReason != workspace.ReasonTimeout || d.Next.Operation != workspace.OpNone {
			t.Errorf("%s past its limit: %s %s %s", op, d.Next.Phase, d.Next.ErrorReason, d.Next.Operation)
		}
	}
	if len(timeouts) > 0 {
		t.Errorf("timeouts of operations that do not exist: %v", timeouts)
	}
}

func TestCrashLoop(t *testing.T) {
	w, o := at(workspace.PhaseRunning)
	exited := &workspace.Container{ExitCode: 137, StartedAt: now, FinishedAt: now.Add(time.Second)}
	for i := 1; i <= 3; i++ {
		o.Container = exited
		w = planner.Reconcile(now, w, o, false, policy()).Next
		if i < 3 {
			if w.Operation != workspace.OpStarting {
				t.Fatalf("crash %d: %s %s, want a new start", i, w.Phase, w.Operation)
			}
			o.Container = running
			w = planner.Reconcile(now, w, o, false, policy()).Next
		}
	}
	if w.Phase != workspace.PhaseError || w.ErrorReason != workspace.ReasonRetryExceeded || !strings.Contains(w.ErrorMessage, "137") {
		t.Errorf("%s %s %q", w.Phase, w.ErrorReason, w.ErrorMessage)
	}
	w, o = at(workspace.PhaseRunning)
	w.HomeCtx.Crashes = 2
	o.Container = &workspace.Container{ExitCode: 1, StartedAt: now, FinishedAt: now.Add(time.Hour)}
	if w = planner.Reconcile(now, w, o, false, policy()).Next; w.Operation != workspace.OpStarting || w.HomeCtx.Crashes != 1 {
		t.Errorf("after a stable hour: %s, %d crashes", w.Operation, w.HomeCtx.Crashes)
	}
}

func TestArchiveSizeMustMatch(t *testing.T) {
	w, o := at(workspace.PhaseStandby)
	w.Operation, w.OpStartedAt, w.ArchiveOpID, w.DesiredState = workspace.OpArchiving, now, "op", workspace.DesiredArchived
	o.Jobs = []workspace.Job{{Kind: workspace.JobArchive, OpID: "op", State: workspace.JobSucceeded, Size: 10}}
	o.Upload, o.UploadSize = workspace.Present, 9
	if d := planner.Reconcile(now, w, o, false, policy()); d.Next.Phase != workspace.PhaseStandby || d.Next.ErrorReason != "" || d.Next.ArchiveKey != "" || d.Next.Waiting == nil {
		t.Errorf("a shorter archive: %s %s key %q, waiting %+v", d.Next.Phase, d.Next.ErrorReason, d.Next.ArchiveKey, d.Next.Waiting)
	}
	o.UploadSize = 10
	d := planner.Reconcile(now, w, o, false, policy())
	if d.Next.ArchiveKey != id.ArchiveKey("op") || d.Next.HomeCtx.RestoreMarker != d.Next.ArchiveKey || d.Action != planner.ActNothing {
		t.Errorf("key %q marker %q action %q", d.Next.ArchiveKey, d.Next.HomeCtx.RestoreMarker, d.Action)
	}
}
