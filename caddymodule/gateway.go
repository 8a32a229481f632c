package codehub

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/activity"
	"github.com/codehub/gateway/coordinator/auth"
	"github.com/codehub/gateway/coordinator/route"
	"github.com/codehub/gateway/coordinator/workspace"
)

func init() {
	caddy.RegisterModule(new(Gateway))
}

// Defaults of [Gateway].
const (
	defaultIdentity    = "{http.auth.user.id}"
	defaultDomain      = "localhost"
	defaultWakeTimeout = 5 * time.Minute
	defaultMaxHeld     = 1000
	defaultPageWait    = 1500 * time.Millisecond
)

// readyWait is how long a request waits for a process that has just started.
const readyWait = 10 * time.Second

// Gateway is the handler that lets the owner of a workspace through to it, wakes
// it when it sleeps, and shows what is going on meanwhile (SPEC 8). It must stand
// in front of a reverse_proxy whose dynamic upstreams come from `codehub`; the
// Caddyfile directive `codehub` puts all of it together.
//
// A workspace is reached at the path /w/{id}/ of any host, or at the host
// ws-{id}.<domain>. Requests for neither go to the next handler untouched.
//
// In path mode all workspaces and the dashboard share one origin: what runs in a
// page of a workspace can do there whatever its user can. Use host mode where
// workspaces are not trusted.
type Gateway struct {
	// Identity is a placeholder that holds the id of the signed-in user, empty when
	// nobody is. Whoever sets it decides who gets in. Default:
	// `{http.auth.user.id}`, which every authentication handler of Caddy sets.
	Identity string `json:"identity,omitempty"`
	// Domain is the domain below which every workspace has a host of its own,
	// ws-{id}.<domain>. Browsers resolve every name below localhost by themselves; any
	// other domain needs a wildcard record and certificate. Default: `localhost`.
	Domain Value `json:"domain,omitempty"`
	// MainHost is the host, with its port unless that is the default one, where
	// people sign in. Workspaces' hosts send them there. Default: the domain, with
	// the port of the request.
	MainHost Value `json:"main_host,omitempty"`
	// WakeTimeout is how long a request of a program is held while its workspace
	// wakes, and how long waking goes on after the last request. Default: `5m`.
	WakeTimeout Value `json:"wake_timeout,omitempty"`
	// MaxHeld is how many requests may be held at a time, over all workspaces.
	// Further ones get status 503. Default: 1000.
	MaxHeld Value `json:"max_held,omitempty"`
	// PageWait is how long opening a page waits, where it is not yet known what to
	// show: for the wish to wake to be granted, and for the first answer of a
	// container that runs. Then the wake page is shown. Default: `1500ms`.
	PageWait Value `json:"page_wait,omitempty"`
	// StripAuthorization keeps the Authorization header from workspaces. Set it when
	// it is what people sign in with, as with basic_auth: otherwise the workspace
	// gets to know the password. Default: false, because applications in workspaces
	// use the header themselves.
	StripAuthorization bool `json:"strip_authorization,omitempty"`

	gatewaySettings
	deps    gatewayDeps
	waking  *waking
	logger  *zap.Logger
	release func() error
}

// gatewaySettings are the settings after their placeholders were replaced.
type gatewaySettings struct {
	identityKey string // the placeholder without its braces, if it is just one
	domain      string // lower case, with a leading dot
	mainHost    string
	wakeTimeout time.Duration
	maxHeld     int64
	pageWait    time.Duration
}

// gatewayDeps is what the handler needs of the rest of the product.
type gatewayDeps struct {
	routes   *route.Table
	wishes   wisher
	sessions workspaceSessions
	activity *activity.Buffer
	// waitReady returns when the table can be trusted.
	waitReady func(context.Context) error
	// stopping is closed when this configuration begins to stop.
	stopping <-chan struct{}
}

// workspaceSessions is the part of auth that signs people in on a workspace's own
// host.
type workspaceSessions interface {
	Redeem(ctx context.Context, ticket string, id workspace.ID) (token string, err error)
	WorkspaceSession(ctx context.Context, token string, id workspace.ID) (auth.User, error)
}

