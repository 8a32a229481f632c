package workspace_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/codehub/gateway/coordinator/workspace"
)

// TestNothingIsLost drives one workspace through random changes of the desired
// state, crashes of the controller between any save and its action, failing
// actuators and jobs, crash loops and clock steps, and checks the contracts of
// SPEC 1 and 12 after every step. At the end, without further faults, the
// workspace must reach the desired state.
func TestNothingIsLost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := newHarness()
		steps := rapid.IntRange(10, 120).Draw(t, "steps")
		for range steps {
			disturb(t, h)
			h.now = h.now.Add(rapid.SampledFrom([]time.Duration{0, time.Second, 30 * time.Second, 10 * time.Minute}).Draw(t, "clock"))
			d := reconcile(t, h)
			switch rapid.SampledFrom([]string{"act", "act", "act", "act", "crash", "fail"}).Draw(t, "outcome") {
			case "act":
				h.act(t, d.Action)
			case "fail":
				if d.Action != workspace.ActNothing {
					h.fail(d.Action, rapid.SampledFrom([]workspace.ErrorReason{
						workspace.ReasonActionFailed, workspace.ReasonUnreachable, workspace.ReasonImagePullFailed,
					}).Draw(t, "reason"))
				}
			}
			checkInvariants(t, h)
		}
		settle(t, h)
	})
}

// disturb lets something happen outside the controller.
func disturb(t *rapid.T, h *harness) {
	switch rapid.SampledFrom([]string{"nothing", "desired", "write", "write", "job", "job", "jobfails", "crash", "recover", "delete"}).Draw(t, "event") {
	case "desired":
		if h.row.Operation == workspace.OpNone && !h.deleted { // otherwise the service answers 409
			h.row.DesiredState = rapid.SampledFrom([]workspace.DesiredState{
				workspace.DesiredRunning, workspace.DesiredStandby, workspace.DesiredArchived,
			}).Draw(t, "desired")
		}
	case "write":
		h.write()
	case "job":
		h.endJob(true)
	case "jobfails":
		h.endJob(false)
	case "crash":
		h.crash()
	case "recover":
		h.recover()
	case "delete":
		if h.row.Operation == workspace.OpNone && !h.deleted && rapid.IntRange(0, 9).Draw(t, "sure") == 0 {
			h.deleted = true
			h.row.DeletedAt, h.row.DesiredState = h.now, workspace.DesiredDeleted
		}
	}
}

// recover resets the error, as an administrator's recovery does.
func (h *harness) recover() {
	if h.row.Phase == workspace.PhaseError {
		h.row.ErrorReason, h.row.ErrorMessage, h.row.ErrorCount = "", "", 0
	}
}

// reconcile reconciles once and checks everything that a decision must hold.
func reconcile(t *rapid.T, h *harness) workspace.Decision {
	t.Helper()
	d, was := h.reconcile()
	checkStep(t, h, was, d)
	checkInvariants(t, h)
	return d
}

// toward lists the operations of SPEC 3 that lead to each desired state.
var toward = map[workspace.DesiredState][]workspace.Operation{
	workspace.DesiredRunning:  {workspace.OpProvisioning, workspace.OpRestoring, workspace.OpStarting},
	workspace.DesiredStandby:  {workspace.OpProvisioning, workspace.OpRestoring, workspace.OpStopping},
	workspace.DesiredArchived: {workspace.OpCreateEmptyArchive, workspace.OpStopping, workspace.OpArchiving},
	workspace.DesiredDeleted:  {workspace.OpStopping, workspace.OpArchiving, workspace.OpDeleting},
}

// actuators lists the actions that each operation may call. Jobs may be removed at
// any time; the harness checks that no running one is needed.
var actuators = map[workspace.Operation][]workspace.Action{
	workspace.OpNone:               {},
	workspace.OpCreateEmptyArchive: {workspace.ActCreateEmptyArchive},
	workspace.OpProvisioning:       {workspace.ActProvision},
	workspace.OpRestoring:          {workspace.ActDeleteContainer, workspace.ActProvision, workspace.ActStartRestore},
	workspace.OpStarting:           {workspace.ActStart, workspace.ActDeleteContainer},
	workspace.OpStopping:           {workspace.ActDeleteContainer},
	workspace.OpArchiving:          {workspace.ActDeleteContainer, workspace.ActStartArchive, workspace.ActDropArchivedVolume},
	workspace.OpDeleting:           {workspace.ActDeleteContainer, workspace.ActDeleteVolume},
}

