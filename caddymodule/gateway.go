package codehub

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/codehub/gateway/caddymodule/internal/gateway"
	"github.com/codehub/gateway/caddymodule/internal/gateway/forward"
	"github.com/codehub/gateway/caddymodule/internal/parse"
	"github.com/codehub/gateway/caddymodule/internal/settings"
	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/coordinator/dataplane/auth"
	"github.com/codehub/gateway/coordinator/dataplane/route"
)

func init() {
	caddy.RegisterModule(new(Gateway))
}

// Gateway is the handler that lets owners through to their workspaces (SPEC 8). It wakes a sleeping
// workspace and shows the progress meanwhile.
//
// A workspace is reached at the path /w/{id}/ of any host, or at the host
// ws-{id}.<domain>. Other requests go to the next handler untouched.
//
// In path mode all workspaces and the dashboard share one origin, so a page of a workspace can act
// there for its user. In host mode, the default, browsers are sent to the workspace's own host.
type Gateway struct {
	// Identity is a placeholder that holds the id of the signed-in user, empty without one. The
	// handler that sets it decides who gets in: every authentication handler of Caddy sets
	// `{http.auth.user.id}`. A personal access token also lets in the user who created it. Default:
	// the app's identity, else the user of CodeHub's own session.
	Identity string `json:"identity,omitempty"`
	// The addresses for this handler, where they differ from the app's. The handler of
	// the API must have the same.
	settings.Site
	// WakeTimeout is how long a program's request is held while its workspace wakes,
	// and how long a wake-up lasts after the last request. Default: `5m`.
	WakeTimeout settings.Value `json:"wake_timeout,omitempty"`
	// PageWait is how long the request for a page waits before the wake page is shown: for the limits to
	// allow the wake-up, and for a running container's first answer. Requests that an open page sends by
	// itself while its workspace dozes wait as long. Default: `1500ms`.
	PageWait settings.Value `json:"page_wait,omitempty"`
	// PageStatus is the status of the wake page, and of the pages that say why there is no workspace: `502`, or `503`
	// or `200` if a CDN or a proxy in front replaces such pages with its own. Programs keep their statuses. Default:
	// `502`.
	PageStatus settings.Value `json:"page_status,omitempty"`
	// StripAuthorization keeps the Authorization header from workspaces. Set it when
	// people sign in with that header, as with basic_auth: otherwise the workspace
	// learns the password. Default: false, because applications in workspaces use the
	// header themselves; always when the app's identity is `{http.auth.user.…}`.
	StripAuthorization bool `json:"strip_authorization,omitempty"`
	// ProxyRaw is the handler that passes requests on to workspaces. It must get its upstreams from
	// `codehub`. Default: a reverse_proxy that keeps WebSockets open for 24h after a reload.
	ProxyRaw json.RawMessage `json:"proxy,omitempty" caddy:"namespace=http.handlers inline_key=handler"`

	app                   *App // nil where something else than an app gives the options
	addresses             settings.Addresses
	wakeTimeout, pageWait time.Duration
	pageStatus            string
	site                  *site.Site
	vouched               func(userID string) auth.Grant // for whom the placeholder vouches
	untrusted             *untrustedProxies
	https                 bool // browsers use https, whatever arrives here
	gateway               *gateway.Gateway
	proxy                 caddyhttp.MiddlewareHandler
}

// CaddyModule returns the Caddy module information.
func (*Gateway) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.codehub",
		New: func() caddy.Module { return new(Gateway) },
	}
}

// table lists the handler's settings.
func (g *Gateway) table() []settings.Setting {
	return append(g.Site.Table(&g.addresses),
		settings.Setting{
			Name: "wake_timeout", Text: &g.WakeTimeout, Default: gateway.DefaultWakeTimeout.String(),
			Parse: parse.Duration(&g.wakeTimeout, 100*time.Millisecond),
		},
		settings.Setting{
			Name: "page_wait", Text: &g.PageWait, Default: gateway.DefaultPageWait.String(),
			Parse: parse.Duration(&g.pageWait, 0),
		},
		settings.Setting{
			Name: "page_status", Text: &g.PageStatus, Default: strconv.Itoa(gateway.DefaultPageStatus),
			Parse: parse.Text(&g.pageStatus, parse.OneOf("502", "503", "200")),
		})
}