// CaddyModule returns the Caddy module information.
func (*Gateway) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.codehub",
		New: func() caddy.Module { return new(Gateway) },
	}
}

// Provision finds the app and resolves the settings.
func (g *Gateway) Provision(ctx caddy.Context) error {
	app, err := appOf(ctx)
	if err != nil {
		return err
	}
	return g.provision(ctx.Logger(), gatewayDeps{
		routes:    app.Routes(),
		wishes:    app.Service(),
		sessions:  app.Auth(),
		activity:  app.Activity(),
		waitReady: app.WaitReady,
		stopping:  app.Stopping(),
	})
}

func (g *Gateway) provision(log *zap.Logger, deps gatewayDeps) error {
	g.logger, g.deps = log, deps
	if err := g.resolve(caddy.NewReplacer()); err != nil {
		return fmt.Errorf("codehub: %w", err)
	}
	var err error
	g.waking, g.release, err = acquireWaking(deps.routes, deps.wishes, log)
	return err
}

// resolve reads the settings, and reports everything that is wrong with them.
func (g *Gateway) resolve(repl *caddy.Replacer) error {
	if g.Identity == "" {
		g.Identity = defaultIdentity
	}
	if id := g.Identity; len(id) > 2 && id[0] == '{' && strings.IndexByte(id, '}') == len(id)-1 {
		g.identityKey = id[1 : len(id)-1]
	}
	g.domain = defaultDomain
	g.wakeTimeout, g.maxHeld, g.pageWait = defaultWakeTimeout, defaultMaxHeld, defaultPageWait
	var errs []error
	for _, s := range []struct {
		name string
		text Value
		form form
	}{
		{"domain", g.Domain, textForm(&g.domain, domainName)},
		{"main_host", g.MainHost, textForm(&g.mainHost, hostPort)},
		{"wake_timeout", g.WakeTimeout, durationForm(&g.wakeTimeout, 100*time.Millisecond)},
		{"max_held", g.MaxHeld, integerForm(&g.maxHeld, 0, 1<<31)},
		{"page_wait", g.PageWait, durationForm(&g.pageWait, 0)},
	} {
		text, err := s.text.resolve(repl)
		if err == nil && text != "" {
			err = s.form(text)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s.name, err))
		}
	}
	g.domain = "." + strings.ToLower(g.domain)
	return errors.Join(errs...)
}

func domainName(s string) error {
	if s == "" || strings.ContainsAny(s, "/:*@ ") || strings.HasPrefix(s, ".") || strings.HasSuffix(s, ".") {
		return fmt.Errorf("%q is not a domain: write for example example.com, without scheme, port or wildcard", s)
	}
	return nil
}

func hostPort(s string) error {
	if strings.ContainsAny(s, "/*@ ") {
		return fmt.Errorf("%q is not a host: write for example example.com or example.com:8443, without scheme", s)
	}
	return nil
}

// Cleanup ends the waking of workspaces, unless a newer configuration goes on
// with it.
func (g *Gateway) Cleanup() error {
	if g.release == nil {
		return nil
	}
	return g.release()
}

// visit is one request to a workspace.
type visit struct {
	place
	who   visitor
	entry *route.Entry
}

// ServeHTTP decides what becomes of a request (SPEC 8).
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	p, ours := locate(r, g.domain)
	if !ours {
		return next.ServeHTTP(w, r)
	}
	if foreign(r) {
		problemCrossSite.with("A page of another origin must not use this workspace.").write(w)
		return nil
	}
	if !g.deps.routes.Ready() {
		if err := g.awaitTable(r.Context()); err != nil {
			return g.unavailable(w, "The server has just started.")
		}
	}
	v := visit{place: p, who: classify(r)}
	if p.host && r.URL.Path == ticketPath {
		return g.redeem(w, r, p)
	}
	user, err := g.user(r, p)
	if err != nil {
		g.logger.Error("checking who a request comes from", zap.Error(err))
		return g.unavailable(w, "It cannot be checked at the moment who you are.")
	}
	if user == "" {
		return g.signIn(w, r, v)
	}
	var st *route.State
	if p.id != "" {
		if e, ok := g.deps.routes.Lookup(p.id); ok {
			v.entry, st = e, e.State()
		}
	}
	switch {
	case st == nil || !st.Exists() || st.Route.OwnerID != user:
		return g.notFound(w, r, v)
	case p.bare:
		return redirectBare(w, r)
	}
	if own, ok := strings.CutPrefix(r.URL.Path[len(p.prefix):], ownPath); ok {
		if own == "status" {
			return g.status(w, r, v)
		}
		return g.notFound(w, r, v)
	}
	return g.pass(w, r, next, v)
}

