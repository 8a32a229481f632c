package reconcile

import (
	"context"
	"time"

	"github.com/codehub/gateway/coordinator/control/reconcile/internal/schedule"
	"github.com/codehub/gateway/coordinator/guard"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/coordinator/workspace/planner"
)

// queueJobs requests places for the storage jobs that the decisions begin, and decides again for those without
// a place. Each time it asks the backend which jobs run, for all shards and processes, so that the number is also right
// under the next leader. It adds to the plans.
func (l *loop) queueJobs(ctx context.Context, ready []candidate, plans *[]plan) {
	var asking []schedule.JobRequest
	at := l.clock.Now()
	for i := range ready {
		switch c := &ready[i]; {
		case c.decision.Job != "":
			if id := c.row.ID; !l.jobs.Holds(id) {
				asking = append(asking, schedule.JobRequest{
					ID: id, Request: jobRequest(c), Again: func() { l.queue.Add(id) },
				})
			}
		case schedule.Running(c.observation.Jobs) != nil:
			l.jobs.Hold(c.row.ID, jobRequest(c))
		case !keepsPlace(c):
			l.jobs.Leave(c.row.ID)
		}
	}
	if len(asking) == 0 {
		return
	}
	bounded, cancel := context.WithTimeout(ctx, observeTimeout)
	defer cancel()
	var listed map[workspace.ID][]workspace.Job
	err := guard.Call(guard.Task, func() (err error) { listed, err = l.backend.Jobs(bounded); return err })
	if err != nil {
		listed = nil // the sensor says so
	}
	queued := l.jobs.Ask(at, l.share(), listed, asking...)
	for i := range ready {
		c := &ready[i]
		if before, waits := queued[c.row.ID]; waits {
			c.observation.Queued = &workspace.Queued{Before: before}
			l.isolate(c.row, plans, c.reconcile)
		}
	}
}

// keepsPlace reports whether the workspace keeps a place that it was given. It keeps the place until its job begins. It
// does not keep it after the job's end, nor while it waits for something else.
func keepsPlace(c *candidate) bool {
	next := c.decision.Next
	underway := next.Operation == workspace.OpArchiving || next.Operation == workspace.OpRestoring
	pulls := c.observation.Pull != nil && c.observation.Pull.Failure == ""
	return underway && len(c.observation.Jobs) == 0 && !c.backingOff && (next.Waiting == nil || pulls)
}

// queued reports whether the workspace waits for a place for its storage job.
func queued(w workspace.Workspace) bool {
	return w.Waiting != nil && w.Waiting.Reason == workspace.WaitJobQueue
}

// share is this process's part of the workspaces.
func (c *Controller) share() schedule.Share {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := schedule.Share{Own: len(c.loops), All: 1}
	for l := range c.loops {
		s.All = max(s.All, l.term.Shards)
	}
	return s
}

// jobClasses is the priority of the storage job of each operation. Jobs that people wait for come first. The entry of
// OpNone is for an operation that is about to begin. A workspace whose operation has begun cannot be opened.
var jobClasses = map[workspace.Operation]schedule.Class{
	workspace.OpRestoring: schedule.Interactive,
	workspace.OpArchiving: schedule.Normal,
	workspace.OpNone:      schedule.Background,
}

// jobRequest returns the workspace's request for a place.
func jobRequest(c *candidate) schedule.Request {
	w := c.row
	class := jobClasses[w.Operation]
	if c.decision.Job == workspace.JobRestore || isAwaited(w) {
		class = schedule.Interactive
	}
	since := c.at // as the row will say
	if queued(w) {
		since = w.Waiting.Since
	}
	return schedule.Request{Owner: w.OwnerID, Class: class, Since: since}
}

// isAwaited reports whether a person waits for the current work on the workspace, because it should run or go back to
// an older archive.
func isAwaited(w workspace.Workspace) bool {
	return !w.Deleted() && w.DesiredState == workspace.DesiredRunning || w.Reverting()
}

// actionClasses is the priority of actuator calls. All calls for a workspace for which a person waits have the highest
// priority instead, except freezing.
var actionClasses = map[planner.Action]schedule.Class{
	planner.ActProvision:          schedule.Interactive, // of one that was just created, or is opened
	planner.ActStart:              schedule.Interactive,
	planner.ActStartRestore:       schedule.Interactive,
	planner.ActThaw:               schedule.Interactive,
	planner.ActDeleteContainer:    schedule.Normal, // it frees memory and a place under the limits
	planner.ActFreeze:             schedule.Background,
	planner.ActStartArchive:       schedule.Background,
	planner.ActCreateEmptyArchive: schedule.Background,
	planner.ActDeleteJobs:         schedule.Background,
	planner.ActDropArchivedVolume: schedule.Cleanup,
	planner.ActDropStaleVolume:    schedule.Cleanup,
	planner.ActDeleteVolume:       schedule.Cleanup,
}

// maxRemovals is how many volumes are removed concurrently. These calls do not count against the limit of the other
// calls. Docker's engine removes only one volume at a time in any case, and takes longer the more files it has. A
// cluster removes several concurrently.
const maxRemovals = 4

// executor returns the executor of a call for the workspace, and the request with which the call waits there.
func (l *loop) executor(a planner.Action, w workspace.Workspace, at time.Time) (*schedule.Executor, schedule.Request) {
	class := actionClasses[a]
	executor := &l.calls
	if class == schedule.Cleanup {
		executor = &l.removals
	}
	if isAwaited(w) && a != planner.ActFreeze {
		class = schedule.Interactive
	}
	return executor, schedule.Request{Owner: w.OwnerID, Class: class, Since: at}
}
