package api

import (
	"math"
	"net/http"
	"time"

	"github.com/codehub/gateway/coordinator/service"
	"github.com/codehub/gateway/coordinator/store"
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
		Items []Transition `json:"items"`
		Next  *int64       `json:"next_before"`
	}{Items: make([]Transition, len(found))}
	for i, t := range found {
		answer.Items[i] = TransitionOf(t)
	}
	if len(found) == int(limit) {
		answer.Next = &found[len(found)-1].ID
	}
	return sendJSON(c.w, http.StatusOK, answer)
}

// Transition is one transition of a workspace's history, as programs see it.
type Transition struct {
	ID int64     `json:"id"`
	At time.Time `json:"at"`
	// What changed, from what to what, and why.
	Kind    store.TransitionKind `json:"kind"`
	Old     *string              `json:"old_value"`
	New     *string              `json:"new_value"`
	Message *string              `json:"message"`
	// Through what it came, such as api, gateway, ttl or controller, and the user
	// where a person asked for it.
	Cause    string  `json:"cause"`
	UserID   *string `json:"user_id"`
	Username *string `json:"username"`
}

// TransitionOf returns t as programs see it.
func TransitionOf(t store.Transition) Transition {
	return Transition{
		ID: t.ID, At: t.At.UTC(), Kind: t.Kind, Old: orNull(t.Old), New: orNull(t.New), Message: orNull(t.Message),
		Cause: t.Cause, UserID: orNull(t.UserID), Username: orNull(t.Username),
	}
}
