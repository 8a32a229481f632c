package planner

import "github.com/codehub/gateway/coordinator/workspace"

// recordOf returns the record of the archive that a job has made or read, as the job reported it.
func recordOf(j *workspace.Job) *workspace.ArchiveRecord {
	return &workspace.ArchiveRecord{Size: j.Size, Content: j.Content, Files: j.Files, SHA256: j.SHA256}
}

// remember records that the volume and the current archive have the same content now.
func (p *planner) remember(job *workspace.Job) {
	n := &p.next
	n.HomeCtx.Fingerprint = workspace.Fingerprint{}
	if job != nil && job.Fingerprint != "" && p.o.Volume != nil && p.o.Volume.OpID != "" {
		n.HomeCtx.Fingerprint = workspace.Fingerprint{
			Value: job.Fingerprint, VolumeOpID: p.o.Volume.OpID, ArchiveKey: n.ArchiveKey, Size: job.Size,
			SHA256: job.SHA256,
		}
	}
}

// unchanged decides what to do after an archive job has found the home still in the state that the job was given. The
// current archive stays current, and the volume is deleted. That requires that the state belongs to this volume and to
// this archive, and that the store has this archive unchanged. When in doubt, the home is archived.
func (p *planner) unchanged(job *workspace.Job) Action {
	n, f := &p.next, p.next.HomeCtx.Fingerprint
	switch {
	case f == (workspace.Fingerprint{}):
		return p.fail(workspace.ReasonActionFailed, "the archive job says that nothing has changed, but it was given "+
			"nothing to compare with")
	case n.KnownState() == "", job.Fingerprint != f.Value, f.VolumeOpID != p.o.Volume.OpID:
		return p.archiveAnew()
	case p.o.Archive == workspace.Unknown || p.backingOff:
		return ActNothing
	case p.o.Archive == workspace.Absent, p.o.UploadSize != f.Size, f.SHA256 != "" && p.o.UploadSHA256 != f.SHA256:
		return p.archiveAnew()
	case n.HomeCtx.Dirty:
		// This is saved before the volume is deleted: from then on the archive is the data (SPEC 12.2).
		n.HomeCtx.Dirty = false
		return ActNothing
	}
	return p.act(ActDropArchivedVolume)
}

// archiveAnew makes an archive although a job found none needed. The next job gets no state to compare with, and an id
// of its own, so that the result of the former job is not mistaken for its result.
func (p *planner) archiveAnew() Action {
	n := &p.next
	n.HomeCtx.Fingerprint, n.HomeCtx.Dirty = workspace.Fingerprint{}, true
	n.ArchiveOpID = p.policy.NewOpID()
	return p.act(ActDeleteJobs)
}
