package planner_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/coordinator/workspace/planner"
	"github.com/codehub/gateway/coordinator/workspace/workspacetest"
)

// failing is the part of a test that the model needs.
type failing interface {
	Fatalf(format string, args ...any)
}

// stuck is a situation that does not pass by itself, or may not.
type stuck struct {
	reason    workspace.ErrorReason // of ERROR; empty: RUNNING in a conflict
	volume    string                // the operation that created it; the row knows "A"
	archived  bool                  // K1, which the row knows
	container string                // "", "on" the volume or "beside" it
	desired   workspace.DesiredState
}

func (s stuck) String() string {
	return fmt.Sprintf("%s, volume %q, archived %v, container %q, desired %s", s.reason, s.volume, s.archived, s.container, s.desired)
}

// possible reports whether the situation can occur. A container in use makes no sense without its volume, and a
// workspace that is RUNNING in a conflict runs on a volume that is not the row's.
func (s stuck) possible() bool {
	switch {
	case s.reason == "":
		return s.volume == "B" && s.container == "on"
	case s.reason == workspace.ReasonContainerWithoutVolume:
		return s.container == "beside"
	}
	return s.container != "on" || s.volume != ""
}

// harness returns a model of that situation. The volume holds version 2, the archive version 1.
func (s stuck) harness() *harness {
	h := newHarness()
	h.now = h.now.Add(time.Hour)
	r := &h.row
	r.Phase, r.ErrorReason, r.DesiredState = workspace.PhaseError, s.reason, s.desired
	if s.reason == "" {
		r.Phase, r.DesiredState = workspace.PhaseRunning, workspace.DesiredRunning
	} else {
		r.ErrorCount, r.ErrorMessage = 1, "m"
	}
	r.HomeCtx.VolumeOpID, r.HomeCtx.Dirty = "A", true
	if s.volume != "" {
		h.volume = &disk{home: home{version: 2}, opID: s.volume, made: h.now.Add(-time.Minute)}
	}
	if s.archived {
		r.ArchiveKey = r.ID.ArchiveKey("K1")
		r.HomeCtx.RestoreMarker = r.ArchiveKey
		h.upload(r.ArchiveKey, home{version: 1})
	}
	if s.container != "" {
		h.container = &workspace.Container{Running: true, Ready: true, Volume: s.container == "on", Endpoint: "10.0.0.1:80", StartedAt: h.now.Add(-time.Minute)}
	}
	return h
}

// live makes everything that was begun succeed, for long enough.
func (h *harness) live(t failing, steps int) {
	for range steps {
		h.now = h.now.Add(2 * time.Second)
		if h.row.Operation == workspace.OpNone {
			h.now = h.now.Add(20 * time.Minute)
		}
		d, _ := h.reconcile()
		if d.Action == planner.ActDeleteContainer && h.row.Endpoint != "" {
			t.Fatalf("the container is deleted while a route leads to it: %+v", h.row)
		}
		h.act(t, d.Action)
		h.endJob(true)
		if h.container != nil && h.container.Running {
			h.container.Health, h.container.Ready = "", true
		}
	}
}

// choose carries out the choice as the service writes it.
func (h *harness) choose(r workspace.Recovery) {
	r.ID = "choice"
	if h.volume != nil {
		r.VolumeOpID = h.volume.opID
	}
	for key := range h.archives {
		r.Newest = key
	}
	h.row.Recovery = &r
	h.row.ErrorReason, h.row.ErrorMessage, h.row.ErrorCount = "", "", 0
}

// exits are the ways out: the choices of a recovery. keeps returns the version of the files that the choice keeps, or
// -1 if the choice is not possible.
var exits = map[string]struct {
	choice workspace.Recovery
	keeps  func(s stuck) int
}{
	"keep the volume": {workspace.Recovery{Choice: workspace.RecoverVolume}, func(s stuck) int {
		if s.volume == "" {
			return -1
		}
		return 2
	}},
	"take the archive": {workspace.Recovery{Choice: workspace.RecoverArchive}, func(s stuck) int {
		if !s.archived {
			return -1
		}
		return 1
	}},
	"empty home": {workspace.Recovery{Choice: workspace.RecoverEmpty}, func(stuck) int { return 0 }},
}

// version is what the workspace holds now: on its volume, or else in its archive.
func (h *harness) version() int {
	if h.volume != nil {
		return h.volume.version
	}
	return h.archives[h.row.ArchiveKey].version
}

// situations returns all possible combinations of a reason, a volume, a container, an archive and a desired state.
func situations(t *testing.T) (all []stuck) {
	reasons := workspacetest.Constants[workspace.ErrorReason](t, "..", "ErrorReason", "")
	for _, reason := range append(reasons, "") {
		for _, volume := range []string{"", "A", "B"} {
			for _, container := range []string{"", "on", "beside"} {
				for _, archived := range []bool{false, true} {
					for _, desired := range []workspace.DesiredState{workspace.DesiredRunning, workspace.DesiredStandby, workspace.DesiredArchived} {
						if s := (stuck{reason, volume, archived, container, desired}); s.possible() {
							all = append(all, s)
						}
					}
				}
			}
		}
	}
	return all
}

// TestEveryStateHasAWayOut: whatever keeps a workspace from its desired state, each choice of an administrator leads to
// that state. The workspace then has the chosen files, and a deletion that gives the files up removes it. A workspace
// that is RUNNING in a conflict can keep its volume immediately, and make every choice after it was put to sleep. See
// [retry] and [undelete] for ways out without a choice.
func TestEveryStateHasAWayOut(t *testing.T) {
	all := situations(t)
	if len(all) < 300 {
		t.Errorf("only %d situations are tried", len(all))
	}
	for _, s := range all {
		t.Run(s.String(), func(t *testing.T) {
			leave(t, s)
			retry(t, s)
			undelete(t, s)
			expire(t, s)
		})
	}
}

