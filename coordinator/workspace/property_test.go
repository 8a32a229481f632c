package workspace_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/codehub/gateway/coordinator/workspace"
)

// TestNothingIsLost drives one workspace through random wishes, crashes of the
// controller between any save and its action, failing actuators and jobs, crash
// loops and steps of the clock, and holds the contracts of SPEC 1 and 12 after
// every step. At the end, with the faults gone, the workspace must reach what is
// wished for.
func TestNothingIsLost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		steps := rapid.IntRange(10, 120).Draw(t, "steps")
		for range steps {
			disturb(t, w)
			w.now = w.now.Add(rapid.SampledFrom([]time.Duration{0, time.Second, 30 * time.Second, 10 * time.Minute}).Draw(t, "clock"))
			d, was := w.look()
			holds(t, w, was)
			switch rapid.SampledFrom([]string{"act", "act", "act", "act", "crash", "fail"}).Draw(t, "fate") {
			case "act":
				w.act(t, d.Action)
			case "fail":
				if d.Action != workspace.ActNothing {
					w.fail(d.Action, rapid.SampledFrom([]workspace.ErrorReason{
						workspace.ReasonActionFailed, workspace.ReasonUnreachable, workspace.ReasonImagePullFailed,
					}).Draw(t, "reason"))
				}
			}
			holds(t, w, w.row)
		}
		settle(t, w)
	})
}

// disturb lets something happen outside the controller.
func disturb(t *rapid.T, w *world) {
	switch rapid.SampledFrom([]string{"nothing", "wish", "write", "write", "job", "job", "jobfails", "crash", "recover", "delete"}).Draw(t, "event") {
	case "wish":
		if w.row.Operation == workspace.OpNone && !w.deleted { // anything else is a 409
			w.row.DesiredState = rapid.SampledFrom([]workspace.DesiredState{
				workspace.DesiredRunning, workspace.DesiredStandby, workspace.DesiredArchived,
			}).Draw(t, "desired")
		}
	case "write":
		w.write()
	case "job":
		w.endJob(true)
	case "jobfails":
		w.endJob(false)
	case "crash":
		w.crash()
	case "recover":
		w.recover()
	case "delete":
		if w.row.Operation == workspace.OpNone && !w.deleted && rapid.IntRange(0, 9).Draw(t, "sure") == 0 {
			w.deleted = true
			w.row.DeletedAt, w.row.DesiredState = w.now, workspace.DesiredDeleted
		}
	}
}

// recover is an administrator's: it resets the error and nothing else.
func (w *world) recover() {
	if w.row.Phase == workspace.PhaseError {
		w.row.ErrorReason, w.row.ErrorMessage, w.row.ErrorCount = "", "", 0
	}
}

// holds are the contracts that are true at every moment.
func holds(t *rapid.T, w *world, was workspace.Workspace) {
	t.Helper()
	r := w.row
	if r.Phase == workspace.PhaseError && r.Operation != workspace.OpNone {
		t.Fatalf("ERROR with operation %s", r.Operation)
	}
	if was.Operation != workspace.OpNone && r.Operation != workspace.OpNone && was.Operation != r.Operation {
		t.Fatalf("operation %s was replaced by %s before it ended", was.Operation, r.Operation)
	}
	if r.Operation != workspace.OpNone && r.OpStartedAt.IsZero() {
		t.Fatalf("operation %s without a start", r.Operation)
	}
	if !w.deleted && !w.kept() {
		t.Fatalf("the owner's last write (%d) is lost: volume %+v, archives %+v, row %+v", w.written, w.volume, w.archives, r)
	}
	if !w.deleted && r.ErrorReason == workspace.ReasonDataLost {
		t.Fatalf("DataLost is claimed and nothing was lost: %s", r.ErrorMessage)
	}
	if r.Phase == workspace.PhaseStandby && w.volume != nil && w.volume.torn {
		t.Fatal("a half-restored volume passes for STANDBY")
	}
}

// settle takes the faults away and expects convergence in a bounded number of looks.
func settle(t *rapid.T, w *world) {
	w.recover()
	for range 60 {
		w.now = w.now.Add(2 * time.Second)
		d, was := w.look()
		holds(t, w, was)
		w.act(t, d.Action)
		w.endJob(true)
		if w.row.Phase == workspace.PhaseError {
			w.recover()
		}
	}
	want := workspace.Phase(w.row.DesiredState)
	if w.deleted {
		want = workspace.PhaseDeleted
		if len(w.archives) > 0 && w.row.ArchiveKey != "" {
			want = workspace.PhaseDeleting // until the GC has removed the archive
		}
		if w.container != nil || w.volume != nil {
			t.Fatalf("a deleted workspace keeps its container %+v or volume %+v", w.container, w.volume)
		}
	}
	if w.row.Phase != want || w.row.Operation != workspace.OpNone {
		t.Fatalf("not converged: phase %s operation %s, want %s; %+v", w.row.Phase, w.row.Operation, want, w.row)
	}
	if d, _ := w.look(); d.Changed || d.Action != workspace.ActNothing {
		t.Fatalf("converged, and still something to do: %+v", d)
	}
	if w.row.Phase == workspace.PhaseRunning && w.volume.version != w.written {
		t.Fatalf("runs with version %d, the owner wrote %d", w.volume.version, w.written)
	}
}
