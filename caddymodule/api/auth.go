package codehub

import (
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/auth"
	"github.com/codehub/gateway/coordinator/workspace"
)

// userBody is the signed-in user as the API shows it.
type userBody struct {
	ID       string `json:"user_id"`
	Username string `json:"username"`
	Role     string `json:"role"`
}

func bodyOf(u auth.User) userBody { return userBody{u.ID, u.Username, u.Role} }

func (c *call) login() error {
	var in struct {
		Username string `json:"username"`
		Password string `json:"password"`
	}
	if err := c.decode(&in); err != nil {
		return err
	}
	token, user, err := c.app.Auth().Login(c.r.Context(), in.Username, in.Password)
	if err != nil {
		return err
	}
	// A sign-in replaces the session that the browser had.
	if c.token != "" {
		if err := c.app.Auth().Logout(c.r.Context(), c.token); err != nil && !errors.Is(err, auth.ErrNoSession) {
			c.logger.Warn("ending the session before a new sign-in", zap.Error(err))
		}
	}
	setSession(c.w, c.r, token, int(c.app.sessionTTL/time.Second))
	return c.respond(http.StatusOK, bodyOf(user))
}

func (c *call) logout() error {
	if c.token != "" {
		if err := c.app.Auth().Logout(c.r.Context(), c.token); err != nil && !errors.Is(err, auth.ErrNoSession) {
			return err
		}
	}
	setSession(c.w, c.r, "", 0)
	c.w.Header().Set("Cache-Control", "no-store")
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

func (c *call) session() error { return c.respond(http.StatusOK, bodyOf(c.user)) }

// ticket signs a browser in to a workspace on a host of its own, which the session
// cookie never reaches: it sends the browser there with a ticket that works once.
// Someone who is not signed in signs in first and comes back.
func (a *API) ticket(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	id, err := workspace.ParseID(q.Get("workspace"))
	if err != nil {
		return caddyhttp.Error(http.StatusNotFound, err)
	}
	if err := a.ready(r.Context()); err != nil {
		return unavailable(err)
	}
	w.Header().Set("Referrer-Policy", "no-referrer")
	ticket, err := a.app.Auth().Ticket(r.Context(), sessionToken(r), id)
	switch {
	case errors.Is(err, auth.ErrNoSession):
		redirect(w, "/login?return="+url.QueryEscape(r.URL.RequestURI()), http.StatusSeeOther)
		return nil
	case errors.Is(err, auth.ErrNoWorkspace):
		return caddyhttp.Error(http.StatusNotFound, err)
	case err != nil:
		return unavailable(err)
	}
	redirect(w, a.workspaceOrigin(r, id)+"/.codehub/ticket?"+
		url.Values{"t": {ticket}, "return": {localPath(q.Get("return"))}}.Encode(), http.StatusSeeOther)
	return nil
}

// health answers as long as this process serves.
func (a *API) health(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, err := w.Write([]byte(`{"status":"ok"}` + "\n"))
	return err
}

// coordinatorHealth says whether this process leads (SPEC 5).
func (a *API) coordinatorHealth(w http.ResponseWriter, r *http.Request) error {
	h := a.app.Health()
	c := &call{API: a, w: w, r: r}
	return c.respond(http.StatusOK, struct {
		IsLeader bool   `json:"is_leader"`
		NodeID   string `json:"node_id"`
		Uptime   int64  `json:"uptime_seconds"`
	}{h.IsLeader, h.NodeID, int64(h.Uptime / time.Second)})
}