// awaitTable holds a request until the route table is filled.
func (g *Gateway) awaitTable(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	if err := g.deps.waitReady(ctx); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-g.deps.routes.Loaded():
		return nil
	}
}

// user returns who has sent r, "" for nobody.
func (g *Gateway) user(r *http.Request, p place) (string, error) {
	if p.host && p.id != "" {
		if token := cookieValue(r.Header, workspaceCookie); token != "" {
			u, err := g.deps.sessions.WorkspaceSession(r.Context(), token, p.id)
			switch {
			case err == nil:
				return u.ID, nil
			case !errors.Is(err, auth.ErrNoSession) && !errors.Is(err, auth.ErrNoWorkspace):
				return "", err
			}
		}
	}
	repl := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	var id string
	if g.identityKey != "" {
		id, _ = repl.GetString(g.identityKey)
	} else {
		id = repl.ReplaceAll(g.Identity, "")
	}
	if id == "" {
		if err, ok := caddyhttp.GetVar(r.Context(), authErrorVar).(error); ok {
			return "", err
		}
	}
	return id, nil
}

// pass lets the request through, as soon as the workspace can take it.
func (g *Gateway) pass(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler, v visit) error {
	for first := true; ; first = false {
		st := v.entry.State()
		if !st.Ready() {
			var done bool
			var err error
			if st, done, err = g.hold(w, r, v, st); done {
				return err
			}
		}
		answer := newGuardedWriter(w, v.prefix)
		err := g.proxy(answer, r, next, v, st.Route.Endpoint)
		if err == nil || answer.begun || r.Context().Err() != nil {
			return err
		}
		var dial reverseproxy.DialError
		if !errors.As(err, &dial) {
			return g.broken(w, r, v, err)
		}
		// The container has gone, and the news is still on its way. Nothing was sent
		// to the client yet.
		v.entry.SetAnswered(st, false)
		switch {
		case first && repeatable(r):
		case v.who == navigation:
			return g.wakePage(w, r, v)
		default:
			return g.unavailable(w, "The workspace does not answer.")
		}
	}
}

// repeatable reports whether r can be sent again after a failed dial: it has no
// body of which a part may have been read.
func repeatable(r *http.Request) bool {
	return r.ContentLength == 0 || isExtendedConnect(r)
}

// proxy hands the request to the next handler, as the workspace shall see it.
func (g *Gateway) proxy(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler, v visit, endpoint string) error {
	caddyhttp.SetVar(r.Context(), upstreamVar, endpoint)
	g.deps.activity.Record(v.id)
	defer g.deps.activity.Record(v.id) // a long answer was used until its end
	defer v.enter(r)()
	cleanHeaders(r.Header, g.StripAuthorization)
	if v.prefix != "" {
		r.Header["X-Forwarded-Prefix"] = []string{v.prefix}
	}
	if isExtendedConnect(r) || r.Header.Get("Upgrade") != "" {
		watched, done := watchUpgrade(w, r, g.deps.activity.Slot(v.id))
		defer done()
		w = watched
	}
	return next.ServeHTTP(w, r)
}

// Interface guards.
var (
	_ caddy.Provisioner           = (*Gateway)(nil)
	_ caddy.CleanerUpper          = (*Gateway)(nil)
	_ caddyhttp.MiddlewareHandler = (*Gateway)(nil)
)
