package reconcile

import (
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/reconcile/schedule"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/coordinator/workspace/planner"
)

// TestClasses is the table of who goes first: what somebody waits for, then what ends a
// container, then archives; and volumes are removed beside the others.
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
		turns, r := l.turn(c.action, c.w, time.Time{})
		if r.Class != c.class || (turns == &l.removals) != c.removals {
			t.Errorf("%s, to be %s: class %d, among removals %v", c.action, c.w.Wanted(), r.Class, turns == &l.removals)
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
		if r := jobRequest(&candidate{row: c.w, decision: planner.Decision{Job: c.job}}, time.Time{}); r.Class != c.class {
			t.Errorf("%s during %s, to be %s: class %d", c.job, c.op, c.w.Wanted(), r.Class)
		}
	}
}
