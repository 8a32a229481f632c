package planner

import (
	"cmp"
	"fmt"

	"github.com/codehub/gateway/coordinator/workspace"
)

// expectedKey is the archive key that belongs to the archive operation's id.
func (p *planner) expectedKey() string { return p.next.ID.ArchiveKey(p.next.ArchiveOpID) }

// archive follows the order of SPEC 1, contract 8: upload, save the key, delete the volume.
func (p *planner) archive() Action {
	n := &p.next
	if p.o.Container != nil && p.o.Volume != nil {
		// No part of this program starts a container during this operation. This container may have written to the
		// volume, so any archive made meanwhile is outdated: stop the container and start again.
		n.HomeCtx.Dirty = true
		return p.done()
	}
	if p.o.Container != nil {
		return p.deleteContainer()
	}
	if n.ArchiveKey == p.expectedKey() {
		return p.dropArchived()
	}
	job := p.job(workspace.JobArchive, n.ArchiveOpID)
	switch {
	case p.o.Volume == nil && p.o.Upload == workspace.Present:
		return p.saveKey()
	case p.o.Volume == nil && (p.o.Upload == workspace.Unknown || n.ArchiveKey != "" && !n.HomeCtx.Dirty &&
		p.o.Archive == workspace.Unknown):
		return ActNothing
	case p.o.Volume == nil:
		// Either the previous archive has the content or the workspace is deleted; any other case was found to be
		// DataLost before.
		n.ArchiveOpID = ""
		return p.done()
	case job == nil:
		return p.startArchive()
	case job.State == workspace.JobRunning:
		return p.jobRuns(job)
	case job.State == workspace.JobFailed:
		return p.jobFailed(job)
	case job.Unchanged:
		return p.unchanged(job)
	case p.o.Upload == workspace.Unknown || p.backingOff:
		return ActNothing
	case p.o.Upload == workspace.Absent:
		return p.fail(workspace.ReasonActionFailed, "the archive job reported success, but its archive is not in the "+
			"object store")
	case job.Size != p.o.UploadSize:
		return p.fail(workspace.ReasonArchiveCorrupted, p.sizeDiffers(job))
	}
	return p.saveKey()
}

// startArchive starts the job. If another job may have been started before, this job gets a new id: under the old id
// there may be a complete upload that is older than the volume.
func (p *planner) startArchive() Action {
	if len(p.o.Jobs) > 0 {
		return p.act(ActDeleteJobs) // jobs of other operations would use the volume, too
	}
	if p.o.Pull != nil {
		return p.pulling()
	}
	a := p.startJob(workspace.JobArchive, ActStartArchive)
	if a != ActNothing && p.was.Operation == workspace.OpArchiving {
		p.next.ArchiveOpID = p.policy.NewOpID()
	}
	return a
}

// saveKey makes the upload the workspace's archive. The marker changes together with the key: while the archived volume
// still exists, its content is that of the new archive (SPEC 12.1).
func (p *planner) saveKey() Action {
	n := &p.next
	n.ArchiveKey = p.expectedKey()
	n.HomeCtx.HoldContent(n.ArchiveKey, false)
	n.HomeCtx.Newest, n.HomeCtx.Replaced = "", ""
	p.archived = &workspace.ArchiveRecord{Size: p.o.UploadSize, SHA256: p.o.UploadSHA256}
	job := p.job(workspace.JobArchive, n.ArchiveOpID)
	if job != nil && job.State == workspace.JobSucceeded {
		p.archived = recordOf(job)
		p.archived.Verified = job.Verified
	}
	p.measured(job)
	p.remember(job)
	reason := "VolumeMissing"
	if p.o.Volume != nil {
		reason = "VolumePresent"
	}
	p.set(workspace.ArchiveReady, true, "ArchivePresent", "")
	p.set(workspace.VolumeReady, p.o.Volume != nil, reason, "")
	// The volume is deleted only after this is saved and the archive was observed again.
	return ActNothing
}

// measured takes the size of the home from the job that has archived it. A job that found its work already done has not
// read the home. In that case an earlier measurement is kept only if it was made after the workspace fell asleep.
func (p *planner) measured(job *workspace.Job) {
	n := &p.next
	switch {
	case job != nil && (job.Content > 0 || job.Files > 0):
		n.Home = workspace.HomeSize{Bytes: job.Content, Files: job.Files, MeasuredAt: p.now}
	case n.Home.MeasuredAt.Before(p.was.PhaseChangedAt):
		n.Home = workspace.HomeSize{}
	}
}

// dropArchived deletes the volume once its archive is saved and was observed again. The job proves that this archive
// has this volume's content: the volume cannot be used before the job is removed. So without the job the volume is
// archived again.
func (p *planner) dropArchived() Action {
	n := &p.next
	job := p.job(workspace.JobArchive, n.ArchiveOpID)
	switch {
	case p.o.Archive == workspace.Unknown:
		return ActNothing
	case p.o.Volume == nil:
		// Either the archive exists or the workspace is deleted; any other case was found to be DataLost before.
		n.ArchiveOpID = ""
		return p.done()
	case job == nil:
		n.HomeCtx.Dirty = true
		return p.startArchive()
	case job.State != workspace.JobSucceeded:
		return p.jobFailed(job)
	case p.o.Archive == workspace.Absent:
		return p.fail(workspace.ReasonActionFailed, "the archive disappeared from the object store before its "+
			"volume was deleted")
	case job.Size != p.o.UploadSize:
		return p.fail(workspace.ReasonArchiveCorrupted, p.sizeDiffers(job))
	case n.ArchiveDamage != "" || n.ArchiveSuspected:
		return p.fail(workspace.ReasonActionFailed, "the archive was found damaged before its volume was deleted: "+
			cmp.Or(n.ArchiveDamage, "the scrub has seen it once, and has not looked again yet"))
	}
	return p.act(ActDropArchivedVolume)
}

// sizeDiffers is the message about an archive whose size differs from that reported by its job.
func (p *planner) sizeDiffers(job *workspace.Job) string {
	return fmt.Sprintf("the archive has %d bytes in the object store, but its job wrote %d", p.o.UploadSize, job.Size)
}

// createEmptyArchive creates an archive without files. It is not needed if a volume turns out to exist.
func (p *planner) createEmptyArchive() Action {
	n := &p.next
	switch {
	case p.o.Volume != nil:
		n.ArchiveOpID = ""
		return p.done()
	case n.ArchiveKey != p.expectedKey() && p.o.Upload != workspace.Present:
		return p.act(ActCreateEmptyArchive)
	}
	n.ArchiveKey = p.expectedKey()
	if p.o.Upload == workspace.Present {
		p.archived = &workspace.ArchiveRecord{Size: p.o.UploadSize, SHA256: p.o.UploadSHA256}
	}
	p.newContent()
	n.Home.MeasuredAt = p.now // it is empty
	n.HomeCtx.VolumeOpID, n.HomeCtx.Newest, n.HomeCtx.Replaced = "", "", ""
	p.set(workspace.ArchiveReady, true, "ArchivePresent", "")
	n.ArchiveOpID = ""
	return p.done()
}
