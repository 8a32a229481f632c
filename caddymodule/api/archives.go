package api

import (
	"net/http"
	"time"

	"github.com/codehub/gateway/caddymodule/web"
	"github.com/codehub/gateway/coordinator/service"
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
			Key: a.Key, CreatedAt: timeOrNull(a.CreatedAt), Size: a.Size, ContentBytes: numberOrNull(a.Content), Files: numberOrNull(a.Files),
			Current: a.Current, Kept: a.Kept, VerifiedAt: timeOrNull(a.VerifiedAt), Damage: orNull(a.Damage),
		}
	}
	return out
}

// numberOrNull makes 0 null.
func numberOrNull(n int64) *int64 {
	if n == 0 {
		return nil
	}
	return &n
}

// listArchives is GET /workspaces/{id}/archives: the complete archives in the object store,
// the newest first.
func (c *call) listArchives() error {
	found, err := c.Service.Archives(c.r.Context(), c.actor(), c.id)
	if err != nil {
		return err
	}
	return sendJSON(c.w, http.StatusOK, struct {
		Items []Archive `json:"items"`
	}{ArchivesOf(found)})
}

// restoreArchive is POST /workspaces/{id}/archives/restore: the present state is archived,
// then the older archive becomes the workspace's data. It answers 202 with the workspace.
func (c *call) restoreArchive() error {
	var in struct {
		Archive textField `json:"archive"`
	}
	if err := c.decode(&in); err != nil {
		return err
	}
	if in.Archive.text == "" {
		p := web.ProblemInvalid.With("archive must be the key of one of the workspace's archives.")
		p.Field = "archive"
		return p
	}
	w, err := c.Service.Revert(c.r.Context(), c.actor(), c.id, in.Archive.text)
	if err != nil {
		return err
	}
	return sendJSON(c.w, http.StatusAccepted, c.body(w))
}

// archiveBody is the state of a workspace's current archive.
type archiveBody struct {
	// When it was last read back as a whole and found right; null if never.
	VerifiedAt *time.Time `json:"verified_at"`
	// What is wrong with it; null when nothing is known to be.
	Damage *string `json:"damage"`
}

func archiveBodyOf(w workspace.Workspace) *archiveBody {
	if w.ArchiveKey == "" {
		return nil
	}
	return &archiveBody{timeOrNull(w.ArchiveVerifiedAt), orNull(w.ArchiveDamage)}
}

// revertBody is the older archive that a workspace goes back to.
type revertBody struct {
	Key string    `json:"key"`
	At  time.Time `json:"at"`
}

func revertBodyOf(w workspace.Workspace) *revertBody {
	if !w.Reverting() {
		return nil
	}
	return &revertBody{w.Revert.Key, w.Revert.At}
}
