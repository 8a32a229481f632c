package codehub

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/codehub/gateway/caddymodule/gateway"
	"github.com/codehub/gateway/caddymodule/web"
)

func init() {
	caddy.RegisterModule(new(Gateway))
	caddy.RegisterModule(new(MatchWorkspace))
}

// Gateway is the handler that lets the owner of a workspace through to it, wakes it
// when it sleeps, and shows what is going on meanwhile (SPEC 8). It must stand in
// front of a reverse_proxy whose dynamic upstreams come from `codehub`; the Caddyfile
// directive `codehub` puts both together.
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

	domain, mainHost      string
	wakeTimeout, pageWait time.Duration
	site                  *web.Site
	gateway               *gateway.Gateway
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
		{"wake_timeout", &g.WakeTimeout, gateway.DefaultWakeTimeout.String(), "", durationParser(&g.wakeTimeout, 100*time.Millisecond)},
		{"page_wait", &g.PageWait, gateway.DefaultPageWait.String(), "", durationParser(&g.pageWait, 0)},
	}
}

// Provision resolves the settings and finds the app.
func (g *Gateway) Provision(ctx caddy.Context) error {
	if err := resolveAll(g.table(), caddy.NewReplacer()); err != nil {
		return fmt.Errorf("codehub: %w", err)
	}
	app, err := appOf(ctx)
	if err != nil {
		return err
	}
	identity := app.sessionIdentity
	if g.Identity != "" {
		identity = placeholderIdentity(g.Identity)
	}
	g.site = web.NewSite(g.domain, g.mainHost, fromTrustedProxy)
	g.gateway = gateway.New(gateway.Options{
		Site:               g.site,
		Routes:             app.Routes(),
		Activator:          app.Activator(),
		Activity:           app.Activity(),
		Sessions:           app.Auth(),
		Service:            app.Service(),
		Identity:           identity,
		WaitReady:          app.WaitReady,
		Stopping:           app.Stopping(),
		Exiting:            caddy.Exiting,
		NoIdleTimeout:      noIdleTimeout,
		WakeTimeout:        g.wakeTimeout,
		PageWait:           g.pageWait,
		StripAuthorization: g.StripAuthorization,
		Log:                ctx.Logger(),
	})
	return nil
}

// ServeHTTP hands requests for workspaces to the gateway, with the next handler as
// its proxy.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	target, ok := gateway.Locate(g.site, r)
	if !ok {
		return next.ServeHTTP(w, r)
	}
	err := g.gateway.Serve(w, r, target, func(w http.ResponseWriter, r *http.Request, endpoint string) error {
		caddyhttp.SetVar(r.Context(), upstreamVar, endpoint)
		return proxyError(next.ServeHTTP(w, r))
	})
	if errors.Is(err, gateway.ErrClientGone) {
		return caddyhttp.Error(499, err) // as Caddy's own proxy says it in the access log
	}
	return err
}

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

// MatchWorkspace matches requests for workspaces: those to a path below /w/ and
// those to a host ws-{id}.<domain>. It does not look whether the workspace exists.
type MatchWorkspace struct {
	// Domain is that of the handler. Default: `localhost`.
	Domain Value `json:"domain,omitempty"`

	domain string
	site   *web.Site
}

// CaddyModule returns the Caddy module information.
func (*MatchWorkspace) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.matchers.codehub_workspace",
		New: func() caddy.Module { return new(MatchWorkspace) },
	}
}

// Provision resolves the domain.
func (m *MatchWorkspace) Provision(caddy.Context) error {
	if err := resolveAll([]setting{domainSetting(&m.Domain, &m.domain)}, caddy.NewReplacer()); err != nil {
		return fmt.Errorf("codehub_workspace: %w", err)
	}
	m.site = web.NewSite(m.domain, "", nil)
	return nil
}

// MatchWithError reports whether the request is for a workspace.
func (m *MatchWorkspace) MatchWithError(r *http.Request) (bool, error) {
	_, ok := gateway.Locate(m.site, r)
	return ok, nil
}

// domainSetting is the setting that every module with addresses has.
func domainSetting(text *Value, dst *string) setting {
	return setting{"domain", text, web.DefaultDomain, "", textParser(dst, web.CheckDomain)}
}

// mainHostSetting is the same for the host of the main site.
func mainHostSetting(text *Value, dst *string) setting {
	return setting{"main_host", text, "", "", textParser(dst, web.CheckHost)}
}

// Interface guards.
var (
	_ caddy.Provisioner                 = (*Gateway)(nil)
	_ caddyhttp.MiddlewareHandler       = (*Gateway)(nil)
	_ caddy.Provisioner                 = (*MatchWorkspace)(nil)
	_ caddyhttp.RequestMatcherWithError = (*MatchWorkspace)(nil)
)
