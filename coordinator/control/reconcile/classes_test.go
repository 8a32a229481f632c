package reconcile

import (
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/control/reconcile/internal/schedule"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/coordinator/workspace/planner"
)

// TestClasses is the table of the order of calls: first those that a person waits for, then those that end a container,
// then archives. Calls that remove volumes have an order of their own.
func TestClasses(t *testing.T) {
	asleep := workspace.Workspace{DesiredState: workspace.DesiredArchived}
	awake := workspace.Workspace{DesiredState: workspace.DesiredRunning}
	reverting := workspace.Workspace{DesiredState: workspace.DesiredStandby, Revert: &workspace.Revert{ID: "x"}}
	deleted := workspace.Workspace{DesiredState: workspace.DesiredDeleted, DeletedAt: time.Now()}
	for _, c := range []struct {
		action   planner.Action
		w        workspace.Workspace
		class    schedule.Class
		removals bool
	}{
		{planner.ActStart, awake, schedule.Interactive, false},
		{planner.ActProvision, awake, schedule.Interactive, false},
		{planner.ActStartRestore, awake, schedule.Interactive, false},
		{planner.ActStartRestore, asleep, schedule.Interactive, false},
		{planner.ActDeleteContainer, awake, schedule.Interactive, false},
		{planner.ActDeleteJobs, awake, schedule.Interactive, false},
		{planner.ActStartArchive, reverting, schedule.Interactive, false},
		{planner.ActDeleteContainer, asleep, schedule.Normal, false},
		{planner.ActDeleteContainer, deleted, schedule.Normal, false},
		{planner.ActStartArchive, asleep, schedule.Background, false},
		{planner.ActCreateEmptyArchive, asleep, schedule.Background, false},
		{planner.ActDeleteJobs, asleep, schedule.Background, false},
		{planner.ActDropArchivedVolume, asleep, schedule.Cleanup, true},
		{planner.ActDeleteVolume, deleted, schedule.Cleanup, true},
		{planner.ActDropStaleVolume, asleep, schedule.Cleanup, true},
		{planner.ActDropStaleVolume, awake, schedule.Interactive, true},
	} {
		l := &loop{Controller: &Controller{}}
		executor, r := l.executor(c.action, c.w, time.Time{})
		if r.Class != c.class || (executor == &l.removals) != c.removals {
			t.Errorf("%s, to be %s: class %d, among removals %v", c.action, c.w.Wanted(), r.Class, executor == &l.removals)
		}
	}
	for _, c := range []struct {
		w     workspace.Workspace
		op    workspace.Operation
		job   workspace.JobKind
		class schedule.Class
	}{
		{awake, workspace.OpNone, workspace.JobRestore, schedule.Interactive},
		{asleep, workspace.OpNone, workspace.JobRestore, schedule.Interactive},
		{reverting, workspace.OpNone, workspace.JobArchive, schedule.Interactive},
		{asleep, workspace.OpNone, workspace.JobArchive, schedule.Background},
		{deleted, workspace.OpNone, workspace.JobArchive, schedule.Background},
		{asleep, workspace.OpArchiving, workspace.JobArchive, schedule.Normal},
		{awake, workspace.OpRestoring, workspace.JobRestore, schedule.Interactive},
	} {
		c.w.Operation = c.op
		if r := jobRequest(&candidate{row: c.w, decision: planner.Decision{Job: c.job}}); r.Class != c.class {
			t.Errorf("%s during %s, to be %s: class %d", c.job, c.op, c.w.Wanted(), r.Class)
		}
	}
}

// TestAPlaceInTheQueueIsThatOfTheRow: from the first look on, the row alone determines a workspace's place in the
// queue, so that the next leader gets the same order from the rows.
func TestAPlaceInTheQueueIsThatOfTheRow(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 1000, time.UTC)
	first := candidate{at: now, row: workspace.Workspace{
		Phase: workspace.PhaseStandby, DesiredState: workspace.DesiredArchived, Operation: workspace.OpNone, CreatedAt: now.Add(-time.Hour),
		Conditions: workspace.Conditions{workspace.VolumeReady: {Status: "True"}}, HomeCtx: workspace.HomeContext{VolumeRecord: workspace.VolumeRecord{Dirty: true, VolumeOpID: "op"}},
	}}
	first.observation = workspace.Observation{Volume: &workspace.Volume{OpID: "op"}, Store: workspace.StoreAnswer{State: workspace.StoreAnswers},
		Queued: &workspace.Queued{}}
	first.policy.NewOpID = func() string { return "new" }
	first.reconcile()
	next := first.decision.Next
	if !queued(next) {
		t.Fatalf("it waits for %+v", next.Waiting)
	}
	later := candidate{at: now.Add(time.Hour), row: next}
	if a, b := jobRequest(&first), jobRequest(&later); !a.Since.Equal(b.Since) {
		t.Errorf("it asked at %s, and the next leader says %s", a.Since, b.Since)
	}
}
