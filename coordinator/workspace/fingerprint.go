package workspace

import "strings"

// withoutBoot begins the states that storage jobs of release 0.1.0 take. They name no boot of the kernel,
// so that they prove nothing after a power cut (SPEC 12.15).
const withoutBoot = "1:"

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

// KnownState is the fingerprint with which an archive job may compare the home, so that it needs no
// new archive if nothing has changed. It is empty when a new one is needed. It holds for the
// incarnation and the archive that the row knows now, and never for one that is damaged or may be.
// The volume may be all that is left of it. It never holds for a state that names no boot.
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

// ArchiveRecord is what a storage job, or the part that has made the archive in its place, says of
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
