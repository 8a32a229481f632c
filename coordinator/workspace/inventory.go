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
	// Current says that the workspace's row names this archive.
	Current bool
}
