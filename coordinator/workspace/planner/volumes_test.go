package planner_test

import (
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/coordinator/workspace/planner"
)

// TestAFullDisk: only operations that bring a home to the disk wait for room.
func TestAFullDisk(t *testing.T) {
	const why = "the disk of the homes is 96% full"
	full := policy()
	full.FullDisk = &workspace.FullDisk{Percent: 96}
	for name, c := range map[string]struct {
		phase   workspace.Phase
		desired workspace.DesiredState
		waits   bool
	}{
		"a new workspace":    {workspace.PhasePending, workspace.DesiredRunning, true},
		"a new one, asleep":  {workspace.PhasePending, workspace.DesiredStandby, true},
		"an empty archive":   {workspace.PhasePending, workspace.DesiredArchived, false},
		"a restore":          {workspace.PhaseArchived, workspace.DesiredRunning, true},
		"a restore to sleep": {workspace.PhaseArchived, workspace.DesiredStandby, true},
		"waking up":          {workspace.PhaseStandby, workspace.DesiredRunning, false},
		"archiving":          {workspace.PhaseStandby, workspace.DesiredArchived, false},
		"going to sleep":     {workspace.PhaseRunning, workspace.DesiredStandby, false},
		"at rest":            {workspace.PhaseArchived, workspace.DesiredArchived, false},
	} {
		w, o := at(c.phase)
		w.DesiredState = c.desired
		o.Store = answers
		d := planner.Reconcile(now, w, o, false, full)
		begins := planner.Reconcile(now, w, o, false, policy()).Next.Operation
		if !c.waits {
			if d.Next.Operation != begins || waits(d.Next) == workspace.WaitDiskPressure {
				t.Errorf("%s: begins %q and waits for %q, want %q", name, d.Next.Operation, waits(d.Next), begins)
			}
			continue
		}
		if d.Next.Operation != workspace.OpNone || waits(d.Next) != workspace.WaitDiskPressure || d.Next.Waiting.Message != why || d.Next.Waiting.Percent != 96 ||
			d.Next.ErrorReason != "" || d.Ask.Bucket || d.Action != planner.ActNothing || d.Retry < time.Second {
			t.Errorf("%s: %s, waits for %+v, again in %s", name, d.Next.Operation, d.Next.Waiting, d.Retry)
			continue
		}
		later := planner.Reconcile(now.Add(time.Hour), d.Next, o, false, full)
		if later.Changed || later.Retry > 30*time.Second || !later.Next.Waiting.Since.Equal(now) {
			t.Errorf("%s: an hour later changed %v, again in %s", name, later.Changed, later.Retry)
		}
		if room := planner.Reconcile(now.Add(time.Hour), later.Next, o, false, policy()).Next; room.Operation != begins || room.Waiting != nil {
			t.Errorf("%s: with room %q, waits for %q; want %q", name, room.Operation, waits(room), begins)
		}
	}
}

// TestAFullDiskStopsNothing: an operation in progress continues.
func TestAFullDiskStopsNothing(t *testing.T) {
	w, o := at(workspace.PhaseArchived)
	w.DesiredState, o.Store = workspace.DesiredRunning, answers
	w = planner.Reconcile(now, w, o, false, policy()).Next
	full := policy()
	full.FullDisk = &workspace.FullDisk{Percent: 96}
	o.Witnessed = true
	if d := planner.Reconcile(now, w, o, false, full); d.Next.Operation != workspace.OpRestoring || d.Action != planner.ActProvision {
		t.Errorf("%s %s: a restore that was begun has stopped", d.Next.Operation, d.Action)
	}
}

// TestHomeSizes: the jobs report the size of a home.
func TestHomeSizes(t *testing.T) {
	before := workspace.HomeSize{Bytes: 7, Files: 1, AtLeast: true, MeasuredAt: now.Add(-time.Hour)}
	told := workspace.HomeSize{Bytes: 4096, Files: 12, MeasuredAt: now}
	archived := func(job workspace.Job, home workspace.HomeSize, asleep time.Time) workspace.HomeSize {
		w, o := at(workspace.PhaseStandby)
		w.DesiredState, o.Store = workspace.DesiredArchived, answers
		w = planner.Reconcile(now.Add(-time.Minute), w, o, false, policy()).Next
		w.Home, w.PhaseChangedAt = home, asleep
		job.Kind, job.OpID, job.State, job.Size = workspace.JobArchive, w.ArchiveOpID, workspace.JobSucceeded, 99
		o.Jobs, o.Witnessed, o.Upload, o.UploadSize = []workspace.Job{job}, true, workspace.Present, 99
		next := planner.Reconcile(now, w, o, false, policy()).Next
		if next.ArchiveKey != w.ID.ArchiveKey(w.ArchiveOpID) {
			t.Fatalf("not archived: %+v", next)
		}
		return next.Home
	}
	longAgo, justNow := now.Add(-24*time.Hour), now.Add(-time.Minute)
	for name, c := range map[string]struct {
		job    workspace.Job
		home   workspace.HomeSize
		asleep time.Time
		want   workspace.HomeSize
	}{
		"the job has read it":                      {workspace.Job{Content: 4096, Files: 12}, before, longAgo, told},
		"an earlier run had, measured asleep":      {workspace.Job{}, before, longAgo, before},
		"an earlier run had, measured before that": {workspace.Job{}, before, justNow, workspace.HomeSize{}},
	} {
		if got := archived(c.job, c.home, c.asleep); got != c.want {
			t.Errorf("archived, %s: %+v, want %+v", name, got, c.want)
		}
	}

	w, o := at(workspace.PhaseArchived)
	w.DesiredState, o.Store, w.Home = workspace.DesiredRunning, answers, before
	w = planner.Reconcile(now, w, o, false, policy()).Next
	o.Witnessed, o.Volume = true, &workspace.Volume{OpID: w.HomeCtx.VolumeOpID}
	o.Jobs = []workspace.Job{{Kind: workspace.JobRestore, OpID: w.HomeCtx.RestoreOpID, State: workspace.JobSucceeded, Content: 4096, Files: 12}}
	if got := planner.Reconcile(now, w, o, false, policy()).Next; got.Home != told || got.Phase != workspace.PhaseStandby {
		t.Errorf("restored: %s %+v, want %+v", got.Phase, got.Home, told)
	}

	w, o = at(workspace.PhasePending)
	w.DesiredState, o.Store = workspace.DesiredArchived, answers
	w = planner.Reconcile(now, w, o, false, policy()).Next
	o.Witnessed, o.Upload = true, workspace.Present
	if got := planner.Reconcile(now, w, o, false, policy()).Next; got.Home != (workspace.HomeSize{MeasuredAt: now}) {
		t.Errorf("an empty archive: %+v", got.Home)
	}
}
