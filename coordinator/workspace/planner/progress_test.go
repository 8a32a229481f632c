package planner_test

import (
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/coordinator/workspace/planner"
)

// TestWhenProgressIsSaved: progress is saved no more often than allowed, and only if it is new.
func TestWhenProgressIsSaved(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(seconds int, p workspace.JobProgress) *workspace.JobProgress {
		p.At = start.Add(time.Duration(seconds) * time.Second)
		return &p
	}
	unpack := func(done int64) workspace.JobProgress {
		return workspace.JobProgress{Step: "unpack", Done: done, Total: 1000, Bytes: done}
	}
	running := []workspace.Job{{Kind: workspace.JobRestore, OpID: "r", State: workspace.JobRunning}}
	for _, c := range []struct {
		name   string
		saved  *workspace.JobProgress
		newest *workspace.JobProgress
		jobs   []workspace.Job
		every  time.Duration
		want   *workspace.JobProgress
	}{
		{"nothing is known", nil, nil, running, 0, nil},
		{"in the first second", nil, at(0, unpack(1)), running, 0, nil},
		{"the first one", nil, at(2, unpack(1)), running, 0, at(2, unpack(1))},
		{"nothing newer", at(2, unpack(1)), nil, running, 0, at(2, unpack(1))},
		{"too soon", at(2, unpack(1)), at(4, unpack(500)), running, 3 * time.Second, at(2, unpack(1))},
		{"another percent", at(2, unpack(1)), at(5, unpack(500)), running, 3 * time.Second, at(5, unpack(500))},
		{"there are many", at(2, unpack(1)), at(5, unpack(500)), running, time.Minute, at(2, unpack(1))},
		{"the same percent", at(2, unpack(1)), at(5, unpack(2)), running, 3 * time.Second, at(5, unpack(2))},
		{"the same percent too soon", at(2, unpack(1)), at(4, unpack(2)), running, 3 * time.Second, at(2, unpack(1))},
		{"it stands still", at(2, unpack(1)), at(200, unpack(1)), running, 3 * time.Second, at(2, unpack(1))},
		{"another step", at(2, unpack(1)), at(2, workspace.JobProgress{Step: "swap"}), running, time.Minute, at(2, workspace.JobProgress{Step: "swap"})},
		{"of unknown size", at(2, workspace.JobProgress{Step: "archive", Done: 5}), at(5, workspace.JobProgress{Step: "archive", Done: 6}), running, 3 * time.Second,
			at(5, workspace.JobProgress{Step: "archive", Done: 6})},
		{"a clock that was ahead", at(900, unpack(1)), at(5, unpack(500)), running, 3 * time.Second, at(5, unpack(500))},
		{"the job is gone", at(2, unpack(900)), nil, nil, 0, nil},
	} {
		w := workspace.Workspace{
			ID: "00000000-0000-4000-8000-000000000001", Phase: workspace.PhaseArchived, DesiredState: workspace.DesiredRunning,
			Operation: workspace.OpRestoring, OpStartedAt: start, ArchiveKey: "key", Progress: c.saved, PhaseChangedAt: start,
			HomeCtx: workspace.HomeContext{VolumeRecord: workspace.VolumeRecord{VolumeOpID: "v"}, RestoreRecord: workspace.RestoreRecord{RestoreOpID: "r"}},
		}
		p := policy()
		p.ProgressEvery = c.every
		look := start.Add(2 * time.Second)
		if c.newest != nil {
			look = c.newest.At
		}
		o := workspace.Observation{Volume: &workspace.Volume{OpID: "v"}, Jobs: c.jobs, Progress: c.newest, Archive: workspace.Present}
		w = planner.Reconcile(look, w, workspace.Observation{Volume: o.Volume, Jobs: o.Jobs, Archive: o.Archive}, true, p).Next // its conditions
		w.Progress = c.saved
		d := planner.Reconcile(look, w, o, true, p)
		switch got := d.Next.Progress; {
		case got == nil && c.want == nil:
		case got == nil || c.want == nil || *got != *c.want:
			t.Errorf("%s: saved %+v, want %+v", c.name, got, c.want)
		}
		changed := (c.saved == nil) != (c.want == nil) || c.saved != nil && *c.saved != *c.want
		if d.Changed != changed || d.OnlyProgress != changed {
			t.Errorf("%s: changed %v, only progress %v; want %v", c.name, d.Changed, d.OnlyProgress, changed)
		}
	}
}

// TestProgressEndsWithItsOperation: the next operation does not begin with it.
func TestProgressEndsWithItsOperation(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	w := workspace.Workspace{
		ID: "00000000-0000-4000-8000-000000000001", Phase: workspace.PhaseArchived, DesiredState: workspace.DesiredRunning,
		Operation: workspace.OpRestoring, OpStartedAt: start, ArchiveKey: "key",
		HomeCtx:  workspace.HomeContext{VolumeRecord: workspace.VolumeRecord{VolumeOpID: "v"}, RestoreRecord: workspace.RestoreRecord{RestoreOpID: "r"}},
		Progress: &workspace.JobProgress{Step: "unpack", Done: 1, Total: 2},
	}
	o := workspace.Observation{Volume: &workspace.Volume{OpID: "v"}, Jobs: []workspace.Job{{Kind: workspace.JobRestore, OpID: "r", State: workspace.JobSucceeded}}}
	d := planner.Reconcile(start.Add(time.Minute), w, o, false, policy())
	if d.Next.Operation != workspace.OpNone || d.Next.Progress != nil || d.OnlyProgress {
		t.Errorf("%+v", d)
	}
}
