package workspace

import (
	"fmt"
	"time"
)

// proceed continues the operation in progress: it completes it, ends it when its
// time is over, or returns the actuator to call again.
func (p *planner) proceed() Action {
	n := &p.next
	op := n.Operation
	action := p.step()
	if n.Operation != op {
		return action
	}
	limit := p.policy.Timeouts[op]
	if limit <= 0 || p.now.Sub(n.OpStartedAt) <= limit {
		return action
	}
	message := fmt.Sprintf("%s took longer than %s", op, limit)
	if n.ErrorMessage != "" {
		message += "; last failure: " + n.ErrorMessage
	}
	n.ErrorCount = p.was.ErrorCount // a failure that this step found is part of the timeout
	return p.fail(ReasonTimeout, message)
}

// step returns the next action of the operation in progress, or completes it.
func (p *planner) step() Action {
	switch p.next.Operation {
	case OpCreateEmptyArchive:
		return p.createEmptyArchive()
	case OpProvisioning:
		if p.next.Conditions.True(VolumeReady) {
			return p.done()
		}
		return p.act(ActProvision)
	case OpRestoring:
		return p.restore()
	case OpStarting:
		return p.start()
	case OpStopping:
		if p.o.Container == nil {
			p.next.HomeCtx.Crashes = 0
			return p.done()
		}
		return p.act(ActDeleteContainer)
	case OpArchiving:
		return p.archive()
	case OpDeleting:
		switch {
		case p.o.Container != nil:
			return p.act(ActDeleteContainer)
		case p.o.Volume:
			return p.act(ActDeleteVolume)
		}
		return p.done()
	}
	return ActNothing
}

// done completes the operation (SPEC 3) and removes the jobs that are left.
func (p *planner) done() Action {
	n := &p.next
	n.Operation, n.OpStartedAt = OpNone, time.Time{}
	n.ErrorCount, n.ErrorReason, n.ErrorMessage = 0, "", ""
	n.Phase = p.judgedPhase()
	if len(p.o.Jobs) > 0 {
		return ActDeleteJobs
	}
	return ActNothing
}

// start brings the container up. It completes when the container is ready for
// traffic.
func (p *planner) start() Action {
	k := p.o.Container
	switch {
	case p.next.Conditions.True(ContainerReady):
		return p.done()
	case p.backingOff:
		return ActNothing
	case k != nil && !k.Running && k.FinishedAt.After(p.was.OpStartedAt) && !p.was.OpStartedAt.IsZero():
		// It was started by this operation and has exited already. It is removed, or
		// the next attempt would take it for its own; the last one stays so that its
		// output can be read.
		p.fail(ReasonActionFailed, fmt.Sprintf("the container exited right after it started, with exit code %d", k.ExitCode))
		if p.next.Operation == OpNone {
			return ActNothing
		}
		return ActDeleteContainer
	case k != nil && k.Running:
		return ActNothing // its health check has not passed yet
	}
	return ActStart
}

// restore makes the volume equal to the archive (SPEC 3). It completes when the job
// of this operation has succeeded.
func (p *planner) restore() Action {
	n := &p.next
	if p.o.Container != nil {
		return p.act(ActDeleteContainer) // it holds the volume (SPEC 12.4)
	}
	if !p.o.Volume {
		return p.act(ActProvision)
	}
	job := p.job(JobRestore, n.HomeCtx.RestoreOpID)
	switch {
	case job == nil:
		return p.act(ActStartRestore)
	case job.State == JobRunning:
		return ActNothing
	case job.State == JobFailed:
		return p.jobFailed(job)
	}
	n.HomeCtx = HomeContext{RestoreMarker: n.ArchiveKey}
	n.Conditions = n.Conditions.with(VolumeReady, true, "VolumePresent", "", p.now)
	return p.done()
}

// expectedKey is the archive key that belongs to the archive operation's id.
func (p *planner) expectedKey() string { return p.next.ID.ArchiveKey(p.next.ArchiveOpID) }

