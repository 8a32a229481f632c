package v1

import (
	"time"

	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Archive is one archive of a workspace, as programs see it.
type Archive struct {
	Key       string     `json:"key"`
	CreatedAt *time.Time `json:"created_at"`
	// In bytes; null when the size of the files, or their number, is not known.
	Size         int64  `json:"size"`
	ContentBytes *int64 `json:"content_bytes"`
	Files        *int64 `json:"files"`
	// Whether it is the workspace's data, and whether it stays until the next archive is made
	// because an older one was chosen over it.
	Current bool `json:"current"`
	Kept    bool `json:"kept"`
	// When it was last read back as a whole and found right, and what is wrong with it.
	VerifiedAt *time.Time `json:"verified_at"`
	Damage     *string    `json:"damage"`
}

// ArchivesOf returns archives as programs see them.
func ArchivesOf(archives []service.Archive) []Archive {
	out := make([]Archive, len(archives))
	for i, a := range archives {
		out[i] = Archive{
			Key: a.Key, CreatedAt: timeOrNull(a.CreatedAt), Size: a.Size,
			ContentBytes: numberOrNull(a.Content), Files: numberOrNull(a.Files),
			Current: a.Current, Kept: a.Kept, VerifiedAt: timeOrNull(a.VerifiedAt), Damage: orNull(a.Damage),
		}
	}
	return out
}

// ArchiveState is the state of a workspace's current archive.
type ArchiveState struct {
	// When it was last read back as a whole and found right; null if never.
	VerifiedAt *time.Time `json:"verified_at"`
	// What is wrong with it; null when nothing is known to be.
	Damage *string `json:"damage"`
}

func archiveStateOf(w workspace.Workspace) *ArchiveState {
	if w.ArchiveKey == "" {
		return nil
	}
	return &ArchiveState{timeOrNull(w.ArchiveVerifiedAt), orNull(w.ArchiveDamage)}
}

// Revert is the older archive that a workspace goes back to.
type Revert struct {
	Key string    `json:"key"`
	At  time.Time `json:"at"`
}

func revertOf(w workspace.Workspace) *Revert {
	if !w.Reverting() {
		return nil
	}
	return &Revert{w.Revert.Key, w.Revert.At}
}
