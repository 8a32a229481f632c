package workspace

import "time"

// RecoveryChoice is what becomes of the data of a workspace that is recovered.
type RecoveryChoice string

// The choices (SPEC 12.9).
const (
	// RecoverRetry only clears the error: nothing about the data is in doubt.
	RecoverRetry RecoveryChoice = "retry"
	// RecoverVolume takes the volume that exists as the workspace's data.
	RecoverVolume RecoveryChoice = "volume"
	// RecoverArchive takes the archive Key.
	RecoverArchive RecoveryChoice = "archive"
	// RecoverEmpty starts with an empty home.
	RecoverEmpty RecoveryChoice = "empty"
)

// Recovery is one recovery. The controller carries each out once, by its ID.
type Recovery struct {
	ID     string         `json:"id"`
	Choice RecoveryChoice `json:"choice"`
	// Key is the archive of [RecoverArchive].
	Key string `json:"key,omitempty"`
	// ReplaceVolume says that whoever chose knows that a volume exists and gives its
	// content up. Without it a volume that exists ends [RecoverArchive] and
	// [RecoverEmpty] in Conflict.
	ReplaceVolume bool `json:"replace_volume,omitempty"`
}

// Inventory is what exists of a workspace's data, for a person to choose from.
type Inventory struct {
	// Volume is nil when there is none.
	Volume *Volume
	// Archives are the complete ones, the newest first.
	Archives []ArchiveVersion
}

// ArchiveVersion is one complete archive of a workspace.
type ArchiveVersion struct {
	Key      string
	Size     int64
	Modified time.Time
	// Current says that the row's archive_key names it.
	Current bool
}
