package planner_test

import (
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/coordinator/workspace/planner"
)

// TestFreezing lists what happens to a running workspace that should or should not doze, by the state of its container.
func TestFreezing(t *testing.T) {
	started := now.Add(-time.Hour)
	up := *running
	up.StartedAt = started
	frozen := up
	frozen.Ready, frozen.Health = false, workspace.HealthPaused
	unhealthy := up
	unhealthy.Ready, unhealthy.Health = false, workspace.HealthUnhealthy
	timeless := up
	timeless.StartedAt = time.Time{}
	for _, c := range []struct {
		name      string
		container workspace.Container
		doze      bool
		dozed     time.Time // the container that this program froze last
		change    func(*workspace.Workspace, *workspace.Observation)
		backing   bool
		action    planner.Action
		operation workspace.Operation // the one that begins; empty: none
		dozing    bool                // the condition
		endpoint  bool
		waits     string
	}{
		{name: "it is to doze", container: up, doze: true, action: planner.ActFreeze, endpoint: true},
		{name: "it dozes", container: frozen, doze: true, dozed: started, dozing: true, endpoint: true},
		{name: "a person has paused it before", container: frozen, doze: true, dozing: true, endpoint: true},
		{name: "it is wanted again", container: frozen, dozed: started, action: planner.ActThaw, dozing: true, endpoint: true},
		{name: "it is wanted again, and the last attempt has failed", container: frozen, dozed: started, backing: true, dozing: true, endpoint: true},
		{name: "it goes on", container: up, dozed: started, endpoint: true},
		{name: "a person has paused it", container: frozen, waits: workspace.WaitPaused},
		{name: "a person has paused it, after another one was frozen", container: frozen, dozed: started.Add(-time.Hour), waits: workspace.WaitPaused},
		{name: "it is unhealthy", container: unhealthy, doze: true, endpoint: true, waits: workspace.WaitUnhealthy},
		{name: "the engine does not tell when it was started", container: timeless, doze: true, endpoint: true},
		{name: "the last attempt to freeze it has failed", container: up, doze: true, backing: true, endpoint: true},
		{name: "a storage job is there", container: up, doze: true, endpoint: true, action: planner.ActDeleteJobs,
			change: func(_ *workspace.Workspace, o *workspace.Observation) {
				o.Jobs = []workspace.Job{{Kind: workspace.JobArchive, State: workspace.JobSucceeded}}
			}},
		{name: "it is to sleep", container: frozen, dozed: started, action: planner.ActDeleteContainer, operation: workspace.OpStopping, dozing: true,
			change: func(w *workspace.Workspace, _ *workspace.Observation) { w.DesiredState = workspace.DesiredStandby }},
		{name: "it has failed", container: frozen, dozed: started, action: planner.ActThaw, dozing: true, endpoint: false,
			change: func(w *workspace.Workspace, _ *workspace.Observation) {
				w.Phase, w.ErrorReason, w.DesiredState = workspace.PhaseError, workspace.ReasonConflict, workspace.DesiredStandby
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, o := at(workspace.PhaseRunning)
			o.Container, w.HomeCtx.Dozed = &c.container, c.dozed
			if c.doze {
				w.DozeAt = now
			}
			if c.change != nil {
				c.change(&w, &o)
			}
			d := planner.Reconcile(now, w, o, c.backing, policy())
			n := d.Next
			operation := c.operation
			if operation == "" {
				operation = workspace.OpNone
			}
			if d.Action != c.action || n.Operation != operation {
				t.Errorf("%s %q", n.Operation, d.Action)
			}
			if n.Phase != w.Phase || n.Conditions.True(workspace.Dozing) != c.dozing || (n.Endpoint != "") != c.endpoint || waits(n) != c.waits {
				t.Errorf("%s, dozing %v, endpoint %q, waits for %q", n.Phase, n.Conditions[workspace.Dozing], n.Endpoint, waits(n))
			}
			if frozen := c.action == planner.ActFreeze || c.doze && c.dozing; frozen && !n.HomeCtx.Dozed.Equal(started) {
				t.Errorf("which container is frozen is not saved: %s", n.HomeCtx.Dozed)
			}
			if d.Action == planner.ActFreeze && !d.Changed {
				t.Error("it is frozen before that is saved")
			}
		})
	}
}

// TestADozeIsSavedOnce: a doze is not saved again and again.
func TestADozeIsSavedOnce(t *testing.T) {
	w, o := at(workspace.PhaseRunning)
	k := *running
	k.StartedAt = now.Add(-time.Hour).In(time.FixedZone("", 3600)).Add(123 * time.Nanosecond)
	w.DozeAt, o.Container = now, &k
	d := planner.Reconcile(now, w, o, false, policy())
	if d.Action != planner.ActFreeze || !d.Changed {
		t.Fatalf("%q", d.Action)
	}
	k.Ready, k.Health = false, workspace.HealthPaused
	d = planner.Reconcile(now, d.Next, o, false, policy())
	if d.Action != planner.ActNothing || !d.Changed || !d.Next.Conditions.True(workspace.Dozing) {
		t.Fatalf("frozen: %q", d.Action)
	}
	if d = planner.Reconcile(now, d.Next, o, false, policy()); d.Changed || d.Action != planner.ActNothing {
		t.Errorf("it dozes on: %q", d.Action)
	}
}
