package workspace

// Fingerprint says that the volume of one incarnation had the same content as an archive
// when it was in one state. A storage job takes it: after a restore, and after an upload. An
// archive job that finds the same state again needs no new archive.
type Fingerprint struct {
	// Value identifies the state.
	Value string `json:"value"`
	// VolumeOpID is the incarnation of the volume.
	VolumeOpID string `json:"volume_op_id"`
	// ArchiveKey is the archive; Size in bytes and SHA256 are its own.
	ArchiveKey string `json:"archive_key"`
	Size       int64  `json:"size"`
	SHA256     string `json:"sha256,omitempty"`
}

// KnownState is the fingerprint with which an archive job may compare the home, so that it
// needs no new archive if nothing has changed; empty when a new one is needed. It holds for
// the incarnation and the archive that the row knows now, and never for one that is damaged
// or may be: the volume may be all that is left of it.
func (w Workspace) KnownState() string {
	f := w.HomeCtx.Fingerprint
	if f.VolumeOpID == "" || f.VolumeOpID != w.HomeCtx.VolumeOpID || f.ArchiveKey == "" || f.ArchiveKey != w.ArchiveKey ||
		w.HomeCtx.RestoreMarker != w.ArchiveKey || w.ArchiveDamage != "" || w.ArchiveSuspected {
		return ""
	}
	return f.Value
}

// ArchiveRecord is what a storage job, or whoever has made the archive in its place, says of
// the archive at archive_key. It is written to the table of archives together with the row.
type ArchiveRecord struct {
	// Size is the object's, in bytes; 0 when it is not known. Content and Files are the bytes of the regular files in
	// it and the number of its entries; 0 when they are not known.
	Size, Content, Files int64
	// SHA256 is the object's checksum; empty when it is not known.
	SHA256 string
	// Verified says that it was read back as a whole, by the restore that ends or by the job
	// that has made it.
	Verified bool
}

// recordOf is what a job says of the archive that it has made or read.
func recordOf(j *Job) *ArchiveRecord {
	return &ArchiveRecord{Size: j.Size, Content: j.Content, Files: j.Files, SHA256: j.SHA256}
}

// remember notes that the volume and the current archive have the same content now.
func (p *planner) remember(job *Job) {
	n := &p.next
	n.HomeCtx.Fingerprint = Fingerprint{}
	if job != nil && job.Fingerprint != "" && p.o.Volume != nil && p.o.Volume.OpID != "" {
		n.HomeCtx.Fingerprint = Fingerprint{job.Fingerprint, p.o.Volume.OpID, n.ArchiveKey, job.Size, job.SHA256}
	}
}

// unchanged decides after an archive job that has found the home in the state that it was
// given. The current archive stays the current one, and the volume goes, but only if it is
// the state of this volume and of this archive, and the store has that archive, as it was.
// In doubt the home is archived.
func (p *planner) unchanged(job *Job) Action {
	n, f := &p.next, p.next.HomeCtx.Fingerprint
	switch {
	case f == (Fingerprint{}):
		return p.fail(ReasonActionFailed, "the archive job says that nothing has changed, but it was given nothing to compare with")
	case n.KnownState() == "", job.Fingerprint != f.Value, f.VolumeOpID != p.o.Volume.OpID:
		return p.archiveAnew()
	case p.o.Archive == Unknown || p.backingOff:
		return ActNothing
	case p.o.Archive == Absent, p.o.UploadSize != f.Size, f.SHA256 != "" && p.o.UploadSHA256 != f.SHA256:
		return p.archiveAnew()
	case n.HomeCtx.Dirty:
		// Saved before the volume goes: from then on the archive is the data (SPEC 12.2).
		n.HomeCtx.Dirty = false
		return ActNothing
	}
	return p.act(ActDropArchivedVolume)
}

// archiveAnew makes an archive in spite of a job that found none needed. The next job has
// nothing to compare with, and an id of its own: nobody takes the former result for its.
func (p *planner) archiveAnew() Action {
	n := &p.next
	n.HomeCtx.Fingerprint, n.HomeCtx.Dirty = Fingerprint{}, true
	n.ArchiveOpID = p.policy.NewOpID()
	return p.act(ActDeleteJobs)
}
