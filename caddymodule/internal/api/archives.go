package api

import (
	"net/http"

	v1 "github.com/codehub/gateway/caddymodule/internal/api/v1"
	"github.com/codehub/gateway/caddymodule/internal/problem"
)

// listArchives is GET /workspaces/{id}/archives: it lists the workspace's complete archives in the object store, the
// newest first.
func (c *call) listArchives() error {
	found, err := c.Service.Archives(c.r.Context(), c.actor(), c.id)
	if err != nil {
		return err
	}
	return sendJSON(c.w, http.StatusOK, v1.ListOf(v1.ArchivesOf(found)))
}

// restoreArchive is POST /workspaces/{id}/archives/restore: it has the current state archived and then the older
// archive restored. It answers 202 with the workspace.
func (c *call) restoreArchive() error {
	var in struct {
		Archive textField `json:"archive"`
	}
	if err := c.decode(&in); err != nil {
		return err
	}
	if in.Archive.text == "" {
		return problem.InvalidField("archive", "problem.archive", nil)
	}
	w, err := c.Service.Revert(c.r.Context(), c.actor(), c.id, in.Archive.text)
	if err != nil {
		return err
	}
	return c.sendWorkspaceAs(http.StatusAccepted, w)
}