// Provision finds the app, resolves the settings and loads the proxy.
func (g *Gateway) Provision(ctx caddy.Context) error {
	app, err := appOf(ctx)
	if err != nil {
		return err
	}
	g.app = app
	g.vouched, g.untrusted = app.Coordinator().Auth.Vouched, app.untrusted
	options := gateway.Options{
		Brand:     app.brand,
		Ports:     app.portAccess(),
		Routes:    app.Coordinator().Routes,
		Activator: app.Coordinator().Activator,
		Activity:  app.Coordinator().Activity,
		Sessions:  app.Coordinator().Auth,
		Service:   app.Coordinator().Service,
		Identity: func(r *http.Request, at *site.Address) (auth.Grant, error) {
			return sessionIdentity(app.Coordinator().Auth, r, at)
		},
		Token: func(r *http.Request, secret string) (auth.Grant, error) {
			return tokenGrant(app.Coordinator().Auth, r, secret)
		},
		Client: auditClient, ClientAddress: clientAddress,
		WaitReady: app.WaitReady,
		Stopping:  app.Stopping(),
		Refused:   app.Refused,
		Tracer:    app.Coordinator().Tracer,
		RequestID: requestID,
		Answered:  logAnswer,
		Metrics:   app.Coordinator().Metrics.Gateway,
	}
	if named := namedGrant(app.identity, app.Coordinator().Auth); named != nil && g.Identity == "" {
		options.IdentityOnly, options.Identity = true, func(r *http.Request, _ *site.Address) (auth.Grant, error) {
			grant, err := named(r)
			if errors.Is(err, auth.ErrNoSession) {
				return auth.Grant{}, nil
			}
			return grant, err
		}
		options.StripAuthorization = carriesAuthorization(app.identity)
	}
	return g.provision(ctx, app.site, options)
}

// provision completes the options that the app has filled in; the app's addresses apply if the handler has none.
func (g *Gateway) provision(ctx caddy.Context, addresses settings.Addresses, o gateway.Options) error {
	if err := settings.Resolve(g.table(), caddy.NewReplacer()); err != nil {
		return fmt.Errorf("codehub: %w", err)
	}
	if g.ProxyRaw == nil {
		g.ProxyRaw = proxyJSON(&reverseproxy.Handler{})
	}
	proxy, err := ctx.LoadModule(g, "ProxyRaw")
	if err != nil {
		return fmt.Errorf("codehub: loading the proxy: %w", err)
	}
	g.proxy = proxy.(caddyhttp.MiddlewareHandler)
	own := addresses.Override(g.addresses)
	if err := own.Check(); err != nil {
		return fmt.Errorf("codehub: %w", err)
	}
	g.site, g.https = newSite(own, g.untrusted), own.Scheme() == "https"
	if err := prepareTransport(ctx, g.proxy, o.Routes); err != nil {
		return err
	}
	if g.Identity != "" {
		o.Identity = placeholderIdentity(g.Identity, g.vouched)
	} else {
		o.Sessions = offeringSessions{o.Sessions}
	}
	o.Site, o.Proxy, o.Log = g.site, g.forward, ctx.Logger()
	o.WakeTimeout, o.PageWait = g.wakeTimeout, g.pageWait
	o.PageStatus, _ = strconv.Atoi(g.pageStatus) // one of three numbers
	o.StripAuthorization = g.StripAuthorization || o.StripAuthorization
	o.Exiting, o.NoIdleTimeout = caddy.Exiting, noIdleTimeout
	g.gateway = gateway.New(o)
	return nil
}

// streamCloseDelay is how long a WebSocket stays open after a reload of the configuration. Without this delay,
// reverse_proxy closes WebSockets immediately at a reload.
const streamCloseDelay = 24 * time.Hour

// proxyJSON sets the options that a reverse_proxy needs to serve workspaces, and returns its configuration.
func proxyJSON(proxy *reverseproxy.Handler) json.RawMessage {
	proxy.DynamicUpstreamsRaw = caddyconfig.JSONModuleObject(new(Upstreams), "source", "codehub", nil)
	if proxy.StreamCloseDelay == 0 {
		proxy.StreamCloseDelay = caddy.Duration(streamCloseDelay)
	}
	return caddyconfig.JSONModuleObject(proxy, "handler", "reverse_proxy", nil)
}

// ServeHTTP hands requests for workspaces to the gateway, and all others to the next
// handler.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if g.app != nil && g.app.passOn(w, r) {
		return nil
	}
	askToReconnect(w, r)
	at := g.site.Parse(r)
	if !at.ForWorkspace() {
		return next.ServeHTTP(w, r)
	}
	err := g.gateway.Serve(w, r, at)
	if err != nil { // its answer is still to come
		askToReconnect(w, r)
	}
	if errors.Is(err, gateway.ErrClientGone) {
		return caddyhttp.Error(499, err) // the status that Caddy's proxy logs for it, too
	}
	return err
}

