package gateway

import (
	"errors"
	"net/http"

	"github.com/codehub/gateway/caddymodule/internal/gateway/decision"
	"github.com/codehub/gateway/caddymodule/internal/gateway/pages"
	"github.com/codehub/gateway/caddymodule/internal/web"
	"github.com/codehub/gateway/coordinator/dataplane/auth"
)

// browserAge is how long a browser keeps its secret, in seconds. It is longer than a
// session, so that all tabs which a browser opens again at its start ask with the same.
const browserAge = 90 * 24 * 3600

// askForTicket sends a browser to the main site for a ticket that works in this
// browser only: it gets a secret here, and the main site the secret's hash.
func (g *Gateway) askForTicket(req *request) {
	secret, err := g.Site.Token(req.r, web.BrowserCookie)
	if err != nil {
		g.Site.ExpireCopies(req.w, req.r, web.BrowserCookie)
	}
	hash, ok := auth.BrowserHash(secret)
	if !ok {
		secret = auth.NewBrowserSecret()
		hash, _ = auth.BrowserHash(secret)
	}
	g.Site.SetSession(req.w, req.r, web.BrowserCookie, secret, browserAge)
	web.Redirect(req.w, g.Site.TicketURL(req.r, req.target.WorkspaceHost, hash), http.StatusSeeOther)
}

// redeem signs a user in on a workspace's own host, with the one-time ticket that the
// main site has issued. The session cookie of the main site is never sent to this
// host, so a workspace cannot get hold of it. The new cookie ends with the browser;
// the session ends with the main one.
func (g *Gateway) redeem(req *request) error {
	r := req.r
	if req.target.ID == "" || r.Method != http.MethodGet {
		return g.showMessage(req, http.StatusNotFound, pages.NotFound())
	}
	query := r.URL.Query()
	back := web.LocalPath(query.Get("return"))
	browser, err := g.Site.Token(r, web.BrowserCookie)
	if err != nil { // one of two secrets would be anybody's; one for this path comes here only
		g.Site.ExpireCopies(req.w, r, web.BrowserCookie)
	}
	token, err := g.Sessions.Redeem(r.Context(), query.Get("t"), browser, req.target.ID)
	switch {
	case errors.Is(err, auth.ErrBadTicket), errors.Is(err, auth.ErrNoSession), errors.Is(err, auth.ErrNoWorkspace):
		if user, err := g.user(req); err == nil && user.ID != "" {
			web.Redirect(req.w, back, http.StatusSeeOther) // another tab was quicker
			return nil
		}
		return g.showMessage(req, http.StatusForbidden, pages.ExpiredTicket(back))
	case err != nil:
		// Package auth logs the outage, once.
		return g.answer(req, decision.Decide(decision.State{Identity: decision.Unverifiable}, decision.Navigation), nil, nil)
	}
	g.Site.SetSession(req.w, r, web.WorkspaceCookie, token, 0)
	g.Site.KeepLanguage(req.w, r, query.Get("lang"))
	web.Redirect(req.w, back, http.StatusSeeOther)
	return nil
}
