package api

import (
	"errors"
	"net/http"

	v1 "github.com/codehub/gateway/caddymodule/internal/api/v1"
	"github.com/codehub/gateway/caddymodule/internal/problem"
	"github.com/codehub/gateway/coordinator/dataplane/auth"
)

// listSessions is GET /sessions: where the user is signed in.
func (c *call) listSessions() error {
	if c.Identity != nil { // people are not signed in here
		return sendJSON(c.w, http.StatusOK, v1.ListOf([]v1.Session{}))
	}
	open, err := c.Auth.Sessions(c.r.Context(), c.grant)
	if err != nil {
		return err
	}
	return sendJSON(c.w, http.StatusOK, v1.ListOf(v1.SessionsOf(open)))
}

// endSessions is DELETE /sessions/{id}, which ends one of the user's own sign-ins. It is also
// DELETE /sessions, which ends all but the request's own.
func (c *call) endSessions() error {
	err := c.Auth.EndSession(c.r.Context(), c.grant, c.r.PathValue("id"))
	if errors.Is(err, auth.ErrNoSession) {
		return problem.NotFound.With("problem.no_session", nil)
	}
	if err != nil {
		return err
	}
	return c.sendNothing(http.StatusNoContent)
}
