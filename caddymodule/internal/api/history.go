package api

import (
	"math"
	"net/http"

	v1 "github.com/codehub/gateway/caddymodule/internal/api/v1"
	"github.com/codehub/gateway/coordinator/dataplane/service"
)

// explainWorkspace is GET /workspaces/{id}/explain: why the workspace is in its phase, what
// it waits for, what comes next and when.
func (c *call) explainWorkspace() error {
	e, err := c.Service.Explain(c.r.Context(), c.actor(), c.id)
	if err != nil {
		return err
	}
	return sendJSON(c.w, http.StatusOK, e)
}

// workspaceHistory is GET /workspaces/{id}/history?limit&before: what happened to the
// workspace, newest first, and the id to ask for what was before, null at the end.
func (c *call) workspaceHistory() error {
	limit, err := c.number("limit", service.MaxPage)
	if err != nil {
		return err
	}
	if limit == 0 {
		limit = service.DefaultPage
	}
	before, err := c.number("before", math.MaxInt64)
	if err != nil {
		return err
	}
	found, err := c.Service.History(c.r.Context(), c.actor(), c.id, int(limit), before)
	if err != nil {
		return err
	}
	answer := struct {
		Items []v1.Transition `json:"items"`
		Next  *int64          `json:"next_before"`
	}{Items: make([]v1.Transition, len(found))}
	for i, t := range found {
		answer.Items[i] = v1.TransitionOf(t)
	}
	if len(found) == int(limit) {
		answer.Next = &found[len(found)-1].ID
	}
	return sendJSON(c.w, http.StatusOK, answer)
}
