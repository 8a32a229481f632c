package workspace

import "strings"

// withoutBoot is the prefix of the states that storage jobs of release 0.1.0 record. These states name no boot of the
// kernel, so they prove nothing after a power cut (SPEC 12.15).
const withoutBoot = "1:"

// Fingerprint records that one incarnation of the volume, in a certain state, had the same content as an archive. A
// storage job takes the fingerprint after a restore and after an upload. An archive job that finds the same state again
// needs no new archive.
type Fingerprint struct {
	// Value identifies the state.
	Value string `json:"value"`
	// VolumeOpID is the incarnation of the volume.
	VolumeOpID string `json:"volume_op_id"`
	// ArchiveKey is the archive; Size, in bytes, and SHA256 are the archive's.
	ArchiveKey string `json:"archive_key"`
	Size       int64  `json:"size"`
	SHA256     string `json:"sha256,omitempty"`
}

// KnownState returns the fingerprint with which an archive job may compare the home, so that no new archive is needed
// if nothing has changed. It is empty when a new archive is needed. It only applies to the incarnation and the archive
// that the row knows now. It never applies to a state that names no boot, nor to an archive that is or may be damaged:
// the volume may be all that is left of its content.
func (w Workspace) KnownState() string {
	f := w.HomeCtx.Fingerprint
	if f.VolumeOpID == "" || f.VolumeOpID != w.HomeCtx.VolumeOpID || f.ArchiveKey == "" ||
		f.ArchiveKey != w.ArchiveKey ||
		w.HomeCtx.RestoreMarker != w.ArchiveKey || w.ArchiveDamage != "" || w.ArchiveSuspected ||
		strings.HasPrefix(f.Value, withoutBoot) {
		return ""
	}
	return f.Value
}

// ArchiveRecord describes the archive at archive_key, as reported by the storage job, or by the part of the program
// that made the archive instead of a job. It is written to the table of archives together with the row.
type ArchiveRecord struct {
	// Size is the object's size in bytes; 0 when it is not known. Content is the total size of its regular files in
	// bytes, and Files is the number of its entries; 0 when they are not known.
	Size, Content, Files int64
	// SHA256 is the object's checksum; empty when it is not known.
	SHA256 string
	// Verified reports that the whole archive was read back, by the restore that has just ended or by the job that made
	// it.
	Verified bool
}