// leave tries every way out of a situation.
func leave(t *testing.T, s stuck) {
	for name, exit := range exits {
		want := exit.keeps(s)
		if want < 0 {
			continue
		}
		h := s.harness()
		h.live(t, 2)
		choice := exit.choice
		if choice.Choice != workspace.RecoverVolume {
			choice.ReplaceVolume = h.volume != nil
		}
		if choice.Choice == workspace.RecoverArchive {
			choice.Key = h.row.ArchiveKey
		}
		if s.reason == "" {
			if reason := h.row.NeedsRecovery(); reason != workspace.ReasonConflict || h.container == nil {
				t.Fatalf("in use: needs %q, container %+v", reason, h.container)
			}
			if choice.Choice != workspace.RecoverVolume {
				h.row.DesiredState = workspace.DesiredStandby // refused before: people may be working there
				h.live(t, 5)
				if h.container != nil || h.volume == nil || h.volume.version != 2 {
					t.Fatalf("%s: put to sleep, container %+v, volume %+v", name, h.container, h.volume)
				}
			}
		}
		if s.reason.EndsWhenReady() && s.container == "on" && s.volume == "A" && s.desired == workspace.DesiredRunning {
			// The ready container has ended the error: no choice is needed.
			if r := h.row; r.Phase != workspace.PhaseRunning || r.ErrorReason != "" || r.NeedsRecovery() != "" || h.version() != 2 {
				t.Errorf("%s: %s %s, with version %d of the files", name, r.Phase, r.ErrorReason, h.version())
			}
			continue
		}
		if h.row.NeedsRecovery() == "" {
			t.Errorf("%s: %s %s needs no recovery, and is stuck", name, h.row.Phase, h.row.Operation)
			continue
		}
		h.row.DesiredState = s.desired
		h.choose(choice)
		h.live(t, 40)
		if r := h.row; r.Phase != workspace.Phase(s.desired) || r.Operation != workspace.OpNone || r.ErrorReason != "" || r.Waiting != nil {
			t.Errorf("%s: %s %s %s %q, waiting %+v", name, r.Phase, r.Operation, r.ErrorReason, r.ErrorMessage, r.Waiting)
		} else if got := h.version(); got != want {
			t.Errorf("%s: it has version %d of the files, want %d", name, got, want)
		}
	}
	h := s.harness()
	h.live(t, 2)
	h.deleted = true
	h.row.DeletedAt, h.row.DesiredState, h.row.DeleteNow = h.now, workspace.DesiredDeleted, true
	h.live(t, 40)
	if h.container != nil || h.volume != nil || h.row.Operation != workspace.OpNone ||
		h.row.Phase != workspace.PhaseDeleted && !h.row.AwaitsGC {
		t.Errorf("deleted at once: %s %s, container %+v, volume %+v", h.row.Phase, h.row.Operation, h.container, h.volume)
	}
}

// TestInUseInAConflict: a workspace that runs on a volume that its row does not know stays in use, regardless of an
// older row's desired state. A later request stops its container, and does nothing else; then only a choice leads
// out.
func TestInUseInAConflict(t *testing.T) {
	for _, before := range []workspace.DesiredState{workspace.DesiredRunning, workspace.DesiredStandby, workspace.DesiredArchived} {
		for _, asked := range []workspace.DesiredState{workspace.DesiredRunning, workspace.DesiredStandby, workspace.DesiredArchived} {
			t.Run(string(before)+" to "+string(asked), func(t *testing.T) {
				w, o := at(workspace.PhaseRunning)
				w.DesiredState, w.HomeCtx.VolumeOpID, o.Volume = before, "A", volume("B")
				for range 3 { // however often it is looked at
					d := planner.Reconcile(now, w, o, false, policy())
					if w = d.Next; d.Action != planner.ActNothing || !w.InUseInConflict() || w.Endpoint == "" {
						t.Fatalf("found: %s %s %q, endpoint %q, waits for %q", w.Phase, w.Operation, d.Action, w.Endpoint, waits(w))
					}
				}
				o.Unseen = workspace.SensorVolumes // nothing is forgotten while the sensor is silent
				w = planner.Reconcile(now, w, o, false, policy()).Next
				o.Unseen, w.DesiredState = 0, asked
				d := planner.Reconcile(now, w, o, false, policy())
				if w = d.Next; asked == before || asked == workspace.DesiredRunning {
					if d.Action != planner.ActNothing || !w.InUseInConflict() {
						t.Errorf("%s %s %q, want it in use", w.Phase, w.Operation, d.Action)
					}
					return
				}
				if w.Operation != workspace.OpStopping || d.Action != planner.ActDeleteContainer || w.Endpoint != "" {
					t.Fatalf("%s %s %q, endpoint %q; want STOPPING", w.Phase, w.Operation, d.Action, w.Endpoint)
				}
				ended := *running
				ended.Running, ended.Ready = false, false
				o.Container = &ended
				if d = planner.Reconcile(now, w, o, false, policy()); d.Action != planner.ActDeleteContainer || d.Next.Operation != workspace.OpStopping {
					t.Errorf("it is about to go: %s %q", d.Next.Operation, d.Action)
				}
				o.Container = nil
				d = planner.Reconcile(now, d.Next, o, false, policy())
				if w = d.Next; w.Phase != workspace.PhaseError || w.ErrorReason != workspace.ReasonConflict || w.Operation != workspace.OpNone || d.Action != planner.ActDeleteJobs {
					t.Errorf("stopped: %s %s %s %q, want ERROR Conflict", w.Phase, w.ErrorReason, w.Operation, d.Action)
				}
			})
		}
	}
}