// archive follows the order of SPEC 1, contract 8: upload, save the key, delete
// the volume.
func (p *planner) archive() Action {
	n := &p.next
	if p.o.Container != nil {
		return p.act(ActDeleteContainer)
	}
	if n.ArchiveKey == p.expectedKey() {
		return p.dropArchived()
	}
	job := p.job(JobArchive, n.ArchiveOpID)
	switch {
	case !p.o.Volume && p.o.Upload == Present:
		return p.saveKey()
	case !p.o.Volume && p.o.Upload == Unknown:
		return ActNothing
	case !p.o.Volume:
		// The workspace is deleted; otherwise this was DataLost before.
		n.ArchiveOpID = ""
		return p.done()
	case job == nil:
		return p.act(ActStartArchive)
	case job.State == JobRunning:
		return ActNothing
	case job.State == JobFailed:
		return p.jobFailed(job)
	case p.o.Upload == Unknown || p.backingOff:
		return ActNothing
	case p.o.Upload == Absent:
		return p.fail(ReasonActionFailed, "the archive job reported success, but its archive is not in the object store")
	case job.Size != p.o.UploadSize:
		return p.fail(ReasonArchiveCorrupted, p.sizeDiffers(job))
	}
	return p.saveKey()
}

// saveKey makes the upload the workspace's archive. The marker moves with the key:
// for as long as the archived volume still exists, it is the content of the new
// key (SPEC 12.1).
func (p *planner) saveKey() Action {
	n := &p.next
	n.ArchiveKey = p.expectedKey()
	n.HomeCtx.RestoreMarker = n.ArchiveKey
	n.HomeCtx.Dirty = false
	reason := "VolumeMissing"
	if p.o.Volume {
		reason = "VolumePresent"
	}
	n.Conditions = n.Conditions.with(ArchiveReady, true, "ArchivePresent", "", p.now).
		with(VolumeReady, p.o.Volume, reason, "", p.now)
	// The volume is deleted only after this is saved and the archive was observed again.
	return ActNothing
}

// dropArchived deletes the volume once its archive is saved and was observed again.
func (p *planner) dropArchived() Action {
	n := &p.next
	job := p.job(JobArchive, n.ArchiveOpID)
	switch {
	case p.o.Archive == Unknown:
		return ActNothing
	case !p.o.Volume:
		// The archive exists, or the workspace is deleted; otherwise this was DataLost
		// before.
		n.ArchiveOpID = ""
		return p.done()
	case p.o.Archive == Present && job != nil && job.State == JobSucceeded && job.Size != p.o.UploadSize:
		return p.fail(ReasonArchiveCorrupted, p.sizeDiffers(job))
	case p.o.Archive == Present:
		return p.act(ActDropArchivedVolume)
	case job != nil && job.State != JobRunning:
		// The archive disappeared while the volume still exists: archive it again.
		return p.fail(ReasonActionFailed, "the archive disappeared from the object store before its volume was deleted")
	case job == nil:
		return p.act(ActStartArchive)
	}
	return ActNothing
}

// sizeDiffers is the message about an archive of another size than its job has
// written.
func (p *planner) sizeDiffers(job *Job) string {
	return fmt.Sprintf("the archive has %d bytes in the object store, but its job wrote %d", p.o.UploadSize, job.Size)
}

func (p *planner) createEmptyArchive() Action {
	n := &p.next
	if n.ArchiveKey != p.expectedKey() && p.o.Upload != Present {
		return p.act(ActCreateEmptyArchive)
	}
	n.ArchiveKey = p.expectedKey()
	n.HomeCtx = HomeContext{}
	if p.o.Volume { // without a volume there is no marker: see clearMarker
		n.HomeCtx.RestoreMarker = n.ArchiveKey
	}
	n.Conditions = n.Conditions.with(ArchiveReady, true, "ArchivePresent", "", p.now)
	n.ArchiveOpID = ""
	return p.done()
}

// jobFailed counts the failure of a storage job once. Until the retry is due, it only
// removes the job.
func (p *planner) jobFailed(job *Job) Action {
	if p.backingOff {
		return ActDeleteJobs // the failure is counted already; the job blocks the retry
	}
	return p.fail(job.Reason, fmt.Sprintf("the %s job failed: %s", job.Kind, job.Message))
}

// job returns the storage job of that operation, or nil. Jobs of other operations do
// not count.
func (p *planner) job(kind JobKind, opID string) *Job {
	for i := range p.o.Jobs {
		if j := &p.o.Jobs[i]; j.Kind == kind && j.OpID == opID {
			return j
		}
	}
	return nil
}
