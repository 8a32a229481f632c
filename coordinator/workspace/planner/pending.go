package planner

import (
	"fmt"
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
)

// pendingAfter is how old an operation must be to show what the backend waits for. Shorter waits are part of every
// start, and saving each of them would cost a write.
const pendingAfter = 5 * time.Second

// pendingReasons are the waits that only a backend knows of, besides the pulls in progress.
var pendingReasons = map[string]bool{
	workspace.WaitUnschedulable: true, workspace.WaitVolume: true, workspace.WaitQuota: true,
	workspace.WaitNodeLost: true, workspace.WaitTerminating: true, workspace.WaitContainer: true,
	workspace.WaitEvicted: true, workspace.WaitJobImage: true, workspace.WaitEgressRules: true,
}

// sharedWaits are the waits for shared resources, during which an operation that yields is postponed. An operation is
// not postponed while it waits for a machine that may still write, or for an administrator.
var sharedWaits = map[string]bool{
	workspace.WaitUnschedulable: true, workspace.WaitVolume: true, workspace.WaitQuota: true,
	workspace.WaitPullingImage: true, workspace.WaitEvicted: true, workspace.WaitBackendAway: true,
}

// outlasted reports whether the operation has waited beyond its limit for resources from outside and must be
// postponed.
func (p *planner) outlasted() bool {
	n, w := &p.next, p.waiting
	if !operations[n.Operation].yields || p.o.Pull != nil || !sharedWaits[w.Reason] {
		return false
	}
	since := w.Since
	if n.OpStartedAt.After(since) {
		since = n.OpStartedAt
	}
	limit := p.policy.Timeouts[n.Operation]
	return limit > 0 && p.now.Sub(since) > limit
}

// startWaits reports whether the container was started and waits for resources from outside. Then the only thing left
// to do is to wait, and no operation prevents a change of the desired state.
func (p *planner) startWaits(op workspace.Operation) bool {
	k := p.o.Container
	if op != workspace.OpStarting || k == nil || !k.Running || k.Pending == nil || k.Pending.Failure != "" ||
		k.Pending.Outdated {
		return false
	}
	p.waitAs(k.Pending)
	return p.waiting.Unlimited()
}

// evicted restarts a container that was ended from outside after this operation started it.
func (p *planner) evicted(k *workspace.Container) Action {
	p.wait(workspace.WaitEvicted, "others have ended its container, and it is started again: exit "+howEnded(k))
	p.retryLater() // it may happen again
	return ActStart
}

// whyNotReady returns the backend's reason why a running container is not ready. If the backend gives none, it returns
// the argument otherwise.
func whyNotReady(k *workspace.Container, otherwise string) string {
	if k.Pending != nil {
		return k.Pending.Message
	}
	return otherwise
}

// howEnded describes in a few words how a container has ended.
func howEnded(k *workspace.Container) string {
	if k.Cause == "" {
		return fmt.Sprintf("code %d", k.ExitCode)
	}
	return fmt.Sprintf("code %d: %s", k.ExitCode, k.Cause)
}

// pends adopts the backend's wait.
func (p *planner) pends(w *workspace.Pending) {
	was := p.was.Waiting
	if p.now.Sub(p.next.OpStartedAt) >= pendingAfter || was != nil && was.Reason == w.Reason {
		p.waitAs(w)
	}
}

// waitAs waits for the backend's reason, with its message.
func (p *planner) waitAs(w *workspace.Pending) {
	p.wait(w.Reason, w.Message)
	p.waiting.Cause = w.Cause
}

// keepPending keeps showing the wait that an actuator of this operation has reported, until the next attempt has a
// result.
func (p *planner) keepPending() {
	if w := p.waited(); w != nil && p.was.Operation == p.next.Operation && (pendingReasons[w.Reason] || w.FailedPull()) {
		p.waiting = w
	}
}

// deleteContainer removes the container, and explains why it is not removed yet.
func (p *planner) deleteContainer() Action {
	if w := p.o.Container.Pending; w != nil &&
		(w.Reason == workspace.WaitTerminating || w.Reason == workspace.WaitNodeLost) {
		p.pends(w)
	}
	return p.act(ActDeleteContainer)
}

// jobRuns waits for a job, and for its obstacle. An obstacle that does not pass by itself is the job's failure.
func (p *planner) jobRuns(job *workspace.Job) Action {
	switch w := job.Pending; {
	case w == nil:
	case w.Outdated:
		p.pends(w)
		return p.act(ActDeleteJobs) // it has done nothing yet, and the next one gets the present settings
	case w.Failure != "":
		failed := *job
		failed.State, failed.Reason, failed.Message = workspace.JobFailed, w.Failure, w.Message
		return p.jobFailed(&failed)
	default:
		p.pends(w)
	}
	return ActNothing
}
