package codehub

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/codehub/gateway/caddymodule/internal/api"
	"github.com/codehub/gateway/caddymodule/internal/brand"
	"github.com/codehub/gateway/caddymodule/internal/problem"
	"github.com/codehub/gateway/caddymodule/internal/settings"
	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/caddymodule/internal/web"
	"github.com/codehub/gateway/coordinator/dataplane/auth"
	"github.com/codehub/gateway/coordinator/tracing"
)

func init() {
	caddy.RegisterModule(new(API))
}

// API serves everything of CodeHub that is not a workspace. It serves the REST API and its event stream below /api/v1,
// and the pages / and /login with their assets. It also serves the sign-in for workspaces on hosts of their own
// (/auth/ticket), and /health, /health/ready and /health/coordinator. Requests for workspaces and other paths go to the
// next handler. If no later handler answers, a path of the main site gets 404.
type API struct {
	// The addresses for this handler, where they differ from the app's. The gateway's
	// handler must have the same.
	settings.Site

	app     *App
	site    settings.Addresses
	brand   *brand.Brand
	handler *api.Handler
}

// CaddyModule returns the Caddy module information.
func (*API) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.codehub_api", New: func() caddy.Module { return new(API) }}
}

// table lists the handler's settings.
func (a *API) table() []settings.Setting { return a.Site.Table(&a.site) }

// Provision resolves the settings and finds the app.
func (a *API) Provision(ctx caddy.Context) error {
	if err := settings.Resolve(a.table(), caddy.NewReplacer()); err != nil {
		return fmt.Errorf("codehub_api: %w", err)
	}
	app, err := appOf(ctx)
	if err != nil {
		return err
	}
	a.app, a.brand = app, app.brand
	addresses := app.site.Override(a.site)
	if addresses.WorkspaceURL == site.PathURL {
		ctx.Logger().Warn("workspace_url is path: every workspace shares the dashboard's origin, " +
			"so a page of a workspace can do there whatever its user can; " +
			"write host where names below the domain lead here")
	}
	options := api.Options{
		Site:          newSite(addresses, app.untrusted),
		Service:       app.Coordinator().Service,
		Auth:          app.Coordinator().Auth,
		Hub:           app.Coordinator().Hub,
		ClientAddress: clientAddress,
		Client:        auditClient,
		Authenticated: func(r *http.Request, user auth.User) { offerUser(r.Context(), user) },
		Audit:         app.Coordinator().Audit,
		Usage:         app.Coordinator().Usage,
		Containers:    app.Coordinator(),
		Health:        app.Health,
		Database:      app.Coordinator().Identity.Database,
		WaitReady:     app.WaitReady,
		Stopping:      app.Stopping(),
		Exit:          exiting,
		Refused:       app.Refused,
		Exiting:       caddy.Exiting,
		Heartbeat:     app.Heartbeat(),

		Administration: app.Coordinator(),
		DeletionDelay:  app.DeletionDelay(),
		Logger:         ctx.Logger(),
	}
	if provider := app.oidcHandler(ctx.Logger()); provider != nil {
		options.Provider = provider
	}
	options.NoPasswords = !app.passwords
	options.Identity, options.SignOut = namedGrant(app.identity, app.Coordinator().Auth), app.identity.SignOut
	a.handler, err = api.New(options)
	return err
}

// ServeHTTP serves requests to the API, and hands others to the next handler. If a page cannot be shown, ServeHTTP
// returns an error, which Caddy's handle_errors may show.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if a.app.passOn(w, r) {
		return nil
	}
	askToReconnect(w, r)
	if a.handler.ForWorkspace(r) { // first: nearly every request is, and looking for a route costs
		return a.caddyError(w, r, next.ServeHTTP(w, r))
	}
	r = brand.In(r, a.brand)
	r = r.WithContext(tracing.WithRequest(r.Context(), func() string { return requestID(r) }))
	answer := &web.ReconnectWriter{}
	answer.Reset(w, r, caddy.Exiting)
	err := a.handler.Serve(answer, r, func(_ http.ResponseWriter, r *http.Request) error { return orNotFound(answer, r, next) })
	askToReconnect(w, r) // an answer that is still to come
	return a.caddyError(w, r, err)
}

// caddyError turns an error into one that Caddy knows, or answers the request itself.
func (a *API) caddyError(w http.ResponseWriter, r *http.Request, err error) error {
	if err == nil {
		return nil
	}
	var problem *problem.Problem
	switch {
	case !errors.As(err, &problem):
		return err
	case problem.Status == http.StatusNotFound:
		return notFound(w, brand.In(r, a.brand), err)
	case r.Context().Err() != nil:
		return caddyhttp.Error(499, err) // the client has gone
	}
	return caddyhttp.Error(problem.Status, err)
}

// orNotFound answers 404 if no later handler answers: Caddy would send an empty 200. The answer of a later handler,
// such as a file_server, is left alone.
func orNotFound(w *web.ReconnectWriter, r *http.Request, next caddyhttp.Handler) error {
	if err := next.ServeHTTP(w, r); err != nil || w.Begun() {
		return err
	}
	return notFound(w, r, errors.New("nothing answers at this path"))
}

// notFound answers 404 with our page or problem. If the configuration has its own error pages (handle_errors), it
// returns err instead, for these pages and for the log.
func notFound(w http.ResponseWriter, r *http.Request, err error) error {
	server, _ := r.Context().Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if server != nil && server.Errors != nil && len(server.Errors.Routes) > 0 {
		return caddyhttp.Error(http.StatusNotFound, err)
	}
	return web.ShowNotFound(w, r)
}

// Interface guards.
var (
	_ caddy.Provisioner           = (*API)(nil)
	_ caddyhttp.MiddlewareHandler = (*API)(nil)
)