// forward is the gateway's proxy.
func (g *Gateway) forward(w http.ResponseWriter, r *http.Request, st *route.State) error {
	caddyhttp.SetVar(r.Context(), upstreamVar, st)
	if g.https && r.TLS == nil {
		sayHTTPS(r)
	}
	return proxyError(g.proxy.ServeHTTP(w, r, noNext))
}

// sayHTTPS tells the application that the browser uses https. It does so if public_url begins with https and a proxy in
// front terminates TLS. Without sayHTTPS, reverse_proxy would report how the request arrived here, or what a trusted
// proxy has reported. The headers of a proxy that is not trusted are dropped first.
func sayHTTPS(r *http.Request) {
	if !fromTrustedProxy(r) {
		delete(r.Header, "X-Forwarded-For")
		r.Header["X-Forwarded-Host"] = []string{r.Host}
		caddyhttp.SetVar(r.Context(), caddyhttp.TrustedProxyVarKey, true)
	}
	r.Header["X-Forwarded-Proto"] = []string{"https"}
}

// noNext is passed to the proxy as its next handler. The proxy answers every request itself, so it never calls noNext.
var noNext caddyhttp.Handler = caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error { return nil })

// proxyError translates the errors of reverse_proxy to those of the gateway.
func proxyError(err error) error {
	if err == nil {
		return nil
	}
	var dial reverseproxy.DialError
	var status caddyhttp.HandlerError
	switch {
	case errors.Is(err, route.ErrUnconfirmed), errors.Is(err, route.ErrEnded):
		return fmt.Errorf("%w: %w", forward.ErrUnconfirmed, err)
	case errors.As(err, &dial):
		return fmt.Errorf("%w: %w", forward.ErrUnreachable, err)
	case errors.As(err, &status) &&
		(status.StatusCode == http.StatusBadGateway || status.StatusCode == http.StatusGatewayTimeout):
		return &forward.NoAnswerError{Status: status.StatusCode, Err: err}
	}
	return err
}

// placeholderIdentity returns a function that finds the signed-in user. The user's id is the value of a placeholder, or
// of a text with several placeholders. vouched makes the grant for a user without a session.
func placeholderIdentity(
	text string, vouched func(userID string) auth.Grant,
) func(*http.Request, *site.Address) (auth.Grant, error) {
	key := ""
	if len(text) > 2 && text[0] == '{' && strings.IndexByte(text, '}') == len(text)-1 {
		key = text[1 : len(text)-1]
	}
	return func(r *http.Request, _ *site.Address) (auth.Grant, error) {
		repl := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
		var id string
		if key != "" {
			id, _ = repl.GetString(key)
		} else {
			id = repl.ReplaceAll(text, "")
		}
		if id == "" {
			if err, ok := caddyhttp.GetVar(r.Context(), authErrorVar).(error); ok {
				return auth.Grant{}, err
			}
		}
		if grant, ok := caddyhttp.GetVar(r.Context(), grantVar).(auth.Grant); ok && grant.ID == id {
			return grant, nil // of CodeHub's own provider
		}
		return vouched(id), nil
	}
}

// caddysIdleTimeout is how long a client may be silent by default. It is silent while it sends nothing of a body, or
// reads nothing of an answer.
const caddysIdleTimeout = time.Minute

// noIdleTimeout allows the client of r to be silent without a limit while it talks to an application. If the Caddyfile
// sets a limit other than Caddy's default, that limit still applies. On a WebSocket over HTTP/2 or HTTP/3, silence is
// always allowed.
func noIdleTimeout(r *http.Request) (restore func()) {
	const forever = 100 * 365 * 24 * time.Hour
	reader, writer := caddyhttp.IdleTimeoutsFromContext(r.Context())
	always := site.IsExtendedConnect(r)
	isDefault := func(d *caddyhttp.IdleDeadline) bool { return d.Timeout == caddysIdleTimeout && d.MinRate == 0 }
	restoreReader, restoreWriter := func() {}, func() {}
	if reader != nil && (always || isDefault(&reader.Deadline)) && r.Body != http.NoBody {
		restoreReader = reader.Override(forever, 0)
	}
	if writer != nil && (always || isDefault(&writer.Deadline)) {
		restoreWriter = writer.Override(forever, 0, 0)
	}
	return func() { restoreReader(); restoreWriter() }
}

// Interface guards.
var (
	_ caddy.Provisioner           = (*Gateway)(nil)
	_ caddyhttp.MiddlewareHandler = (*Gateway)(nil)
)
