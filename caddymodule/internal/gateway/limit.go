package gateway

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/codehub/gateway/caddymodule/internal/gateway/decision"
	"github.com/codehub/gateway/caddymodule/internal/gateway/pages"
	"github.com/codehub/gateway/caddymodule/internal/web"
	"github.com/codehub/gateway/coordinator/dataplane/route"
	"github.com/codehub/gateway/coordinator/dataplane/service"
)

// The limit page names the user's other workspaces, and puts them to sleep. It is on the main
// site: on a workspace's own host a service worker of the workspace could read it and press
// its buttons.

// limitPath is where the page is, and swapPath where it sends its form, below [web.OwnPath].
const (
	limitPath = "limit"
	swapPath  = "swap"
)

// isOfMainSite reports whether r is for one of those.
func (t Target) isOfMainSite(r *http.Request) bool {
	own, _ := strings.CutPrefix(r.URL.Path[len(t.Prefix):], web.OwnPath)
	return own == limitPath || own == swapPath
}

// limit answers who was led here from the workspace's own host: it tries again to wake the
// workspace, and shows the limit that forbids it.
func (g *Gateway) limit(req *request) error {
	if req.r.Method != http.MethodGet && req.r.Method != http.MethodHead {
		web.ProblemMethod.With("Use GET.").Write(req.w)
		return nil
	}
	back := g.wanted(req, req.r.URL.Query().Get("return"))
	if req.kind == decision.Navigation || req.kind == decision.SelfNavigation && g.Site.PerHost() {
		return g.wakeAndLead(req, back)
	}
	web.Redirect(req.w, back, http.StatusSeeOther) // a page of the workspace, which must not wake it by itself
	return nil
}

// showLimit shows which limit keeps the workspace from running, and what the user can do, or
// leads to where it is shown. back is the address that was wanted.
func (g *Gateway) showLimit(req *request, st *route.State, refusal *service.LimitError, back string) error {
	if req.target.Host {
		back = g.Site.PortOrigin(req.r, req.target.ID, req.target.Port) + back
		at := g.Site.MainOrigin(req.r) + strings.TrimSuffix(web.WorkspacePath(req.target.ID), "/") + web.OwnPath + limitPath
		web.Redirect(req.w, at+"?"+url.Values{"return": {back}}.Encode(), http.StatusSeeOther)
		return nil
	}
	req.w.Header().Set("Retry-After", limitRetryAfter)
	page := &pages.Limit{
		Name: st.Route.Name, Back: back, Home: g.home(req),
		Global: refusal.Scope == "global", Max: refusal.Limit,
		Running: g.running(req), SwapURL: req.target.Prefix + web.OwnPath + swapPath,
	}
	if to, err := url.Parse(back); err == nil && to.Host != "" {
		page.Origin = to.Scheme + "://" + to.Host
	}
	return pages.ShowLimit(req.w, req.r, page)
}

// wanted returns the address in s, to which a page leads back: one of the workspace, on any of
// its hosts if the request came to the main site. Any other is replaced by the workspace's first.
func (g *Gateway) wanted(req *request, s string) string {
	t := req.target
	if to, err := url.Parse(s); err == nil && to.Host != "" && !t.Host {
		if h, ok := g.Site.WorkspaceHost(to.Host); ok && h.ID == t.ID {
			return g.Site.PortOrigin(req.r, h.ID, h.Port) + web.LocalPath(to.RequestURI())
		}
	}
	if path := web.LocalPath(s); strings.HasPrefix(path, t.Prefix+"/") && (t.Host || !g.Site.PerHost()) {
		return path
	}
	if !t.Host && g.Site.PerHost() {
		return g.Site.WorkspaceOrigin(req.r, t.ID) + "/"
	}
	return t.Prefix + "/"
}
