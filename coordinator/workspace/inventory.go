package workspace

import "time"

// Inventory is what exists of a workspace's data, for the person who recovers it
// (SPEC 12.9).
type Inventory struct {
	// Volume is the home volume; nil when there is none.
	Volume *Volume
	// Archives are the complete archives, newest first.
	Archives []ArchiveVersion
}

// ArchiveVersion is one complete archive of a workspace.
type ArchiveVersion struct {
	// Key is the archive's key, without the bucket's prefix.
	Key string
	// Size is in bytes.
	Size int64
	// Modified is when the archive was written, by the store's clock.
	Modified time.Time
	// Current reports that the workspace's row names this archive.
	Current bool
}

// YoungerArchive returns the newest complete archive of w, unless the row or its last recovery knows it: the row may be
// older than the archives. The given archives are sorted, newest first. The upload of the row's last archive operation
// counts as known. It returns "" if there is none.
func (w Workspace) YoungerArchive(versions []ArchiveVersion) string {
	known := func(v ArchiveVersion) bool { return v.Key == w.ArchiveKey || v.Key == w.HomeCtx.Newest }
	var since time.Time
	for _, v := range versions {
		if known(v) && v.Modified.After(since) {
			since = v.Modified
		}
	}
	for _, v := range versions { // two of the same second are no surprise
		if !known(v) && v.Key != w.ID.ArchiveKey(w.ArchiveOpID) && v.Modified.After(since) {
			return v.Key
		}
	}
	return ""
}
