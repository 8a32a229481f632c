package gateway

import (
	"errors"
	"net/http"

	"github.com/codehub/gateway/caddymodule/web"
	"github.com/codehub/gateway/coordinator/auth"
)

// redeem signs a user in on a workspace's own host, with the one-time ticket that the
// main site has issued. The session cookie of the main site is never sent to this
// host, so a workspace cannot get hold of it. The new cookie ends with the browser;
// the session ends with the main one.
func (g *Gateway) redeem(req *request) error {
	r := req.r
	if req.target.ID == "" || r.Method != http.MethodGet {
		return g.showMessage(req, http.StatusNotFound, notFoundMessage())
	}
	query := r.URL.Query()
	back := web.LocalPath(query.Get("return"))
	token, err := g.Sessions.Redeem(r.Context(), query.Get("t"), req.target.ID)
	switch {
	case errors.Is(err, auth.ErrBadTicket), errors.Is(err, auth.ErrNoSession), errors.Is(err, auth.ErrNoWorkspace):
		return g.showMessage(req, http.StatusForbidden, expiredTicketMessage(back))
	case err != nil:
		// Package auth logs the outage, once.
		return g.answer(req, Decide(State{Identity: Unverifiable}, Navigation), nil, nil)
	}
	g.Site.SetSession(req.w, r, web.WorkspaceCookie, token, 0)
	web.Redirect(req.w, back, http.StatusSeeOther)
	return nil
}
