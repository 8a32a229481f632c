package codehub

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/codehub/gateway/caddymodule/gateway"
	"github.com/codehub/gateway/caddymodule/parse"
	"github.com/codehub/gateway/caddymodule/web"
	"github.com/codehub/gateway/coordinator/route"
)

func init() {
	caddy.RegisterModule(new(Gateway))
}

// Gateway is the handler that lets the owner of a workspace through to it, wakes it
// when it sleeps, and shows what is going on meanwhile (SPEC 8).
//
// A workspace is reached at the path /w/{id}/ of any host, or at the host
// ws-{id}.<domain>. Other requests go to the next handler untouched.
//
// In path mode all workspaces and the dashboard share one origin: a page of a
// workspace can do there whatever its user can. Use host mode where workspaces are
// not trusted.
type Gateway struct {
	// Identity is a placeholder that holds the id of the signed-in user, empty when
	// nobody is. Whatever sets it decides who gets in: `{http.auth.user.id}` is set by
	// every authentication handler of Caddy. Default: the user of CodeHub's own
	// session.
	Identity string `json:"identity,omitempty"`
	// Domain is the domain below which every workspace has a host of its own,
	// ws-{id}.<domain>. Browsers resolve every name below localhost by themselves; any
	// other domain needs a wildcard record and certificate. Default: `localhost`.
	Domain Value `json:"domain,omitempty"`
	// MainHost is the host, with its port unless that is the scheme's own, where
	// people sign in. Workspaces' own hosts send them there. Default: the domain, with
	// the port of the request.
	MainHost Value `json:"main_host,omitempty"`
	// WakeTimeout is how long a program's request is held while its workspace wakes,
	// and how long a wake-up lasts after the last request. Default: `5m`.
	WakeTimeout Value `json:"wake_timeout,omitempty"`
	// PageWait is how long a page waits while it is undecided what to show: for the
	// limits to allow the wake-up, and for the first answer of a container that runs.
	// Then the wake page is shown. Default: `1500ms`.
	PageWait Value `json:"page_wait,omitempty"`
	// StripAuthorization keeps the Authorization header from workspaces. Set it when
	// people sign in with that header, as with basic_auth: otherwise the workspace
	// learns the password. Default: false, because applications in workspaces use the
	// header themselves.
	StripAuthorization bool `json:"strip_authorization,omitempty"`
	// ProxyRaw is the handler that passes requests on to workspaces. It must take its
	// upstreams from `codehub`. Default: a reverse_proxy that keeps WebSockets open for
	// 24h after a reload.
	ProxyRaw json.RawMessage `json:"proxy,omitempty" caddy:"namespace=http.handlers inline_key=handler"`

	domain, mainHost      string
	wakeTimeout, pageWait time.Duration
	site                  *web.Site
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
func (g *Gateway) table() []setting {
	return []setting{
		domainSetting(&g.Domain, &g.domain),
		mainHostSetting(&g.MainHost, &g.mainHost),
		{"wake_timeout", &g.WakeTimeout, gateway.DefaultWakeTimeout.String(), "", parse.Duration(&g.wakeTimeout, 100*time.Millisecond)},
		{"page_wait", &g.PageWait, gateway.DefaultPageWait.String(), "", parse.Duration(&g.pageWait, 0)},
	}
}

// Provision finds the app, resolves the settings and loads the proxy.
func (g *Gateway) Provision(ctx caddy.Context) error {
	app, err := appOf(ctx)
	if err != nil {
		return err
	}
	return g.provision(ctx, gateway.Options{
		Routes:    app.Routes(),
		Activator: app.Activator(),
		Activity:  app.Activity(),
		Sessions:  app.Auth(),
		Service:   app.Service(),
		Identity:  app.sessionIdentity,
		WaitReady: app.WaitReady,
		Stopping:  app.Stopping(),
	})
}

// provision completes the options, which hold what comes from the app.
func (g *Gateway) provision(ctx caddy.Context, o gateway.Options) error {
	if err := resolveAll(g.table(), caddy.NewReplacer()); err != nil {
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
	g.site = web.NewSite(g.domain, g.mainHost, fromTrustedProxy)
	if g.Identity != "" {
		o.Identity = placeholderIdentity(g.Identity)
	} else {
		o.Sessions = offeringSessions{o.Sessions}
	}
	o.Site, o.Proxy, o.Log = g.site, g.forward, ctx.Logger()
	o.WakeTimeout, o.PageWait, o.StripAuthorization = g.wakeTimeout, g.pageWait, g.StripAuthorization
	o.Exiting, o.NoIdleTimeout = caddy.Exiting, noIdleTimeout
	g.gateway = gateway.New(o)
	return nil
}

// streamCloseDelay is how long a WebSocket lives on after a reload of the
// configuration. Without it reverse_proxy closes them at once.
const streamCloseDelay = 24 * time.Hour

// proxyJSON completes a reverse_proxy for workspaces, and returns its configuration.
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
	target, ok := gateway.Locate(g.site, r)
	if !ok {
		return next.ServeHTTP(w, r)
	}
	err := g.gateway.Serve(w, r, target)
	if errors.Is(err, gateway.ErrClientGone) {
		return caddyhttp.Error(499, err) // the status that Caddy's proxy logs for it, too
	}
	return err
}

// forward is the gateway's proxy.
func (g *Gateway) forward(w http.ResponseWriter, r *http.Request, st *route.State) error {
	caddyhttp.SetVar(r.Context(), upstreamVar, st)
	return proxyError(g.proxy.ServeHTTP(w, r, noNext))
}

// noNext stands behind the proxy, which answers every request itself.
var noNext caddyhttp.Handler = caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error { return nil })

