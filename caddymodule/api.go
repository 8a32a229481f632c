package codehub

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/auth"
	"github.com/codehub/gateway/coordinator/service"
	"github.com/codehub/gateway/coordinator/workspace"
)

func init() {
	caddy.RegisterModule(new(API))
}

// readyTimeout is how long a request waits for a coordinator that is starting.
const readyTimeout = 10 * time.Second

// API serves everything of CodeHub that is not a workspace: the REST API and its
// event stream below /api/v1, the pages / and /login with their assets, the
// sign-in for workspaces on hosts of their own (/auth/ticket), /health and
// /health/coordinator. Other paths, and all requests to a workspace's host, go on
// to the next handler.
type API struct {
	// Domain is the domain whose subdomains `ws-{id}` are workspaces; the gateway's
	// handler must have the same. Default: `localhost`.
	Domain Value `json:"domain,omitempty"`
	// WorkspaceURL says which address of a workspace the API and the pages show:
	// `path` for `/w/{id}/`, which needs one host name only, or `host` for
	// `ws-{id}.{domain}`, which keeps every workspace on an origin of its own.
	// Default: `path`.
	WorkspaceURL Value `json:"workspace_url,omitempty"`

	domain  string
	urlForm string
	app     *App
	site    *site
	logger  *zap.Logger
}

// CaddyModule returns the Caddy module information.
func (*API) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.codehub_api", New: func() caddy.Module { return new(API) }}
}

func (a *API) table() []setting {
	return []setting{
		{"domain", &a.Domain, "localhost", "", textForm(&a.domain, domainName)},
		{"workspace_url", &a.WorkspaceURL, "path", "", textForm(&a.urlForm, oneOf("path", "host"))},
	}
}

// Provision resolves the settings and finds the app.
func (a *API) Provision(ctx caddy.Context) (err error) {
	a.logger = ctx.Logger()
	if err := resolveAll(a.table(), caddy.NewReplacer()); err != nil {
		return fmt.Errorf("codehub_api: %w", err)
	}
	if a.site, err = loadSite(); err != nil {
		return err
	}
	a.app, err = appOf(ctx)
	return err
}

// ServeHTTP answers what is ours and passes on the rest.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if _, theirs := workspaceHost(r.Host, "."+a.domain); theirs {
		return next.ServeHTTP(w, r)
	}
	if rest, ok := strings.CutPrefix(r.URL.Path, "/api/v1/"); ok {
		a.serveAPI(w, r, rest)
		return nil
	}
	page, ok := map[string]func(http.ResponseWriter, *http.Request) error{
		"/":                   a.dashboardPage,
		"/login":              a.loginPage,
		"/auth/ticket":        a.ticket,
		"/health":             a.health,
		"/health/coordinator": a.coordinatorHealth,
	}[r.URL.Path]
	if !ok && strings.HasPrefix(r.URL.Path, assetPath) {
		page, ok = a.site.serveAsset, true
	}
	if !ok {
		return next.ServeHTTP(w, r)
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		return caddyhttp.Error(http.StatusMethodNotAllowed, fmt.Errorf("%s is not offered at %s", r.Method, r.URL.Path))
	}
	return page(w, r)
}

// call is one API request on its way through a handler.
type call struct {
	*API
	w     http.ResponseWriter
	r     *http.Request
	token string
	user  auth.User
	id    workspace.ID // of the path, if it names one
}

// endpoint is what is offered under one path, by method.
type endpoint map[string]func(*call) error

// find returns the endpoint for a path below /api/v1/, and whether it needs a
// session.
func find(path string) (e endpoint, id string, public bool) {
	switch path {
	case "auth/login":
		return endpoint{"POST": (*call).login}, "", true
	case "auth/logout":
		return endpoint{"POST": (*call).logout}, "", true
	case "auth/session":
		return endpoint{"GET": (*call).session}, "", false
	case "workspaces":
		return endpoint{"GET": (*call).listWorkspaces, "POST": (*call).createWorkspace}, "", false
	case "events":
		return endpoint{"GET": (*call).events}, "", false
	}
	rest, ok := strings.CutPrefix(path, "workspaces/")
	if !ok {
		return nil, "", false
	}
	id, action, ok := strings.Cut(rest, "/")
	switch {
	case !ok:
		return endpoint{"GET": (*call).getWorkspace, "PATCH": (*call).patchWorkspace, "DELETE": (*call).deleteWorkspace}, id, false
	case action == "recover":
		return endpoint{"POST": (*call).recoverWorkspace}, id, false
	}
	return nil, "", false
}

