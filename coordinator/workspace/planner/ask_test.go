package planner_test

import (
	"errors"
	"testing"

	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/coordinator/workspace/planner"
)

// TestWhatADecisionAsks: a decision that depends on archives is made only when their state is known, or when it is
// known that the store does not answer. No job takes a place before that.
func TestWhatADecisionAsks(t *testing.T) {
	for name, c := range map[string]struct {
		change     func(*workspace.Workspace, *workspace.Observation)
		backingOff bool
		want       planner.Ask
	}{
		"archived, to stay so": {func(w *workspace.Workspace, _ *workspace.Observation) {
			w.DesiredState = workspace.DesiredArchived
		}, false, planner.Ask{Archive: true}},
		"archived, to run":         {nil, false, planner.Ask{Archive: true, Bucket: true}},
		"while a retry is not due": {nil, true, planner.Ask{}},
		"the archive is there": {func(_ *workspace.Workspace, o *workspace.Observation) {
			o.Archive, o.Store = workspace.Present, answers
		}, false, planner.Ask{}},
		"the store is away":            {func(_ *workspace.Workspace, o *workspace.Observation) { o.Store = away }, false, planner.Ask{}},
		"the store refuses":            {func(_ *workspace.Workspace, o *workspace.Observation) { o.Store = refuses }, false, planner.Ask{}},
		"it is another bucket":         {func(_ *workspace.Workspace, o *workspace.Observation) { o.Store = mismatch }, false, planner.Ask{}},
		"no volumes are seen":          {func(_ *workspace.Workspace, o *workspace.Observation) { o.Unseen = workspace.SensorVolumes }, false, planner.Ask{}},
		"a volume that is not its own": {func(_ *workspace.Workspace, o *workspace.Observation) { o.Volume = volume("other") }, false, planner.Ask{}},
		"a restore of another leader": {func(w *workspace.Workspace, _ *workspace.Observation) {
			w.Operation, w.OpStartedAt = workspace.OpRestoring, now
		}, false, planner.Ask{Archive: true, Bucket: true}},
		"a restore of this leader": {func(w *workspace.Workspace, o *workspace.Observation) {
			w.Operation, w.OpStartedAt, o.Witnessed = workspace.OpRestoring, now, true
		}, false, planner.Ask{Archive: true}},
		"an error is counted first": {func(w *workspace.Workspace, o *workspace.Observation) {
			w.Operation, w.OpStartedAt, o.ActionError = workspace.OpRestoring, now, errors.New("refused")
		}, false, planner.Ask{}},
	} {
		w, o := at(workspace.PhaseArchived)
		w.DesiredState = workspace.DesiredRunning
		o.Archive, o.Store = workspace.Unknown, workspace.StoreAnswer{}
		if c.change != nil {
			c.change(&w, &o)
		}
		d := planner.Reconcile(now, w, o, c.backingOff, policy())
		if d.Ask != c.want || !d.Ask.None() && d.Job != "" {
			t.Errorf("%s: asks %+v for a job %q, want %+v", name, d.Ask, d.Job, c.want)
		}
	}
}

// TestAnErrorIsCountedByWhatTheRowSays: the observation that comes with the error is ignored. If it shows a loss, the
// next observation finds that loss. Anything that the failed call may have started stays.
func TestAnErrorIsCountedByWhatTheRowSays(t *testing.T) {
	w, o := during(workspace.OpStarting, workspace.DesiredRunning)
	o.Volume, o.ActionError = nil, errors.New("refused")
	o.Jobs = []workspace.Job{{Kind: workspace.JobRestore, OpID: "op", State: workspace.JobRunning}}
	d := planner.Reconcile(now, w, o, false, policy())
	if n := d.Next; n.ErrorCount != w.ErrorCount+1 || n.Operation != workspace.OpStarting || d.Action != planner.ActNothing ||
		!n.Conditions.True(workspace.VolumeReady) {
		t.Errorf("the error: %d, %s %q, %v", n.ErrorCount, n.Operation, d.Action, n.Conditions)
	}
	o.ActionError = nil
	if n := planner.Reconcile(now, d.Next, o, false, policy()).Next; n.ErrorReason != workspace.ReasonDataLost {
		t.Errorf("the loss beside it: %q", n.ErrorReason)
	}
	w, o = at(workspace.PhaseStandby)
	o.ActionError = errors.New("refused")
	if n := planner.Reconcile(now, w, o, false, policy()).Next; n.ErrorCount != 0 || n.ErrorReason != "" {
		t.Errorf("an error without an operation counts: %d, %q", n.ErrorCount, n.ErrorReason)
	}
}