// proxyError translates the errors of reverse_proxy to those of the gateway.
func proxyError(err error) error {
	if err == nil {
		return nil
	}
	var dial reverseproxy.DialError
	var status caddyhttp.HandlerError
	switch {
	case errors.As(err, &dial):
		return fmt.Errorf("%w: %w", gateway.ErrUnreachable, err)
	case errors.As(err, &status) && (status.StatusCode == http.StatusBadGateway || status.StatusCode == http.StatusGatewayTimeout):
		return &gateway.NoAnswerError{Status: status.StatusCode, Err: err}
	}
	return err
}

// placeholderIdentity returns who is signed in according to a placeholder, or to a
// text with several.
func placeholderIdentity(text string) func(*http.Request) (string, error) {
	key := ""
	if len(text) > 2 && text[0] == '{' && strings.IndexByte(text, '}') == len(text)-1 {
		key = text[1 : len(text)-1]
	}
	return func(r *http.Request) (string, error) {
		repl := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
		var id string
		if key != "" {
			id, _ = repl.GetString(key)
		} else {
			id = repl.ReplaceAll(text, "")
		}
		if id == "" {
			if err, ok := caddyhttp.GetVar(r.Context(), authErrorVar).(error); ok {
				return "", err
			}
		}
		return id, nil
	}
}

// fromTrustedProxy reports whether Caddy trusts the proxy that r comes from.
func fromTrustedProxy(r *http.Request) bool {
	trusted, _ := caddyhttp.GetVar(r.Context(), caddyhttp.TrustedProxyVarKey).(bool)
	return trusted
}

// noIdleTimeout lets the body of r be silent for ever: Caddy ends HTTP/2 and HTTP/3
// requests that send nothing for a minute.
func noIdleTimeout(r *http.Request) (restore func()) {
	const forever = 100 * 365 * 24 * time.Hour
	if idle, _ := caddyhttp.IdleTimeoutsFromContext(r.Context()); idle != nil {
		return idle.Override(forever, 0)
	}
	return func() {}
}

// domainSetting is the setting that every module with addresses has.
func domainSetting(text *Value, dst *string) setting {
	return setting{"domain", text, web.DefaultDomain, "", parse.Text(dst, web.CheckDomain)}
}

// mainHostSetting is the same for the host of the main site.
func mainHostSetting(text *Value, dst *string) setting {
	return setting{"main_host", text, "", "", parse.Text(dst, web.CheckHost)}
}

// Interface guards.
var (
	_ caddy.Provisioner           = (*Gateway)(nil)
	_ caddyhttp.MiddlewareHandler = (*Gateway)(nil)
)
