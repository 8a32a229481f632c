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
	// In bytes; null if the size or number of the files is not known.
	Size         int64  `json:"size"`
	ContentBytes *int64 `json:"content_bytes"`
	Files        *int64 `json:"files"`
	// Whether it is the workspace's current data, and whether it is kept, until the next archive is
	// made, because an older one was restored.
	Current bool `json:"current"`
	Kept    bool `json:"kept"`
	// When it was last read back completely and found intact, and its damage.
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
	// When it was last read back completely and found intact; null if never.
	VerifiedAt *time.Time `json:"verified_at"`
	// Its damage; null if none is known.
	Damage *string `json:"damage"`
}

func archiveStateOf(w workspace.Workspace) *ArchiveState {
	if w.ArchiveKey == "" {
		return nil
	}
	return &ArchiveState{timeOrNull(w.ArchiveVerifiedAt), orNull(w.ArchiveDamage)}
}

// Revert is the older archive to which a workspace is being restored.
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
