package api

import (
	"errors"
	"net/http"
	"net/url"
	"time"

	"go.uber.org/zap"

	"github.com/codehub/gateway/caddymodule/web"
	"github.com/codehub/gateway/coordinator/auth"
	"github.com/codehub/gateway/coordinator/workspace"
)

// userBody is the signed-in user in answers and pages.
type userBody struct {
	ID       string `json:"user_id"`
	Username string `json:"username"`
	Role     string `json:"role"`
}

// bodyOf leaves out what is not for clients.
func bodyOf(u auth.User) userBody { return userBody{u.ID, u.Username, u.Role} }

// login is POST /auth/login: it checks a password, starts a session and sets its
// cookie, which lasts as long as the session.
func (c *call) login() error {
	var in struct {
		Username string `json:"username"`
		Password string `json:"password"`
	}
	if err := c.decode(&in); err != nil {
		return err
	}
	token, user, err := c.Auth.Login(c.r.Context(), in.Username, in.Password)
	if err != nil {
		return err
	}
	// A sign-in replaces the session that the browser had.
	if err := c.endSession(); err != nil {
		c.Logger.Warn("ending the session before a new sign-in", zap.Error(err))
	}
	c.Site.SetSession(c.w, c.r, web.SessionCookie, token, int(c.Auth.SessionTTL()/time.Second))
	return sendJSON(c.w, http.StatusOK, bodyOf(user))
}

// logout is POST /auth/logout: it ends the session, in every process, and deletes the
// cookie. It succeeds without a session, too.
func (c *call) logout() error {
	c.fromMemory = c.token == ""
	if err := c.endSession(); err != nil {
		return err
	}
	c.Site.SetSession(c.w, c.r, web.SessionCookie, "", 0)
	c.w.Header().Set("Cache-Control", "no-store")
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// endSession ends the session that the request carries, if it carries a valid one.
func (c *call) endSession() error {
	if c.token == "" {
		return nil
	}
	if err := c.Auth.Logout(c.r.Context(), c.token); err != nil && !errors.Is(err, auth.ErrNoSession) {
		return err
	}
	return nil
}

// session is GET /auth/session: the signed-in user.
func (c *call) session() error {
	c.fromMemory = true // as a rule
	return sendJSON(c.w, http.StatusOK, bodyOf(c.user))
}

// ticket is GET /auth/ticket?workspace&return: it signs a browser in to a workspace on a host of its own, which never gets
// the session cookie: it redirects to that host with a ticket that works once. A user
// who is not signed in signs in first and comes back.
func (h *Handler) ticket(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	id, err := workspace.ParseID(q.Get("workspace"))
	if err != nil {
		return web.ProblemOf(auth.ErrNoWorkspace)
	}
	if err := h.ready(r.Context()); err != nil {
		return h.unavailable(w, r, err)
	}
	ticket, err := h.Auth.Ticket(r.Context(), web.Cookie(r.Header, web.SessionCookie), id)
	switch {
	case errors.Is(err, auth.ErrNoSession):
		web.Redirect(w, web.LoginPath(r), http.StatusSeeOther)
		return nil
	case errors.Is(err, auth.ErrNoWorkspace):
		return web.ProblemOf(err)
	case err != nil:
		return h.unavailable(w, r, err)
	}
	web.Redirect(w, h.Site.WorkspaceOrigin(r, id)+"/.codehub/ticket?"+
		url.Values{"t": {ticket}, "return": {web.LocalPath(q.Get("return"))}}.Encode(), http.StatusSeeOther)
	return nil
}
