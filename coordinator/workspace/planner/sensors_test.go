package planner_test

import (
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/coordinator/workspace/planner"
)

// TestASensorFreezesWhatItSenses and nothing else (SPEC 2).
func TestASensorFreezesWhatItSenses(t *testing.T) {
	gone := workspace.Observation{Store: answers} // nothing is seen any more
	for unseen, want := range map[workspace.Sensors]struct {
		volume, container bool
		phase             workspace.Phase
		reason            workspace.ErrorReason
	}{
		0:                          {false, false, workspace.PhaseError, workspace.ReasonDataLost},
		workspace.SensorJobs:       {false, false, workspace.PhaseError, workspace.ReasonDataLost},
		workspace.SensorContainers: {false, true, workspace.PhaseError, workspace.ReasonDataLost},
		workspace.SensorVolumes:    {true, false, workspace.PhaseStandby, ""},
		workspace.AllSensors:       {true, true, workspace.PhaseRunning, ""},
		workspace.SensorVolumes | workspace.SensorContainers: {true, true, workspace.PhaseRunning, ""},
	} {
		w, _ := at(workspace.PhaseRunning)
		o := gone
		o.Unseen, o.UnseenReason, o.UnseenMessage = unseen, workspace.WaitBackendAway, "no answer"
		d := planner.Reconcile(now, w, o, false, policy())
		n := d.Next
		if n.Conditions.True(workspace.VolumeReady) != want.volume || n.Conditions.True(workspace.ContainerReady) != want.container ||
			n.Phase != want.phase || n.ErrorReason != want.reason || (n.Endpoint != "") != want.container {
			t.Errorf("unseen %03b: %s %s, volume %v, container %v, endpoint %q", unseen, n.Phase, n.ErrorReason,
				n.Conditions.True(workspace.VolumeReady), n.Conditions.True(workspace.ContainerReady), n.Endpoint)
		}
		if unseen == workspace.SensorVolumes && (n.Operation != workspace.OpNone || waits(n) != workspace.WaitBackendAway) {
			t.Errorf("unseen %03b: %s, waits for %q", unseen, n.Operation, waits(n))
		}
	}
}

// TestOperationsNeedTheirSensors: no action depends on a silent sensor, and no limit counts time without an
// observation.
func TestOperationsNeedTheirSensors(t *testing.T) {
	for op, needs := range map[workspace.Operation]workspace.Sensors{
		workspace.OpProvisioning: workspace.SensorVolumes, workspace.OpCreateEmptyArchive: workspace.SensorVolumes,
		workspace.OpStopping: workspace.SensorContainers, workspace.OpStarting: workspace.AllSensors,
		workspace.OpRestoring: workspace.AllSensors, workspace.OpArchiving: workspace.AllSensors, workspace.OpDeleting: workspace.AllSensors,
	} {
		for _, unseen := range []workspace.Sensors{workspace.SensorContainers, workspace.SensorVolumes, workspace.SensorJobs} {
			w, o := at(workspace.PhasePending)
			w.Operation, w.OpStartedAt, w.DesiredState, w.ArchiveOpID = op, now, workspace.DesiredRunning, "op"
			switch op {
			case workspace.OpStopping, workspace.OpDeleting:
				o.Container = &workspace.Container{Running: true}
			case workspace.OpStarting, workspace.OpArchiving:
				o.Volume = homeVolume
				w.Conditions = conditions(true, false, false)
			case workspace.OpRestoring:
				w.ArchiveKey, o.Archive, w.Conditions = "key", workspace.Present, conditions(false, true, false)
			}
			o.Unseen, o.UnseenReason = unseen, workspace.WaitBackendMismatch
			d := planner.Reconcile(now, w, o, false, policy())
			if acts := d.Action != planner.ActNothing; acts != (unseen&needs == 0) || d.Next.Operation != op {
				t.Errorf("%s without %03b: %s %q", op, unseen, d.Next.Operation, d.Action)
			}
			if unseen&needs == 0 {
				continue
			}
			if waits(d.Next) != workspace.WaitBackendMismatch {
				t.Errorf("%s without %03b waits for %q", op, unseen, waits(d.Next))
			}
			if n := planner.Reconcile(now.Add(100*time.Hour), w, o, false, policy()).Next; n.Phase == workspace.PhaseError {
				t.Errorf("%s without %03b ends with %s", op, unseen, n.ErrorReason)
			}
		}
	}
}

