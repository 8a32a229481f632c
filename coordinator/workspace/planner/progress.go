package planner

import (
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
)

// progressAfter is how old an operation must be for its progress to be saved. Most have ended by then.
const progressAfter = time.Second

// progress returns the progress to save. Progress of another operation or attempt, or of an operation that has just
// begun, is not saved.
func (p *planner) progress() *workspace.JobProgress {
	n, was, newest := &p.next, &p.was, p.o.Progress
	switch {
	case n.Operation == workspace.OpNone || n.Operation != was.Operation || !n.OpStartedAt.Equal(was.OpStartedAt):
		return nil
	case p.o.Knows(workspace.SensorJobs) && len(p.o.Jobs) == 0:
		return nil
	case newest == nil || p.now.Sub(n.OpStartedAt) < progressAfter || !newest.Due(was.Progress, p.policy.ProgressEvery):
		return was.Progress
	}
	return newest
}