// checkStep checks the decision that led from was to the present row.
func checkStep(t *rapid.T, h *harness, was workspace.Workspace, d workspace.Decision) {
	t.Helper()
	r := h.row
	switch {
	case was.Operation != workspace.OpNone && r.Operation != workspace.OpNone && was.Operation != r.Operation:
		t.Fatalf("operation %s was replaced by %s before it ended", was.Operation, r.Operation)
	case was.Operation == workspace.OpNone && r.Operation != workspace.OpNone && !slices.Contains(toward[r.DesiredState], r.Operation):
		t.Fatalf("%s does not lead to %s", r.Operation, r.DesiredState)
	case was.Operation == workspace.OpNone && r.Operation != workspace.OpNone && h.now.Before(h.retryAt):
		t.Fatalf("%s was started before the retry was due", r.Operation)
	case d.Action != workspace.ActNothing && d.Action != workspace.ActDeleteJobs && !slices.Contains(actuators[r.Operation], d.Action):
		t.Fatalf("action %s during %s", d.Action, r.Operation)
	case r.ErrorCount > was.ErrorCount+1 && r.ErrorReason != workspace.ReasonRetryExceeded: // a crash loop counts all its crashes at once
		t.Fatalf("one decision counted %d failures", r.ErrorCount-was.ErrorCount)
	case r.Phase != was.Phase && !r.PhaseChangedAt.Equal(h.now), r.Phase == was.Phase && !r.PhaseChangedAt.Equal(was.PhaseChangedAt):
		t.Fatalf("phase %s became %s, and phase_changed_at is %s", was.Phase, r.Phase, r.PhaseChangedAt)
	case d.Changed && !r.ObservedAt.Equal(h.now), !d.Changed && !r.ObservedAt.Equal(was.ObservedAt):
		t.Fatalf("changed: %v at %s, and observed_at is %s", d.Changed, h.now, r.ObservedAt)
	case r.DesiredState != was.DesiredState || !r.DeletedAt.Equal(was.DeletedAt) || r.Name != was.Name || r.ImageRef != was.ImageRef:
		t.Fatalf("the planner changed a column of the service layer: %+v, before %+v", r, was)
	}
	for name, c := range r.Conditions {
		if old, ok := was.Conditions[name]; ok && old.Status == c.Status && !old.LastTransitionTime.Equal(c.LastTransitionTime) {
			t.Fatalf("%s stays %s, and last_transition_time changes", name, c.Status)
		}
	}
}

// checkInvariants checks the contracts that hold at every moment.
func checkInvariants(t *rapid.T, h *harness) {
	t.Helper()
	r := h.row
	if r.Phase == workspace.PhaseError && r.Operation != workspace.OpNone {
		t.Fatalf("ERROR with operation %s", r.Operation)
	}
	if (r.Operation == workspace.OpNone) != r.OpStartedAt.IsZero() {
		t.Fatalf("operation %s started at %s", r.Operation, r.OpStartedAt)
	}
	if (r.Endpoint != "") != r.Conditions.True(workspace.ContainerReady) {
		t.Fatalf("endpoint %q, container ready: %v", r.Endpoint, r.Conditions.True(workspace.ContainerReady))
	}
	if !h.deleted && r.Phase != workspace.PhaseError && r.ErrorReason.Terminal() {
		t.Fatalf("phase %s with the terminal reason %s", r.Phase, r.ErrorReason)
	}
	if !h.deleted && (r.Phase == workspace.PhaseDeleting || r.Phase == workspace.PhaseDeleted) {
		t.Fatalf("phase %s of a workspace that is not deleted", r.Phase)
	}
	if !h.deleted && !h.kept() {
		t.Fatalf("the owner's last write (%d) is lost: volume %+v, archives %+v, row %+v", h.written, h.volume, h.archives, r)
	}
	if !h.deleted && r.ErrorReason == workspace.ReasonDataLost {
		t.Fatalf("DataLost is reported although nothing is lost: %s", r.ErrorMessage)
	}
	if r.Phase == workspace.PhaseStandby && h.volume != nil && h.volume.torn {
		t.Fatal("a half-restored volume is STANDBY")
	}
}

// settle stops the faults and expects convergence within a bounded number of steps.
func settle(t *rapid.T, h *harness) {
	h.recover()
	for range 60 {
		h.now = h.now.Add(2 * time.Second)
		d := reconcile(t, h)
		h.act(t, d.Action)
		h.endJob(true)
		if h.row.Phase == workspace.PhaseError {
			h.recover()
		}
	}
	want := workspace.Phase(h.row.DesiredState)
	if h.deleted {
		want = workspace.PhaseDeleted
		if len(h.archives) > 0 && h.row.ArchiveKey != "" {
			want = workspace.PhaseDeleting // until the GC has removed the archive
		}
		if h.container != nil || h.volume != nil {
			t.Fatalf("a deleted workspace keeps its container %+v or volume %+v", h.container, h.volume)
		}
	}
	if h.row.Phase != want || h.row.Operation != workspace.OpNone {
		t.Fatalf("not converged: phase %s operation %s, want %s; %+v", h.row.Phase, h.row.Operation, want, h.row)
	}
	if d := reconcile(t, h); d.Changed || d.Action != workspace.ActNothing {
		t.Fatalf("converged, but there is still something to do: %+v", d)
	}
	if h.row.Phase == workspace.PhaseRunning && h.volume.version != h.written {
		t.Fatalf("version %d is running, the owner wrote %d", h.volume.version, h.written)
	}
}
