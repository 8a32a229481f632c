package problem

import (
	"time"

	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Recovery tells a program everything that it needs in order to choose how a workspace is recovered. It is part of the
// problem [Choice].
type Recovery struct {
	// Reason is why the workspace is in ERROR.
	Reason workspace.ErrorReason `json:"reason"`
	// Volume is the volume that exists, null when there is none.
	Volume *RecoveryVolume `json:"volume"`
	// Archives are the existing archives, the newest first.
	Archives []RecoveryArchive `json:"archives"`
	// Choices are what the request may choose.
	Choices []RecoveryChoice `json:"choices"`
}

// RecoveryVolume is a volume that exists.
type RecoveryVolume struct {
	// CreatedAt is null when the container backend does not say.
	CreatedAt *time.Time `json:"created_at"`
}

// RecoveryArchive is an archive that exists.
type RecoveryArchive struct {
	Key      string    `json:"key"`
	Size     int64     `json:"size_bytes"`
	Modified time.Time `json:"modified"`
	// Current is whether it is the archive that the database knows.
	Current bool `json:"current"`
}

// RecoveryChoice is the body of a request that makes this choice.
type RecoveryChoice struct {
	Choice workspace.RecoveryChoice `json:"choice"`
	Key    string                   `json:"key,omitempty"`
	// ReplaceVolume is true when the choice gives up the files on the volume.
	ReplaceVolume bool `json:"replace_volume,omitempty"`
}

// RecoveryOf returns which files of the workspace exist, and which choices are possible, for a recovery that needs a
// choice. A choice other than keeping the volume gives up the files on it, and must say so.
func RecoveryOf(e *service.ChoiceError) *Recovery {
	r := &Recovery{Reason: e.Reason, Archives: []RecoveryArchive{}, Choices: []RecoveryChoice{}}
	if volume := e.Inventory.Volume; volume != nil {
		r.Volume = new(RecoveryVolume)
		if created := volume.CreatedAt.UTC(); !created.IsZero() {
			r.Volume.CreatedAt = &created
		}
	}
	for _, a := range e.Inventory.Archives {
		r.Archives = append(r.Archives, RecoveryArchive{
			Key: a.Key, Size: a.Size, Modified: a.Modified.UTC(), Current: a.Current,
		})
	}
	for _, c := range e.Choices {
		r.Choices = append(r.Choices, RecoveryChoice{c.Kind, c.Key, c.ReplaceVolume})
	}
	return r
}
