package api

import (
	"net/http"

	"github.com/codehub/gateway/caddymodule/internal/problem"
	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/caddymodule/internal/web"
	"github.com/codehub/gateway/coordinator/dataplane/auth"
	"github.com/codehub/gateway/coordinator/words"
)

// guard refuses three kinds of requests: those that could change something and may be a replay, those from pages of
// another origin, and those to a host where users do not sign in. The last rule stops DNS rebinding: an attacker's host
// name can resolve to this server, and a page under that name then has the same origin as the answers of this server.
// guard also deletes cookies that pages of workspaces may have planted to lock the user out.
func guard(w http.ResponseWriter, r *http.Request, at *site.Address) error {
	switch {
	case site.IsEarly(r) && r.Method != http.MethodGet && r.Method != http.MethodHead:
		return problem.TooEarly.With("problem.too_early", nil)
	case !at.IsMain():
		return problem.Misdirected.With("problem.use_main", words.Values{"Main": at.MainOrigin()})
	case !byBearer(r) && at.CrossOrigin(r):
		return problem.CrossSite.With("problem.cross_site", nil)
	}
	if _, err := at.Token(r.Header, site.SessionCookie); err != nil {
		at.ExpireCopies(w, r, site.SessionCookie)
	}
	return nil
}

// byBearer reports whether a personal access token came as Bearer. If it did, the same-origin rule does not apply:
// browsers add Basic credentials to requests by themselves, but never Bearer tokens.
func byBearer(r *http.Request) bool {
	_, ok := site.Bearer(r.Header, auth.TokenPrefix)
	return ok
}

// guarded returns a page that is shown only if this process may serve and [guard] does not refuse the request. show
// gets the parsed address.
func (h *Handler) guarded(show func(http.ResponseWriter, *http.Request, *site.Address) error) page {
	return func(w http.ResponseWriter, r *http.Request) error {
		r = h.audited(r)
		if older := h.Refused(); older != nil {
			return web.ShowOutdated(w, r, older, "/")
		}
		at := h.Site.Parse(r)
		if byToken(r) { // pages are for people
			if _, err := h.grantFor(r, &at, auth.NoScope); err != nil {
				problem.Of(err).Write(w, r)
			}
			return nil
		}
		if err := guard(w, r, &at); err != nil {
			if p := problem.Of(err); p.Status == http.StatusMisdirectedRequest {
				return h.pages.ShowMisdirected(w, r, at.MainOrigin())
			}
			return err
		}
		at.ClearPlanted(w, r, "/") // this page itself uses as many
		return show(w, r, &at)
	}
}
