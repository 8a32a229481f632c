package planner

import (
	"fmt"
	"slices"
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
)

// proceed continues the operation in progress, if there is one.
func (p *planner) proceed() (Action, bool) {
	if p.next.Operation == workspace.OpNone {
		return ActNothing, false
	}
	return p.continueOperation(), true
}

// continueOperation completes the operation in progress, ends it when its time is over, or returns the actuator
// to call again.
func (p *planner) continueOperation() Action {
	n := &p.next
	op := n.Operation
	usesStore := operations[op].usesStore
	if p.foreign != "" && usesStore {
		return p.giveWay(p.kept(), p.foreign)
	}
	if usesStore && p.storeDown() {
		if op == workspace.OpArchiving && !n.Conditions.True(workspace.VolumeReady) {
			return p.waitStore() // only the store knows whether the upload is complete
		}
		return p.giveWay(waitForStore[p.o.Store.State], p.o.Store.Message)
	}
	if a, doubted := p.doubt(); doubted {
		return a
	}
	action := p.advance()
	if n.Operation == op && p.cancelled(action) {
		return p.cancel()
	}
	if n.Operation != op || p.o.Pull != nil {
		return action // a pull has a limit of its own
	}
	if p.waiting == nil && (p.backingOff || action != ActNothing) {
		p.keepPending()
	}
	switch {
	case p.waiting.Unlimited() && p.outlasted():
		waited := *p.waiting
		a := p.giveWay(waited.Reason, waited.Message)
		p.waiting.Cause, p.waiting.Image = waited.Cause, waited.Image
		if len(p.o.Jobs) > 0 {
			return a
		}
		return ActNothing // the started container comes up by itself
	case p.waiting.Unlimited():
		return action
	}
	p.resume()
	limit, late := p.late()
	if !late {
		return action
	}
	message := fmt.Sprintf("%s took longer than %s", op, limit)
	if p.waiting != nil {
		message += "; it was waiting because " + p.waiting.Message
		p.waiting = nil
	}
	if n.ErrorMessage != "" {
		message += "; last failure: " + n.ErrorMessage
	}
	n.ErrorCount = p.was.ErrorCount // a failure found by this step is part of the timeout
	return p.fail(workspace.ReasonTimeout, message)
}

// late reports whether the operation has made no progress for its limit, or has reached the overall limit, and
// returns the exceeded limit. Both count from the end of the last unlimited wait.
func (p *planner) late() (time.Duration, bool) {
	n := &p.next
	began := n.LimitsBegin()
	since := began
	if p.o.ProgressAt.After(since) {
		since = p.o.ProgressAt
	}
	limit := p.policy.Timeouts[n.Operation]
	if limit > 0 && p.now.Sub(since) > limit {
		return limit, true
	}
	return OperationLimit, p.now.Sub(began) > OperationLimit
}

// advance returns the next action of the operation in progress, or completes it.
func (p *planner) advance() Action {
	switch p.next.Operation {
	case workspace.OpCreateEmptyArchive:
		return p.createEmptyArchive()
	case workspace.OpProvisioning:
		if p.next.Conditions.True(workspace.VolumeReady) {
			return p.done()
		}
		return p.act(ActProvision)
	case workspace.OpRestoring:
		return p.restore()
	case workspace.OpStarting:
		return p.start()
	case workspace.OpStopping:
		if p.o.Container == nil {
			p.next.HomeCtx.Crashes = 0
			return p.done()
		}
		return p.deleteContainer()
	case workspace.OpArchiving:
		return p.archive()
	case workspace.OpDeleting:
		return p.remove()
	}
	return ActNothing
}

// done completes the operation (SPEC 3), and removes the remaining jobs or leaves them to the next operation.
func (p *planner) done() Action {
	n := &p.next
	n.Operation, n.OpStartedAt = workspace.OpNone, time.Time{}
	n.HomeCtx.Deferred, n.HomeCtx.Unread = 0, 0
	p.clearError()
	n.Phase = p.judgedPhase()
	if len(p.o.Jobs) > 0 && !p.startsBesideJobs() {
		return ActDeleteJobs
	}
	return ActNothing
}

// startsBesideJobs reports whether the next operation starts the container and the only jobs left are successful
// restores.
func (p *planner) startsBesideJobs() bool {
	n := &p.next
	return !n.Deleted() && nextOperations[p.orderedPhase()][n.Wanted()] == workspace.OpStarting && p.restored()
}

