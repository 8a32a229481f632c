package api

import (
	"errors"
	"net/http"
	"time"

	"github.com/codehub/gateway/caddymodule/web"
	"github.com/codehub/gateway/coordinator/auth"
)

// sessionBody is one sign-in of the user.
type sessionBody struct {
	ID         string    `json:"id"`
	Address    string    `json:"address"`
	Client     string    `json:"client"`
	CreatedAt  time.Time `json:"created_at"`
	LastUsedAt time.Time `json:"last_used_at"`
	ExpiresAt  time.Time `json:"expires_at"`
	Current    bool      `json:"current"`
}

// listSessions is GET /sessions: where the user is signed in.
func (c *call) listSessions() error {
	if c.Identity != nil { // people are not signed in here
		return sendJSON(c.w, http.StatusOK, map[string]any{"items": []sessionBody{}})
	}
	open, err := c.Auth.Sessions(c.r.Context(), c.grant)
	if err != nil {
		return err
	}
	items := make([]sessionBody, len(open))
	for i, s := range open {
		items[i] = sessionBody{s.ID, s.Address, s.Agent, s.CreatedAt, s.LastUsedAt, s.ExpiresAt, s.Current}
	}
	return sendJSON(c.w, http.StatusOK, map[string]any{"items": items})
}

// endSessions is DELETE /sessions/{id}, which ends one of the user's own sign-ins, and
// DELETE /sessions, which ends all but the one that the request comes with.
func (c *call) endSessions() error {
	err := c.Auth.EndSession(c.r.Context(), c.grant, c.r.PathValue("id"))
	if errors.Is(err, auth.ErrNoSession) {
		return web.ProblemNotFound.With("You have no session with this id.")
	}
	if err != nil {
		return err
	}
	c.w.Header().Set("Cache-Control", "no-store")
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}
