package gateway

import (
	"errors"
	"net/http"

	"github.com/codehub/gateway/caddymodule/internal/gateway/decision"
	"github.com/codehub/gateway/caddymodule/internal/gateway/pages"
	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/caddymodule/internal/web"
	"github.com/codehub/gateway/coordinator/dataplane/auth"
)

// browserAge is how long a browser keeps its secret, in seconds. It is longer than a session, so that all tabs that a
// browser reopens when it starts use the same secret.
const browserAge = 90 * 24 * 3600

// askForTicket sends a browser to the main site for a ticket that works in this browser only.
// The browser gets a secret here, and the main site gets the secret's hash.
func (g *Gateway) askForTicket(req *request) {
	secret, err := req.at.Token(req.r.Header, site.BrowserCookie)
	if err != nil {
		req.at.ExpireCopies(req.w, req.r, site.BrowserCookie)
	}
	hash, ok := auth.BrowserHash(secret)
	if !ok {
		secret = auth.NewBrowserSecret()
		hash, _ = auth.BrowserHash(secret)
	}
	req.at.SetSession(req.w, site.BrowserCookie, secret, browserAge)
	site.Redirect(req.w, req.at.TicketURL(hash, req.r.URL.RequestURI()), http.StatusSeeOther)
}

// redeem signs a user in on a workspace's own host, with the one-time ticket that the
// main site has issued. The session cookie of the main site is never sent to this
// host, so a workspace cannot get hold of it. The new cookie ends with the browser;
// the session ends with the main one.
func (g *Gateway) redeem(req *request) error {
	r := req.r
	if req.at.ID == "" || r.Method != http.MethodGet {
		return g.showMessage(req, http.StatusNotFound, pages.NotFound())
	}
	query := r.URL.Query()
	back := site.LocalPath(query.Get("return"))
	browser, err := req.at.Token(req.r.Header, site.BrowserCookie)
	if err != nil { // one of two may be an attacker's; one for this path comes here only
		req.at.ExpireCopies(req.w, req.r, site.BrowserCookie)
	}
	token, err := g.Sessions.Redeem(r.Context(), query.Get("t"), browser, req.at.ID)
	switch {
	case errors.Is(err, auth.ErrBadTicket), errors.Is(err, auth.ErrNoSession), errors.Is(err, auth.ErrNoWorkspace):
		if user, err := g.user(req); err == nil && user.ID != "" {
			site.Redirect(req.w, back, http.StatusSeeOther) // another tab was faster
			return nil
		}
		return g.showMessage(req, http.StatusForbidden, pages.ExpiredTicket(back))
	case err != nil:
		// Package auth logs the outage, once.
		d := decision.Decide(decision.Facts{Identity: decision.Unverifiable}, decision.Navigation)
		return g.answer(req, d, nil, nil)
	}
	req.at.SetSession(req.w, site.WorkspaceCookie, token, 0)
	web.KeepLanguage(&req.at, req.w, query.Get("lang"))
	site.Redirect(req.w, back, http.StatusSeeOther)
	return nil
}