// restored reports whether the workspace has no jobs other than successful restores. Such a job never runs again and
// does not use the volume: it is removed when the container runs, and no start waits for that. A job that has archived
// the volume is removed before anything writes there: see [planner.dropArchived].
func (p *planner) restored() bool {
	return !slices.ContainsFunc(p.o.Jobs, func(j workspace.Job) bool {
		return j.Kind != workspace.JobRestore || j.State != workspace.JobSucceeded
	})
}

// remove deletes the container, and then the volume if that is allowed.
func (p *planner) remove() Action {
	switch {
	case p.o.Container != nil:
		return p.deleteContainer()
	case p.o.Volume == nil, !p.o.Witnessed && p.stepsDown():
		return p.done()
	case p.mayDeleteVolume():
		return p.act(ActDeleteVolume)
	case p.next.ArchiveKey != "" && p.o.Archive == workspace.Unknown:
		return ActNothing
	}
	return p.done() // the archive that would replace the volume is gone, so the volume stays
}

// start brings the container up. It completes when the container is ready for traffic.
func (p *planner) start() Action {
	k := p.o.Container
	retries := p.retriesPull()
	if p.was.Waiting != nil && p.waited() == nil {
		p.next.HomeCtx.Deferred = 0 // it waited for another image
	}
	switch {
	case p.next.Conditions.True(workspace.ContainerReady):
		return p.done()
	case p.o.Pull != nil:
		return p.pulling()
	case retries:
		return ActDeleteContainer
	case k != nil && k.Running && k.Pending != nil && k.Pending.Outdated:
		p.pends(k.Pending)
		return p.act(ActStart) // regardless of the obstacle, the next one is created anew
	case k != nil && k.Running && k.Pending != nil && k.Pending.Failure == "":
		p.pends(k.Pending)
		return ActNothing
	case p.backingOff:
		return ActNothing
	case k != nil && k.Running && k.Pending != nil:
		if p.was.Operation == workspace.OpStarting {
			p.fail(k.Pending.Failure, k.Pending.Message)
		}
		// It never ran. The next attempt creates another container: the cause may be repaired by then, and this
		// container would not notice.
		return ActDeleteContainer
	case k != nil && k.Disrupted && p.was.Operation == workspace.OpStarting && p.exited(k):
		return p.evicted(k)
	case k != nil && !k.Disrupted && p.exited(k):
		// It was started by this operation and has exited already. It is removed: otherwise the next attempt would
		// mistake it for its own container. After the last attempt it stays, so that its output can be read.
		p.fail(workspace.ReasonActionFailed, "the container exited right after it started, with exit "+howEnded(k))
		if p.next.Operation == workspace.OpNone {
			return ActNothing
		}
		return ActDeleteContainer
	case k != nil && k.Running && k.StartAgain:
		return ActStart
	case k != nil && k.Running:
		return ActNothing // its health check has not passed yet
	case !p.restored():
		return ActDeleteJobs // they belong to no operation of this row
	}
	return ActStart
}

// exited reports whether a container has ended since the operation began. Times of the engine's clock are
// compared only with each other.
func (p *planner) exited(k *workspace.Container) bool {
	return !k.Running && !k.FinishedAt.IsZero() && !k.FinishedAt.Equal(p.next.HomeCtx.Exited)
}

// pulling waits for an image that the operation needs: the workspace's or the jobs'.
func (p *planner) pulling() Action {
	was, pull := p.waited(), p.o.Pull
	switch {
	case pull.Failure != "" && pull.Jobs:
		return p.waitFor(workspace.WaitJobImage, pull.Failure)
	case pull.Cause != "":
		return p.pullLater(pull)
	case pull.Failure != "":
		return p.fail(workspace.ReasonImagePullFailed, pull.Failure)
	case pull.Jobs && was != nil && was.Reason == workspace.WaitJobImage:
		p.keepWaiting() // another attempt, which may end like the previous one
	case was.FailedPull() && pull.Done == 0:
		p.keepWaiting() // it may end like the previous one, too
	default:
		p.wait(workspace.WaitPullingImage, pullMessage(*pull))
		p.waiting.Done, p.waiting.Total = pull.Done, pull.Total
		if was != nil {
			p.waiting.Tries, p.waiting.Image = was.Tries, was.Image
		}
	}
	return ActNothing
}

// pullLater pulls the image again after a pause, because the cause of the failure may pass.
func (p *planner) pullLater(pull *workspace.Pull) Action {
	p.wait(workspace.WaitPullingImage, pull.Failure)
	p.waiting.Cause, p.waiting.Tries, p.waiting.Image = pull.Cause, 1, p.o.Image
	if was := p.waited(); was != nil {
		p.waiting.Tries += was.Tries
	}
	p.retryLater()
	return ActNothing
}

