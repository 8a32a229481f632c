package api

import (
	"cmp"
	"math"
	"net/http"

	v1 "github.com/codehub/gateway/caddymodule/internal/api/v1"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/store"
)

// explainWorkspace is GET /workspaces/{id}/explain. It answers with the reason for the workspace's phase or wait, and
// with the next step and its time.
func (c *call) explainWorkspace() error {
	e, err := c.Service.Explain(c.r.Context(), c.actor(), c.id)
	if err != nil {
		return err
	}
	return sendJSON(c.w, http.StatusOK, e)
}

// workspaceHistory is GET /workspaces/{id}/history?limit&before. It answers with the events of the workspace, newest
// first, and with the id before which earlier events follow. The id is null if there are none.
func (c *call) workspaceHistory() error {
	limit, before, err := c.historyPage()
	if err != nil {
		return err
	}
	found, err := c.Service.History(c.r.Context(), c.actor(), c.id, limit, before)
	if err != nil {
		return err
	}
	return sendHistory(c, found, limit, v1.TransitionOf, func(t store.Transition) *int64 { return &t.ID })
}

// historyPage reads which page of a history is requested.
func (c *call) historyPage() (limit int, before int64, err error) {
	n, err := c.number("limit", service.MaxPage)
	if err == nil {
		before, err = c.number("before", math.MaxInt64)
	}
	return cmp.Or(int(n), service.DefaultPage), before, err
}

// sendHistory answers with a page of a history, and says where the next page begins.
func sendHistory[T, B any](c *call, found []T, limit int, body func(T) B, id func(T) *int64) error {
	answer := v1.History[B]{Items: make([]B, len(found))}
	for i, t := range found {
		answer.Items[i] = body(t)
	}
	if len(found) == limit {
		answer.Next = id(found[limit-1])
	}
	return sendJSON(c.w, http.StatusOK, answer)
}