// TestWhatCannotBeInspectedFreezesItsWorkspace.
func TestWhatCannotBeInspectedFreezesItsWorkspace(t *testing.T) {
	for name, spoil := range map[string]func(*workspace.Observation){
		"container": func(o *workspace.Observation) { o.Container = &workspace.Container{Unknown: "input/output error"} },
		"job":       func(o *workspace.Observation) { o.Jobs = []workspace.Job{{Unknown: "input/output error"}} },
	} {
		w, o := at(workspace.PhaseStandby)
		w.DesiredState = workspace.DesiredRunning
		spoil(&o)
		d := planner.Reconcile(now, w, o, false, policy())
		if d.Action != planner.ActNothing || d.Next.Operation != workspace.OpNone || d.Next.Phase != workspace.PhaseStandby || waits(d.Next) != workspace.WaitBackendAway {
			t.Errorf("%s: %s %s %q, waits for %q", name, d.Next.Phase, d.Next.Operation, d.Action, waits(d.Next))
		}
	}
}

// TestOnlyAnEndedContainerLeavesRunning is SPEC 3: people may be working in a container that turned unhealthy, and it
// recovers by itself.
func TestOnlyAnEndedContainerLeavesRunning(t *testing.T) {
	for name, c := range map[string]struct {
		container workspace.Container
		phase     workspace.Phase
		endpoint  bool
		waits     string
	}{
		"unhealthy":       {workspace.Container{Running: true, Volume: true, Health: workspace.HealthUnhealthy, Endpoint: "10.0.0.2:80"}, workspace.PhaseRunning, true, workspace.WaitUnhealthy},
		"paused":          {workspace.Container{Running: true, Volume: true, Health: workspace.HealthPaused, Endpoint: "10.0.0.2:80"}, workspace.PhaseRunning, false, workspace.WaitPaused},
		"starting again":  {workspace.Container{Running: true, Volume: true, Health: workspace.HealthStarting, Endpoint: "10.0.0.2:80"}, workspace.PhaseRunning, true, ""},
		"without address": {workspace.Container{Running: true, Volume: true}, workspace.PhaseRunning, false, ""},
		"exited":          {workspace.Container{Volume: true, ExitCode: 1, StartedAt: now.Add(-time.Hour), FinishedAt: now}, workspace.PhaseStandby, false, ""},
	} {
		w, o := at(workspace.PhaseRunning)
		o.Container = &c.container
		d := planner.Reconcile(now, w, o, false, policy())
		n := d.Next
		if n.Phase != c.phase || (n.Endpoint != "") != c.endpoint || waits(n) != c.waits || n.Conditions.True(workspace.ContainerReady) {
			t.Errorf("%s: %s, endpoint %q, waits for %q", name, n.Phase, n.Endpoint, waits(n))
		}
		if c.phase != workspace.PhaseRunning {
			continue
		}
		if n.Operation != workspace.OpNone || d.Action != planner.ActNothing || n.Conditions[workspace.ContainerReady].Message == "" {
			t.Errorf("%s: %s %q", name, n.Operation, d.Action)
		}
		o.Container = running
		if back := planner.Reconcile(now, n, o, false, policy()).Next; back.Phase != workspace.PhaseRunning || back.Waiting != nil || back.Endpoint == "" {
			t.Errorf("%s, recovered: %s, waits for %q", name, back.Phase, waits(back))
		}
		o.Container = &c.container
		n.DesiredState = workspace.DesiredStandby
		if d = planner.Reconcile(now, n, o, false, policy()); d.Action != planner.ActDeleteContainer {
			t.Errorf("%s, put to sleep: %q", name, d.Action)
		}
		// A start is not complete before the container is ready.
		w, o = at(workspace.PhaseStandby)
		w.Operation, w.OpStartedAt, w.DesiredState, o.Container = workspace.OpStarting, now, workspace.DesiredRunning, &c.container
		if n := planner.Reconcile(now, w, o, false, policy()).Next; n.Phase != workspace.PhaseStandby || n.Operation != workspace.OpStarting {
			t.Errorf("%s during the start: %s %s", name, n.Phase, n.Operation)
		}
	}
}

