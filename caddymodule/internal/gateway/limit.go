package gateway

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/codehub/gateway/caddymodule/internal/gateway/decision"
	"github.com/codehub/gateway/caddymodule/internal/gateway/pages"
	"github.com/codehub/gateway/caddymodule/internal/problem"
	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/coordinator/dataplane/route"
	"github.com/codehub/gateway/coordinator/dataplane/service"
)

// The limit page names the user's other workspaces, and puts them to sleep. It is on the main
// site: on a workspace's own host a service worker of the workspace could read it and press
// its buttons.

// limitPath is the path of the limit page, and swapPath is the path to which the page sends its form. Both are below
// [site.OwnPath].
const (
	limitPath = "limit"
	swapPath  = "swap"
)

// isOfMainSite reports whether the request is for one of these paths.
func (req *request) isOfMainSite() bool {
	own, _ := strings.CutPrefix(req.r.URL.Path[len(req.at.Prefix):], site.OwnPath)
	return own == limitPath || own == swapPath
}

// limit answers a person who was redirected from the workspace's own host because of a limit. It tries again to wake
// the workspace, and shows the limit if that still forbids it.
func (g *Gateway) limit(req *request) error {
	if req.r.Method != http.MethodGet && req.r.Method != http.MethodHead {
		problem.Method.With("problem.use_get", nil).Write(req.w, req.r)
		return nil
	}
	back := g.wanted(req, req.r.URL.Query().Get("return"))
	if req.kind == decision.Navigation || req.kind == decision.SelfNavigation && g.Site.PerHost() {
		return g.wakeAndRedirect(req, back)
	}
	site.Redirect(req.w, back, http.StatusSeeOther) // a page of the workspace, which must not wake it by itself
	return nil
}

// showLimit shows which limit keeps the workspace from running and what the user can do, or
// redirects to the page that does. back is the requested address.
func (g *Gateway) showLimit(req *request, st *route.State, refusal *service.LimitError, back string) error {
	if req.at.OwnHost {
		back = req.at.PortOrigin(req.at.ID, req.at.Port) + back
		to := req.at.MainOrigin() + strings.TrimSuffix(site.WorkspacePath(req.at.ID), "/") + site.OwnPath + limitPath
		site.Redirect(req.w, to+"?"+url.Values{"return": {back}}.Encode(), http.StatusSeeOther)
		return nil
	}
	req.w.Header().Set("Retry-After", limitRetryAfter)
	page := &pages.Limit{
		Name: st.Route.Name, Back: back, Home: g.home(req),
		Global: refusal.Scope == "global", Max: refusal.Limit,
		Running: g.running(req), SwapURL: req.at.Prefix + site.OwnPath + swapPath,
	}
	if to, err := url.Parse(back); err == nil && to.Host != "" {
		page.Origin = to.Scheme + "://" + to.Host
	}
	return pages.ShowLimit(g.page(req), g.branded(req), page)
}

// wanted returns the address s, to which a page leads back, if it is an address of the workspace. If the request came
// to the main site, this may be an address on any of the workspace's hosts. For any other s it returns the address of
// the workspace's root.
func (g *Gateway) wanted(req *request, s string) string {
	t := &req.at
	if to, err := url.Parse(s); err == nil && to.Host != "" && !t.OwnHost {
		if h, ok := g.Site.WorkspaceHost(to.Host); ok && h.ID == t.ID {
			return req.at.PortOrigin(h.ID, h.Port) + site.LocalPath(to.RequestURI())
		}
	}
	if path := site.LocalPath(s); strings.HasPrefix(path, t.Prefix+"/") && (t.OwnHost || !g.Site.PerHost()) {
		return path
	}
	if !t.OwnHost && g.Site.PerHost() {
		return req.at.WorkspaceOrigin(t.ID) + "/"
	}
	return t.Prefix + "/"
}
