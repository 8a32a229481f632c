package planner_test

import (
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/coordinator/workspace/planner"
)

// TestAStartDoesNotWaitForTheRemovalOfItsJob: after a restore the container starts immediately. The successful
// job is removed once the container runs. Every other job is removed first, even one that has archived the volume: the
// existence of such a job proves that the volume has not been used since.
func TestAStartDoesNotWaitForTheRemovalOfItsJob(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	restored := workspace.Job{Kind: workspace.JobRestore, OpID: "r", State: workspace.JobSucceeded}
	other := func(s workspace.JobState) workspace.Job {
		return workspace.Job{Kind: workspace.JobArchive, OpID: "a", State: s}
	}
	for _, c := range []struct {
		name    string
		desired workspace.DesiredState
		jobs    []workspace.Job
		first   planner.Action // after the restore
		second  planner.Action // at the next look
	}{
		{"its own job", workspace.DesiredRunning, []workspace.Job{restored}, planner.ActNothing, planner.ActStart},
		{"it is not to run", workspace.DesiredStandby, []workspace.Job{restored}, planner.ActDeleteJobs, planner.ActDeleteJobs},
		{"it is to be archived", workspace.DesiredArchived, []workspace.Job{restored}, planner.ActDeleteJobs, planner.ActDeleteJobs},
		{"another job runs", workspace.DesiredRunning, []workspace.Job{restored, other(workspace.JobRunning)}, planner.ActDeleteJobs, planner.ActDeleteJobs},
		{"another job has archived it", workspace.DesiredRunning, []workspace.Job{restored, other(workspace.JobSucceeded)}, planner.ActDeleteJobs, planner.ActDeleteJobs},
		{"another job has failed", workspace.DesiredRunning, []workspace.Job{restored, other(workspace.JobFailed)}, planner.ActDeleteJobs, planner.ActDeleteJobs},
	} {
		w := workspace.Workspace{
			ID: "00000000-0000-4000-8000-000000000001", Phase: workspace.PhaseArchived, DesiredState: c.desired,
			Operation: workspace.OpRestoring, OpStartedAt: start, ArchiveKey: "key", PhaseChangedAt: start,
			HomeCtx: workspace.HomeContext{VolumeRecord: workspace.VolumeRecord{VolumeOpID: "v"}, RestoreRecord: workspace.RestoreRecord{RestoreOpID: "r"}},
		}
		w.Conditions = workspace.Conditions{workspace.ArchiveReady: {Status: "True"}}
		o := workspace.Observation{
			Volume: &workspace.Volume{OpID: "v"}, Jobs: c.jobs, Archive: workspace.Present, Store: answers,
		}
		first := planner.Reconcile(start.Add(time.Second), w, o, false, policy())
		if first.Next.Phase != workspace.PhaseStandby || first.Next.Operation != workspace.OpNone || first.Action != c.first {
			t.Errorf("%s: after the restore %s, %s and %q", c.name, first.Next.Phase, first.Next.Operation, first.Action)
		}
		second := planner.Reconcile(start.Add(2*time.Second), first.Next, o, false, policy())
		if second.Action != c.second || second.Action == planner.ActStart && second.Next.Operation != workspace.OpStarting {
			t.Errorf("%s: then %s and %q", c.name, second.Next.Operation, second.Action)
		}
		if second.Action != planner.ActStart {
			continue
		}
		o.Jobs[0].State = workspace.JobRunning // a former leader's job that started late
		if d := planner.Reconcile(start.Add(3*time.Second), second.Next, o, false, policy()); d.Action != planner.ActDeleteJobs {
			t.Errorf("%s: beside a job that runs %q follows", c.name, d.Action)
		}
		o.Jobs[0] = other(workspace.JobSucceeded)
		if d := planner.Reconcile(start.Add(3*time.Second), second.Next, o, false, policy()); d.Action != planner.ActDeleteJobs {
			t.Errorf("%s: beside a job that has archived the volume %q follows", c.name, d.Action)
		}
		o.Jobs[0] = restored
		o.Container = &workspace.Container{Running: true, Ready: true, Volume: true, Endpoint: "10.0.0.1:8080", StartedAt: start}
		d := planner.Reconcile(start.Add(4*time.Second), second.Next, o, false, policy())
		if d.Next.Phase != workspace.PhaseRunning || d.Next.Operation != workspace.OpNone || d.Action != planner.ActDeleteJobs {
			t.Errorf("%s: running, %s, %s and %q", c.name, d.Next.Phase, d.Next.Operation, d.Action)
		}
	}
}
