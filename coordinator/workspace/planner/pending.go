package planner

import (
	"fmt"
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
)

// pendingAfter is how old an operation is before it says what the backend waits for: what
// passes sooner is how every start goes, and would cost a save.
const pendingAfter = 5 * time.Second

// workingLimit is how long an operation may take at least while the backend is at work on
// it and says no progress, such as when a node fetches a large image.
const workingLimit = 30 * time.Minute

// pendingReasons are the waits that only a backend knows of, beside the pulls of images that get on.
var pendingReasons = map[string]bool{
	workspace.WaitUnschedulable: true, workspace.WaitVolume: true, workspace.WaitQuota: true, workspace.WaitNodeLost: true, workspace.WaitTerminating: true, workspace.WaitContainer: true,
	workspace.WaitJobImage: true, workspace.WaitEgressRules: true,
}

// whyNotReady is the backend's word for why a running container is not ready, or else
// otherwise.
func whyNotReady(k *workspace.Container, otherwise string) string {
	if k.Pending != nil {
		return k.Pending.Message
	}
	return otherwise
}

// howEnded is how a container that does not run has ended, in a few words.
func howEnded(k *workspace.Container) string {
	if k.Cause == "" {
		return fmt.Sprintf("code %d", k.ExitCode)
	}
	return fmt.Sprintf("code %d: %s", k.ExitCode, k.Cause)
}

// pends waits for what the backend waits for.
func (p *planner) pends(w *workspace.Pending) {
	p.working = w.Working
	was := p.was.Waiting
	if p.now.Sub(p.next.OpStartedAt) >= pendingAfter || was != nil && was.Reason == w.Reason {
		p.wait(w.Reason, w.Message)
	}
}

// keepPending keeps what an actuator of this operation has waited for, until it is known how
// the next attempt goes.
func (p *planner) keepPending() {
	if w := p.was.Waiting; w != nil && p.was.Operation == p.next.Operation && pendingReasons[w.Reason] {
		p.waiting = w
	}
}

// deleteContainer removes the container, and says why it does not go.
func (p *planner) deleteContainer() Action {
	if w := p.o.Container.Pending; w != nil && (w.Reason == workspace.WaitTerminating || w.Reason == workspace.WaitNodeLost) {
		p.pends(w)
	}
	return p.act(ActDeleteContainer)
}

// jobRuns waits for a job, and for what keeps it. What does not pass by itself is the job's
// failure.
func (p *planner) jobRuns(job *workspace.Job) Action {
	switch w := job.Pending; {
	case w == nil:
	case w.Failure != "":
		failed := *job
		failed.State, failed.Reason, failed.Message = workspace.JobFailed, w.Failure, w.Message
		return p.jobFailed(&failed)
	default:
		p.pends(w)
	}
	return ActNothing
}
