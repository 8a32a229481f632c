package planner_test

import (
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/coordinator/workspace/planner"
)

// TestStorageJobsWaitForAPlace: an operation that needs a storage job begins only when there is a place for the job.
// Other operations do not wait.
func TestStorageJobsWaitForAPlace(t *testing.T) {
	for name, c := range map[string]struct {
		phase   workspace.Phase
		desired workspace.DesiredState
		job     workspace.JobKind
	}{
		"a new workspace":    {workspace.PhasePending, workspace.DesiredRunning, ""},
		"an empty archive":   {workspace.PhasePending, workspace.DesiredArchived, ""},
		"a restore":          {workspace.PhaseArchived, workspace.DesiredRunning, workspace.JobRestore},
		"a restore to sleep": {workspace.PhaseArchived, workspace.DesiredStandby, workspace.JobRestore},
		"waking up":          {workspace.PhaseStandby, workspace.DesiredRunning, ""},
		"archiving":          {workspace.PhaseStandby, workspace.DesiredArchived, workspace.JobArchive},
		"a deletion":         {workspace.PhaseStandby, workspace.DesiredDeleted, workspace.JobArchive},
		"going to sleep":     {workspace.PhaseRunning, workspace.DesiredStandby, ""},
		"at rest":            {workspace.PhaseArchived, workspace.DesiredArchived, ""},
	} {
		w, o := at(c.phase)
		w.DesiredState = c.desired
		if c.desired == workspace.DesiredDeleted {
			w.DeletedAt = now
		}
		free := planner.Reconcile(now, w, o, false, policy())
		if free.Job != c.job {
			t.Errorf("%s: needs a place for %q, want %q", name, free.Job, c.job)
		}
		o.Store = workspace.StoreAnswer{}
		if d := planner.Reconcile(now, w, o, false, policy()); d.Job != c.job {
			t.Errorf("%s: before the store was asked it needs a place for %q, want %q", name, d.Job, c.job)
		}
		o.Store = away
		if d := planner.Reconcile(now, w, o, false, policy()); d.Job != "" {
			t.Errorf("%s: it takes a place for %s while the store is away", name, d.Job)
		}
		o.Store, o.Queued = workspace.StoreAnswer{}, &workspace.Queued{Before: 3}
		if c.job == "" {
			o.Store = answers
		}
		d := planner.Reconcile(now, w, o, false, policy())
		if c.job == "" {
			if waits(d.Next) == workspace.WaitJobQueue || d.Next.Operation != free.Next.Operation {
				t.Errorf("%s: begins %s and waits for %q", name, d.Next.Operation, waits(d.Next))
			}
			continue
		}
		// Nothing has begun, so the workspace can still be opened or left as it is, and the store is not asked
		// again at every tick.
		if d.Next.Operation != workspace.OpNone || d.Action != planner.ActNothing || d.Ask.Bucket || d.Job != "" ||
			waits(d.Next) != workspace.WaitJobQueue || d.Next.Waiting.Before != 3 || d.Next.ErrorCount != 0 {
			t.Errorf("%s: %s %s, waits for %+v", name, d.Next.Operation, d.Action, d.Next.Waiting)
			continue
		}
		if later := planner.Reconcile(now.Add(time.Hour), d.Next, o, false, policy()); later.Changed {
			t.Errorf("%s: an hour later %+v", name, later.Next.Waiting)
		}
		o.Queued.Before = 2
		if next := planner.Reconcile(now.Add(time.Hour), d.Next, o, false, policy()).Next; next.Waiting.Before != 2 || !next.Waiting.Since.Equal(now) {
			t.Errorf("%s: the next one is %+v", name, next.Waiting)
		}
		o.Queued, o.Store = nil, answers
		if begun := planner.Reconcile(now.Add(time.Hour), d.Next, o, false, policy()).Next; begun.Operation != free.Next.Operation || begun.Waiting != nil {
			t.Errorf("%s: with a place %s, waits for %q", name, begun.Operation, waits(begun))
		}
	}
}

// TestWaitingForAPlaceTakesNoTime: an operation whose job must be started once more waits as long as necessary,
// and its limits start again.
func TestWaitingForAPlaceTakesNoTime(t *testing.T) {
	for _, c := range []struct {
		phase   workspace.Phase
		desired workspace.DesiredState
		start   planner.Action
	}{
		{workspace.PhaseStandby, workspace.DesiredArchived, planner.ActStartArchive},
		{workspace.PhaseArchived, workspace.DesiredRunning, planner.ActStartRestore},
	} {
		w, o := at(c.phase)
		w.DesiredState, o.Store, o.Witnessed = c.desired, answers, true
		w = planner.Reconcile(now, w, o, false, policy()).Next
		if o.Volume == nil {
			o.Volume = &workspace.Volume{OpID: w.HomeCtx.VolumeOpID}
		}
		o.Queued = &workspace.Queued{}
		late := now.Add(100 * time.Hour)
		d := planner.Reconcile(now.Add(time.Minute), w, o, false, policy())
		if d.Action != planner.ActNothing || waits(d.Next) != workspace.WaitJobQueue || d.Next.Operation != w.Operation || d.Next.ArchiveOpID != w.ArchiveOpID {
			t.Errorf("%s: %s, waits for %q", w.Operation, d.Action, waits(d.Next))
		}
		if d = planner.Reconcile(late, d.Next, o, false, policy()); d.Next.Operation != w.Operation || d.Next.ErrorReason != "" || d.Next.ErrorCount != 0 {
			t.Errorf("%s: after a long wait %s %s", w.Operation, d.Next.Operation, d.Next.ErrorReason)
		}
		o.Queued = nil
		if d = planner.Reconcile(late.Add(time.Minute), d.Next, o, false, policy()); d.Action != c.start || d.Next.Operation != w.Operation || d.Job == "" || d.Next.Waiting != nil {
			t.Errorf("%s: with a place %s %s, waits for %q", w.Operation, d.Next.Operation, d.Action, waits(d.Next))
		}
	}
}

// TestAPlaceInTheQueueInWords: the number of jobs ahead is exact while it is small, and rounded down otherwise.
func TestAPlaceInTheQueueInWords(t *testing.T) {
	const why = "as many storage jobs run as may at once; "
	for before, want := range map[int]struct {
		told int
		text string
	}{
		0: {0, "it is next"}, 1: {1, "1 is before it"}, 2: {2, "2 are before it"}, 9: {9, "9 are before it"},
		10: {10, "at least 10 are before it"}, 19: {10, "at least 10 are before it"}, 20: {20, "at least 20 are before it"},
		99: {50, "at least 50 are before it"}, 200: {200, "at least 200 are before it"}, 4999: {2000, "at least 2000 are before it"},
	} {
		w, o := at(workspace.PhaseStandby)
		w.DesiredState, o.Queued = workspace.DesiredArchived, &workspace.Queued{Before: before}
		if got := planner.Reconcile(now, w, o, false, policy()).Next.Waiting; got == nil || got.Before != want.told || got.Message != why+want.text {
			t.Errorf("%d before it: %+v", before, got)
		}
	}
}
