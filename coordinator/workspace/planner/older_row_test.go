package planner_test

import (
	"strings"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/coordinator/workspace/planner"
)

// TestARowFromBeforeItsArchives: before the data of a workspace is created, the object store is asked for archives that
// the row does not know, unless the workspace is fresh. That also holds if another leader has begun the operation
// (SPEC 12.9).
func TestARowFromBeforeItsArchives(t *testing.T) {
	const old = 11 * time.Minute
	making := func(op workspace.Operation) func(w *workspace.Workspace, o *workspace.Observation) {
		return func(w *workspace.Workspace, o *workspace.Observation) {
			w.Operation, w.OpStartedAt = op, now.Add(-time.Second)
			w.HomeCtx = workspace.HomeContext{
				VolumeRecord: workspace.VolumeRecord{VolumeOpID: "A"}, RestoreRecord: workspace.RestoreRecord{RestoreOpID: "A"},
			}
			w.ArchiveOpID = "E"
		}
	}
	for name, c := range map[string]struct {
		phase   workspace.Phase
		desired workspace.DesiredState
		age     time.Duration
		change  func(*workspace.Workspace, *workspace.Observation)
		asks    bool
	}{
		"fresh":                          {workspace.PhasePending, workspace.DesiredRunning, time.Minute, nil, false},
		"fresh, but the clock was ahead": {workspace.PhasePending, workspace.DesiredRunning, -time.Hour, nil, false},
		"created long ago":               {workspace.PhasePending, workspace.DesiredRunning, old, nil, true},
		"created long ago, to standby":   {workspace.PhasePending, workspace.DesiredStandby, old, nil, true},
		"created lately, archived once":  {workspace.PhasePending, workspace.DesiredRunning, time.Minute, func(w *workspace.Workspace, _ *workspace.Observation) { w.ArchiveOpID = "X" }, true},
		"provisioned by another, fresh": {workspace.PhasePending, workspace.DesiredRunning, time.Minute, func(w *workspace.Workspace, o *workspace.Observation) {
			making(workspace.OpProvisioning)(w, o)
			w.ArchiveOpID = ""
		}, false},
		"provisioned by another, long ago": {workspace.PhasePending, workspace.DesiredRunning, old, making(workspace.OpProvisioning), true},
		"provisioned by this one": {workspace.PhasePending, workspace.DesiredRunning, old, func(w *workspace.Workspace, o *workspace.Observation) {
			making(workspace.OpProvisioning)(w, o)
			o.Witnessed = true
		}, false},
		"created as archived by another": {workspace.PhasePending, workspace.DesiredArchived, old, making(workspace.OpCreateEmptyArchive), true},
		"restored by another, no volume": {workspace.PhaseArchived, workspace.DesiredRunning, old, making(workspace.OpRestoring), true},
		"restored by another, its volume": {workspace.PhaseArchived, workspace.DesiredRunning, old, func(w *workspace.Workspace, o *workspace.Observation) {
			making(workspace.OpRestoring)(w, o)
			o.Volume = volume("A")
		}, true},
		"restored by this one": {workspace.PhaseArchived, workspace.DesiredRunning, old, func(w *workspace.Workspace, o *workspace.Observation) {
			making(workspace.OpRestoring)(w, o)
			o.Volume, o.Witnessed = volume("A"), true
			o.Volume.CreatedAt = now.Add(-100 * time.Hour) // held up since then
		}, false},
		"restored by a job": {workspace.PhaseArchived, workspace.DesiredRunning, old, func(w *workspace.Workspace, o *workspace.Observation) {
			making(workspace.OpRestoring)(w, o)
			o.Volume, o.Jobs = volume("A"), []workspace.Job{{Kind: workspace.JobRestore, OpID: "A", State: workspace.JobRunning}}
		}, false},
	} {
		w, o := at(c.phase)
		w.DesiredState, w.CreatedAt, o.Store = c.desired, now.Add(-c.age), workspace.StoreAnswer{}
		if c.change != nil {
			c.change(&w, &o)
		}
		d := planner.Reconcile(now, w, o, false, policy())
		if makes := d.Action != planner.ActNothing || d.Next.Operation != workspace.OpNone && w.Operation == workspace.OpNone; d.Ask.Bucket != c.asks || d.Ask.Bucket && makes {
			t.Errorf("%s: asks %v, %s %q, want asks %v", name, d.Ask, d.Next.Operation, d.Action, c.asks)
		}
		if !c.asks {
			o.Store = away // no answer is needed
			if d := planner.Reconcile(now, w, o, false, policy()); w.Operation == workspace.OpNone && d.Action != planner.ActProvision {
				t.Errorf("%s: %q without the store", name, d.Action)
			}
			continue
		}
		o.Store, o.Upload = answers, workspace.Absent
		if d := planner.Reconcile(now, w, o, false, policy()); !d.Ask.None() || d.Action == planner.ActNothing {
			t.Errorf("%s: asks %v, %q when there is none", name, d.Ask, d.Action)
		}
		o.Younger = "K9"
		if n := planner.Reconcile(now, w, o, false, policy()).Next; n.ErrorReason != workspace.ReasonConflict || !strings.Contains(n.ErrorMessage, "K9") {
			t.Errorf("%s: %s %s, want a Conflict about K9", name, n.Operation, n.ErrorReason)
		}
		o.Younger, o.Store = "", away
		if d := planner.Reconcile(now, w, o, false, policy()); d.Action != planner.ActNothing && d.Action != planner.ActDeleteJobs ||
			d.Next.Operation != workspace.OpNone || waits(d.Next) != workspace.WaitStoreAway {
			t.Errorf("%s, the store away: %s %q, waits for %q", name, d.Next.Operation, d.Action, waits(d.Next))
		}
	}
}

// TestWhoeverStartedTheContainer checks that an older archive is no longer current after a container has run: it may
// have changed the volume, even if no operation recorded in this row started it.
func TestWhoeverStartedTheContainer(t *testing.T) {
	exited := &workspace.Container{ExitCode: 1, Volume: true, StartedAt: now.Add(-time.Minute), FinishedAt: now}
	for name, c := range map[string]struct {
		container *workspace.Container
		dirty     bool
	}{
		"none": {nil, false}, "running": {running, true}, "it has exited already": {exited, true},
		"on another volume": {&workspace.Container{Running: true, Ready: true, Endpoint: "10.0.0.2:80"}, false},
	} {
		w, o := at(workspace.PhaseStandby)
		w.ArchiveKey, w.HomeCtx = "K1", workspace.HomeContext{VolumeRecord: workspace.VolumeRecord{RestoreMarker: "K1", VolumeOpID: "A"}}
		o.Volume, o.Container = volume("A"), c.container
		if n := planner.Reconcile(now, w, o, true, policy()).Next; n.HomeCtx.Dirty != c.dirty {
			t.Errorf("%s: dirty %v, want %v", name, n.HomeCtx.Dirty, c.dirty)
		}
	}
}