// waitFor waits for something that the administrator must provide. A workspace that is only being put away can
// be opened meanwhile.
func (p *planner) waitFor(reason, message string) Action {
	if p.givesWay(workspace.ReasonActionFailed) {
		return p.giveWay(reason, message)
	}
	p.wait(reason, message)
	p.retryLater()
	return ActNothing
}

// restore makes the volume equal to the archive (SPEC 3). It completes when the job of this operation has
// succeeded.
func (p *planner) restore() Action {
	n := &p.next
	if p.o.Container != nil {
		return p.deleteContainer() // it holds the volume (SPEC 12.4)
	}
	if v := p.o.Volume; v == nil {
		a := p.act(ActProvision)
		if a == ActProvision {
			n.HomeCtx.RestoreVolumeAt = p.now
		}
		return a
	} else if n.HomeCtx.StaleVolumeOpID != "" && v.OpID == n.HomeCtx.StaleVolumeOpID {
		if p.o.Archive != workspace.Present {
			return ActNothing
		}
		return p.act(ActDropStaleVolume)
	}
	job := p.job(workspace.JobRestore, n.HomeCtx.RestoreOpID)
	switch {
	case job == nil && len(p.o.Jobs) > 0:
		return p.act(ActDeleteJobs)
	case job == nil && p.o.Pull != nil:
		return p.pulling()
	case job == nil:
		return p.startJob(workspace.JobRestore, ActStartRestore)
	case job.State == workspace.JobRunning:
		return p.jobRuns(job)
	case job.State == workspace.JobFailed:
		return p.jobFailed(job)
	}
	p.newContent()
	if job.Files > 0 { // otherwise the home is empty, or an earlier run has restored it
		n.Home = workspace.HomeSize{Bytes: job.Content, Files: job.Files, MeasuredAt: p.now}
	}
	n.HomeCtx.HoldContent(n.ArchiveKey, false)
	p.remember(job)
	p.archived = recordOf(job)
	p.archived.Verified = job.Files > 0 // the whole archive was read, before the volume was changed and during the restore
	p.set(workspace.VolumeReady, true, "VolumePresent", "")
	return p.done()
}

// newContent forgets the records about the workspace's former content.
func (p *planner) newContent() {
	h := &p.next.HomeCtx
	h.ForgetContent()
	h.RestoreRecord = workspace.RestoreRecord{}
	h.Dirty, h.Crashes = false, 0
	p.next.Home = workspace.HomeSize{}
}

// jobFailed counts the failure of a storage job once. Until the retry is due, it only removes the job.
func (p *planner) jobFailed(job *workspace.Job) Action {
	if p.backingOff {
		return ActDeleteJobs // the failure is counted already; the job blocks the retry
	}
	message, reason := fmt.Sprintf("the %s job failed: %s", job.Kind, job.Message), job.Reason
	switch {
	case job.Reason == workspace.ReasonUnreachable:
		return p.giveWay(workspace.WaitStoreAway, message) // a job depends on the object store only
	case job.ResultLost:
		return p.resultLost(message)
	case job.Disrupted:
		return p.giveWay(workspace.WaitEvicted, message) // and runs again
	case job.Locked:
		return p.giveWay(workspace.WaitArchiveLocked, message) // the archive is intact, and a setting opens it
	case job.Unfit, job.Reason == workspace.ReasonImagePullFailed:
		return p.giveWay(workspace.WaitJobImage, message) // the job's image, which is not the workspace's
	case job.Reason == workspace.ReasonDataLost && job.Kind == workspace.JobRestore && p.o.Archive == workspace.Unknown:
		return ActNothing
	case job.Reason == workspace.ReasonDataLost:
		reason = workspace.ReasonActionFailed // a missing archive would have been found before
	}
	a := p.fail(reason, message)
	if p.waiting != nil {
		p.waiting.Subject = job.Changed
	}
	if reason == workspace.ReasonConflict {
		h := &p.next.HomeCtx
		h.ForeignVolumeOpID, h.VolumeOpID = h.VolumeOpID, "" // the owner of the files is unknown until a choice is made
	}
	if p.next.Operation == workspace.OpRestoring {
		p.beginRestore() // the next attempt gets a volume of its own
	}
	return a
}

// job returns the storage job of that operation, or nil. Jobs of other operations do not count.
func (p *planner) job(kind workspace.JobKind, opID string) *workspace.Job {
	for i := range p.o.Jobs {
		if j := &p.o.Jobs[i]; j.Kind == kind && j.OpID == opID {
			return j
		}
	}
	return nil
}
