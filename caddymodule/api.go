package codehub

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/codehub/gateway/caddymodule/api"
	"github.com/codehub/gateway/caddymodule/parse"
	"github.com/codehub/gateway/caddymodule/web"
)

func init() {
	caddy.RegisterModule(new(API))
}

// API serves everything of CodeHub that is not a workspace: the REST API and its
// event stream below /api/v1, the pages / and /login with their assets, the
// sign-in for workspaces on hosts of their own (/auth/ticket), /health and
// /health/coordinator. Other paths, and all requests to a workspace's own host, go
// to the next handler.
type API struct {
	// Domain is the domain whose subdomains `ws-{id}` are workspaces; the gateway's
	// handler must have the same. Default: `localhost`.
	Domain Value `json:"domain,omitempty"`
	// MainHost is the host, with its port unless that is the scheme's own, where
	// people sign in; the gateway's handler must have the same. Set it behind a proxy
	// that rewrites the Host header: pages of this origin may use the API. Default:
	// the host of each request.
	MainHost Value `json:"main_host,omitempty"`
	// WorkspaceURL says which address of a workspace the API and the pages show:
	// `path` for `/w/{id}/`, which needs one host name only, or `host` for
	// `ws-{id}.{domain}`, which gives every workspace an origin of its own. Default:
	// `path`.
	WorkspaceURL Value `json:"workspace_url,omitempty"`

	domain, mainHost, workspaceURL string
	handler                        *api.Handler
}

// CaddyModule returns the Caddy module information.
func (*API) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.codehub_api", New: func() caddy.Module { return new(API) }}
}

// table lists the handler's settings.
func (a *API) table() []setting {
	return []setting{
		domainSetting(&a.Domain, &a.domain),
		mainHostSetting(&a.MainHost, &a.mainHost),
		{"workspace_url", &a.WorkspaceURL, api.PathURL, "", parse.Text(&a.workspaceURL, parse.OneOf(api.PathURL, api.HostURL))},
	}
}

// Provision resolves the settings and finds the app.
func (a *API) Provision(ctx caddy.Context) error {
	if err := resolveAll(a.table(), caddy.NewReplacer()); err != nil {
		return fmt.Errorf("codehub_api: %w", err)
	}
	app, err := appOf(ctx)
	if err != nil {
		return err
	}
	a.handler, err = api.New(api.Options{
		Site:         web.NewSite(a.domain, a.mainHost, fromTrustedProxy),
		WorkspaceURL: a.workspaceURL,
		Service:      app.Service(),
		Auth:         app.Auth(),
		Hub:          app.Hub(),
		Health: func() api.Health {
			h := app.Health()
			return api.Health{IsLeader: h.IsLeader, NodeID: h.NodeID, Uptime: h.Uptime, Led: h.Led, Shards: h.Shards, Problems: h.Problems}
		},
		WaitReady: app.WaitReady,
		Stopping:  app.Stopping(),
		Heartbeat: app.Heartbeat(),

		DeletionDelay: app.DeletionDelay(),
		Logger:        ctx.Logger(),
	})
	return err
}

// ServeHTTP serves requests to the API, and hands others to the next handler. A page
// that cannot be shown is an error, which Caddy's handle_errors may show.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	err := a.handler.Serve(w, r, next.ServeHTTP)
	var problem *web.Problem
	switch {
	case !errors.As(err, &problem):
		return err
	case r.Context().Err() != nil:
		return caddyhttp.Error(499, err) // the client has gone
	}
	return caddyhttp.Error(problem.Status, err)
}

// Interface guards.
var (
	_ caddy.Provisioner           = (*API)(nil)
	_ caddyhttp.MiddlewareHandler = (*API)(nil)
)