// TestTimeoutsCountFromProgress up to the overall limit (SPEC 3).
func TestTimeoutsCountFromProgress(t *testing.T) {
	for name, c := range map[string]struct {
		running, idle time.Duration
		late          bool
	}{
		"just begun":               {time.Second, time.Second, false},
		"no progress":              {31 * time.Minute, 31 * time.Minute, true},
		"slow, but with progress":  {5 * time.Hour, time.Minute, false},
		"progress, then no more":   {5 * time.Hour, 31 * time.Minute, true},
		"longer than any may take": {25 * time.Hour, time.Second, true},
	} {
		w, o := during(workspace.OpRestoring, workspace.DesiredRunning)
		w.ArchiveKey, w.HomeCtx.RestoreMarker, w.HomeCtx.RestoreOpID, w.Conditions = "K1", "", "R", conditions(false, true, false)
		w.OpStartedAt, o.ProgressAt = now.Add(-c.running), now.Add(-c.idle)
		o.Jobs = []workspace.Job{{Kind: workspace.JobRestore, OpID: "R", State: workspace.JobRunning}}
		if n := planner.Reconcile(now, w, o, false, policy()).Next; (n.ErrorReason == workspace.ReasonTimeout) != c.late {
			t.Errorf("%s: %s %s", name, n.Operation, n.ErrorReason)
		}
	}
}

// TestPullingAnImage: the pull is shown and has a limit of its own, and its failure ends the start.
func TestPullingAnImage(t *testing.T) {
	w, o := during(workspace.OpStarting, workspace.DesiredRunning)
	o.Pull = &workspace.Pull{Done: 120e6, Total: 540e6}
	d := planner.Reconcile(now.Add(10*time.Hour), w, o, false, policy())
	if d.Action != planner.ActNothing || d.Next.Operation != workspace.OpStarting || waits(d.Next) != workspace.WaitPullingImage || d.Next.Waiting.Message != "pulling 120 of 540 MB" {
		t.Errorf("%s %q, waits for %+v", d.Next.Operation, d.Action, d.Next.Waiting)
	}
	o.Pull = &workspace.Pull{Failure: "no such image"}
	if n := planner.Reconcile(now, w, o, false, policy()).Next; n.ErrorReason != workspace.ReasonImagePullFailed || n.ErrorMessage != "no such image" || n.Waiting != nil {
		t.Errorf("%s %q, waits for %q", n.ErrorReason, n.ErrorMessage, waits(n))
	}
	o.Pull = nil
	if d = planner.Reconcile(now, d.Next, o, false, policy()); d.Action != planner.ActStart || d.Next.Waiting != nil {
		t.Errorf("pulled: %q, waits for %q", d.Action, waits(d.Next))
	}
}

// TestAFirstStartIsNotRoutedBeforeItIsReady: the container has an address long before that.
func TestAFirstStartIsNotRoutedBeforeItIsReady(t *testing.T) {
	w, o := at(workspace.PhaseStandby)
	w.Operation, w.OpStartedAt, w.DesiredState = workspace.OpStarting, now, workspace.DesiredRunning
	for _, health := range []workspace.Health{workspace.HealthStarting, workspace.HealthUnhealthy, workspace.HealthPaused, ""} {
		o.Container = &workspace.Container{Running: true, Ready: health == "", Volume: true, Health: health, Endpoint: running.Endpoint}
		n := planner.Reconcile(now, w, o, false, policy()).Next
		if ready := health == ""; (n.Phase == workspace.PhaseRunning) != ready || (n.Endpoint != "") != ready || (n.Operation == workspace.OpNone) != ready {
			t.Errorf("%q: %s %s at %q", health, n.Phase, n.Operation, n.Endpoint)
		}
	}
}
