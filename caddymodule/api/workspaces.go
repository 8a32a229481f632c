package api

import (
	"net/http"
	"strconv"

	"github.com/codehub/gateway/caddymodule/web"
	"github.com/codehub/gateway/coordinator/service"
	"github.com/codehub/gateway/coordinator/workspace"
)

func (c *call) createWorkspace() error {
	var in struct {
		Name        textField `json:"name"`
		Description textField `json:"description"`
		ImageRef    textField `json:"image_ref"`
	}
	if err := c.decode(&in); err != nil {
		return err
	}
	w, err := c.Service.Create(c.r.Context(), c.actor(), service.CreateInput{
		Name: in.Name.text, Description: in.Description.text, ImageRef: in.ImageRef.text,
	})
	if err != nil {
		return err
	}
	c.w.Header().Set("Location", "/api/v1/workspaces/"+string(w.ID))
	return sendJSON(c.w, http.StatusCreated, c.body(w))
}

func (c *call) listWorkspaces() error {
	limit := service.DefaultPage
	if s := c.r.URL.Query().Get("limit"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > service.MaxPage {
			p := web.ProblemInvalid.With("limit must be a number from 1 to %d.", service.MaxPage)
			p.Field = "limit"
			return p
		}
		limit = n
	}
	items, next, err := c.Service.List(c.r.Context(), c.actor(), limit, c.r.URL.Query().Get("cursor"))
	if err != nil {
		return err
	}
	bodies := make([]workspaceBody, len(items))
	for i, w := range items {
		bodies[i] = c.body(w)
	}
	return sendJSON(c.w, http.StatusOK, struct {
		Items []workspaceBody `json:"items"`
		Next  *string         `json:"next_cursor"`
	}{bodies, orNull(next)})
}

func (c *call) getWorkspace() error {
	w, err := c.Service.Get(c.r.Context(), c.actor(), c.id)
	if err != nil {
		return err
	}
	return sendJSON(c.w, http.StatusOK, c.body(w))
}

func (c *call) patchWorkspace() error {
	var in struct {
		Name         textField `json:"name"`
		Description  textField `json:"description"`
		Memo         textField `json:"memo"`
		DesiredState textField `json:"desired_state"`
	}
	if err := c.decode(&in); err != nil {
		return err
	}
	patch := service.Patch{Name: in.Name.pointer(), Description: in.Description.pointer(), Memo: in.Memo.pointer()}
	if in.DesiredState.given {
		desired := workspace.DesiredState(in.DesiredState.text)
		patch.DesiredState = &desired
	}
	w, err := c.Service.Update(c.r.Context(), c.actor(), c.id, patch)
	if err != nil {
		return err
	}
	return sendJSON(c.w, http.StatusOK, c.body(w))
}

// deleteWorkspace answers 202: container and volume are removed in the background.
func (c *call) deleteWorkspace() error {
	if err := c.Service.Delete(c.r.Context(), c.actor(), c.id); err != nil {
		return err
	}
	c.w.Header().Set("Cache-Control", "no-store")
	c.w.WriteHeader(http.StatusAccepted)
	return nil
}

func (c *call) recoverWorkspace() error {
	if err := c.Service.Recover(c.r.Context(), c.actor(), c.id); err != nil {
		return err
	}
	return c.getWorkspace()
}