// serveAPI answers a request below /api/v1/, errors included.
func (a *API) serveAPI(w http.ResponseWriter, r *http.Request, path string) {
	c := &call{API: a, w: w, r: r, token: sessionToken(r)}
	err := c.serve(path)
	if err == nil || r.Context().Err() != nil {
		return
	}
	p := problemOf(err)
	if p.Status >= 500 {
		a.logger.Error("request failed",
			zap.String("method", r.Method), zap.String("path", r.URL.Path), zap.Int("status", p.Status), zap.Error(err))
	}
	p.write(w)
}

func (c *call) serve(path string) error {
	e, id, public := find(path)
	if e == nil {
		return problemNotFound.with("The API has no path %s.", c.r.URL.Path)
	}
	method := c.r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	handle, ok := e[method]
	if !ok {
		var offered []string
		for _, m := range []string{"GET", "POST", "PATCH", "DELETE"} {
			if e[m] != nil {
				offered = append(offered, m)
			}
		}
		c.w.Header().Set("Allow", strings.Join(offered, ", "))
		return problemMethod.with("Use %s.", strings.Join(offered, " or "))
	}
	if method != http.MethodGet {
		if err := sameOrigin(c.r); err != nil {
			return err
		}
	}
	if err := c.ready(c.r.Context()); err != nil {
		return err
	}
	if !public {
		user, err := sessionUser(c.app, c.r)
		if err != nil {
			return err
		}
		c.user = user
	}
	if id != "" || strings.HasPrefix(path, "workspaces/") {
		parsed, err := workspace.ParseID(id)
		if err != nil {
			return service.ErrNotFound
		}
		c.id = parsed
	}
	return handle(c)
}

func (a *API) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if err := a.app.WaitReady(ctx); err != nil {
		p := problemUnavailable.with("The server is starting; try again in a moment.")
		p.cause = fmt.Errorf("waiting for the coordinator: %w", err)
		return p
	}
	return nil
}

// actor says for whom the service layer acts.
func (c *call) actor() service.Actor {
	return service.Actor{UserID: c.user.ID, Admin: c.user.Role == "admin", Kind: "api"}
}

// sameOrigin refuses a request that changes something when a browser says that
// another site makes it. Programs send neither header.
func sameOrigin(r *http.Request) error {
	switch site := r.Header.Get("Sec-Fetch-Site"); site {
	case "", "same-origin", "none":
	default:
		return problemCrossSite.with("A page of another site (%s) must not use this API.", site)
	}
	if origin := r.Header.Get("Origin"); origin != "" {
		u, err := url.Parse(origin)
		if err != nil || !strings.EqualFold(u.Host, r.Host) {
			return problemCrossSite.with("A page of another origin must not use this API.")
		}
	}
	return nil
}

// workspaceOrigin is the origin of a workspace on a host of its own, on the port
// that the request came to.
func (a *API) workspaceOrigin(r *http.Request, id workspace.ID) string {
	host := id.ContainerName() + "." + a.domain
	if _, port, err := net.SplitHostPort(r.Host); err == nil && port != "" {
		host = net.JoinHostPort(host, port)
	}
	return scheme(r) + "://" + host
}

// workspaceURL is the address that people open.
func (a *API) workspaceURL(r *http.Request, id workspace.ID) string {
	if a.urlForm == "host" {
		return a.workspaceOrigin(r, id) + "/"
	}
	return "/w/" + string(id) + "/"
}

// unavailable turns an error of finding out the session into an answer for pages.
func unavailable(err error) error {
	if errors.Is(err, context.Canceled) {
		return caddyhttp.Error(499, err)
	}
	return caddyhttp.Error(http.StatusServiceUnavailable, err)
}

// Interface guards.
var (
	_ caddy.Provisioner           = (*API)(nil)
	_ caddyhttp.MiddlewareHandler = (*API)(nil)
)
