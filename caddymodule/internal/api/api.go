// Package api serves everything of CodeHub that is not a workspace, as plain net/http
// (SPEC 9). It serves the REST API and its event stream below /api/v1, and the dashboard and the sign-in page with
// their assets. It also serves the sign-in for workspaces on hosts of their own (/auth/ticket), and /health,
// /health/ready and /health/coordinator.
//
// It translates between HTTP and the packages service, auth and events, which decide everything. No
// rule about workspaces or users belongs here, and it keeps no state of its own. Package v1 defines
// its objects, and package pages its pages. It does not import Caddy; [Options] holds everything
// that a server supplies.
package api

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/codehub/gateway/caddymodule/internal/api/pages"
	"github.com/codehub/gateway/caddymodule/internal/problem"
	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/caddymodule/internal/web"
	"github.com/codehub/gateway/coordinator"
	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/dataplane/auth"
	"github.com/codehub/gateway/coordinator/dataplane/events"
	"github.com/codehub/gateway/coordinator/outage"
	"github.com/codehub/gateway/coordinator/store/postgres"
)

// DefaultDatabaseTimeout is the usual [Options.DatabaseTimeout].
const DefaultDatabaseTimeout = 10 * time.Second

// readyTimeout is how long a request waits for a coordinator that is starting.
const readyTimeout = 10 * time.Second

// Options holds what a [Handler] needs. All fields are required unless their comment says
// otherwise.
type Options struct {
	// Site knows the addresses of the installation, and recognizes cross-origin requests.
	Site *site.Site
	// Service reads and changes workspaces, and owns all rules about workspaces.
	Service Workspaces
	// DeletionDelay is how long the deletion of a workspace can be undone at least.
	DeletionDelay time.Duration
	// Auth knows users, sessions and tickets.
	Auth Accounts
	// ClientAddress returns the client's IP address, empty if it is not known.
	ClientAddress func(*http.Request) string
	// Client returns the origin of a request for the audit.
	Client func(*http.Request) audit.Actor
	// Authenticated is called with the user of each admitted request of the REST API, for the access
	// log.
	Authenticated func(*http.Request, auth.User)
	// Audit records who requested what.
	Audit Audit
	// Usage knows how long workspaces were in each phase.
	Usage Usage
	// Identity returns the grant of a request. It is set if another authentication signs people in. Its errors are
	// those of [auth.Auth.Named]. Default: our own sessions.
	Identity func(*http.Request) (auth.Grant, error)
	// SignOut is the address where people sign out of the authentication behind Identity. It is empty if there is no
	// such address.
	SignOut string
	// NoPasswords turns off signing in with a password.
	NoPasswords bool
	// Provider is another way to sign in. Default: there is none.
	Provider Provider
	// Hub tells event streams about changes.
	Hub *events.Hub

	// Containers reaches into the containers of workspaces.
	Containers Containers
	// Administration is for administrators.
	Administration Administration

	// Health describes the coordinator of this process.
	Health func() coordinator.Health
	// Database returns the identity of the database (SPEC 2), or "" while it is not known.
	Database func() string
	// WaitReady returns nil once requests can be served, and an error when ctx ends
	// before that. Servers may accept requests earlier.
	WaitReady func(ctx context.Context) error
	// Stopping is closed when the server is about to stop. Event streams then end, so that the
	// server need not wait for them. Nil never stops.
	Stopping <-chan struct{}
	// Exit is closed when the process begins to exit. Commands on a WebSocket run until Exit is closed, even if another
	// configuration is loaded, because no server waits for WebSockets. Nil never exits.
	Exit <-chan struct{}
	// Refused returns why this process must no longer serve requests, or nil.
	Refused func() *postgres.OlderError
	// Exiting reports whether the process is about to exit and should get no new connections.
	Exiting func() bool
	// Heartbeat is how often an event stream sends a heartbeat and checks that its
	// session is still valid.
	Heartbeat time.Duration
	// ThawTimeout is how long a command waits for a container that was frozen. Default:
	// [DefaultThawTimeout].
	ThawTimeout time.Duration
	// DatabaseTimeout is how long a request waits for the database. A database may accept connections without ever
	// answering. Default: [DefaultDatabaseTimeout].
	DatabaseTimeout time.Duration
	// Logger gets the requests that failed. Default: none.
	Logger *zap.Logger
}

// Provider is an identity provider through which people can also sign in. It serves the paths below
// [providerPath].
type Provider interface {
	// Serve answers r; at is its address. The caller has refused requests of other origins.
	Serve(w http.ResponseWriter, r *http.Request, at *site.Address)
	// LogoutURL returns the address at which a browser signs out of the provider. The browser is sent there after the
	// end of a session that was started through issuer. LogoutURL returns "" if the provider has no such address.
	LogoutURL(at *site.Address, issuer string) string
}

// The paths of the provider, and where a sign-in begins.
const (
	providerPath  = "/auth/oidc/"
	providerStart = providerPath + "start"
)

// Handler serves the API and the pages. Its methods are safe for concurrent use.
type Handler struct {
	Options
	pages *pages.Pages
	mux   *http.ServeMux
	// streams counts the open event streams of each session. commands counts the running commands of each user.
	streams  streams
	commands streams
	// away logs each outage of the database once.
	away *outage.Reporter
	// local is true if every request is an operator's; see [Local].
	local bool
}

// New returns a handler. It performs no I/O.
func New(o Options) (*Handler, error) {
	if o.Site == nil || o.Service == nil || o.Auth == nil || o.Audit == nil || o.Usage == nil || o.Hub == nil || o.Health == nil ||
		o.WaitReady == nil || o.Refused == nil || o.Client == nil || o.Authenticated == nil {
		return nil, errors.New("the API needs a site, the service, auth, the audit, the usage, the hub, health, a way to wait " +
			"until ready, and to know clients")
	}
	if o.ThawTimeout <= 0 {
		o.ThawTimeout = DefaultThawTimeout
	}
	if o.DatabaseTimeout <= 0 {
		o.DatabaseTimeout = DefaultDatabaseTimeout
	}
	if o.Identity != nil {
		o.NoPasswords = true
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	embedded, err := pages.Load()
	if err != nil {
		return nil, err
	}
	h := &Handler{Options: o, pages: embedded, away: outage.New(o.Logger, zap.ErrorLevel,
		"requests are answered with 503 because the database does not answer, or takes no changes; "+
			"workspaces that run are served",
		"requests can be answered again")}
	h.mux = h.routes()
	return h, nil
}

// Serve answers r or hands it to next. It hands requests to next if their path is not part of the API, or if they are
// for a workspace's own host. Errors of the API are sent as application/problem+json. When a page cannot be shown,
// Serve sends nothing and returns a [*problem.Problem], so that the server can show an error page of its own. Errors of
// next are returned unchanged.
func (h *Handler) Serve(
	w http.ResponseWriter, r *http.Request, next func(http.ResponseWriter, *http.Request) error,
) error {
	if at := h.Site.Parse(r); at.OwnHost {
		return next(w, r)
	}
	matched, _ := h.mux.Handler(r)
	switch matched := matched.(type) {
	case page:
		return matched(w, r)
	case endpoint:
		h.mux.ServeHTTP(w, r) // sets the values of the path
		return nil
	}
	// ServeMux also answers by itself, for example with redirects to cleaned paths.
	return next(w, r)
}

// ForWorkspace reports whether r is for a workspace, by its host or its path. The gateway answers
// such requests, never this handler.
func (h *Handler) ForWorkspace(r *http.Request) bool {
	at := h.Site.Parse(r)
	return at.OwnHost || strings.HasPrefix(r.URL.Path, site.PathPrefix)
}

// ServeHTTP is Serve for servers without error pages of their own. It sends problems itself, and answers 404 at paths
// that are not part of the API.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	err := h.Serve(w, r, web.ShowNotFound)
	if err != nil {
		problem.Of(err).Write(w, r)
	}
}

// ready waits for a coordinator that is starting.
func (h *Handler) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if err := h.WaitReady(ctx); err != nil {
		p := problem.Unavailable.With("problem.starting", nil)
		p.Cause = errors.Join(errors.New("waiting for the coordinator"), err)
		return p
	}
	return nil
}

// byToken reports whether the request carries a personal access token. If so, no other credential counts.
func byToken(r *http.Request) bool {
	_, _, ok := site.AccessToken(r.Header, auth.TokenPrefix)
	return ok
}

// sessionGrant is grantFor for requests that only read.
func (h *Handler) sessionGrant(r *http.Request, at *site.Address) (auth.Grant, error) {
	return h.grantFor(r, at, auth.ScopeRead)
}

// grantFor returns the grant for a request. The grant comes from the request's personal access token, from its session,
// or from the authentication that runs before us. A token needs the scope.
func (h *Handler) grantFor(r *http.Request, at *site.Address, scope auth.Scope) (auth.Grant, error) {
	if h.local {
		return auth.Grant{User: auth.User{Role: auth.RoleAdmin}}, nil
	}
	if secret, _, ok := site.AccessToken(r.Header, auth.TokenPrefix); ok {
		return h.Auth.Token(r.Context(), secret, scope, h.ClientAddress(r))
	}
	if h.Identity != nil {
		return h.Identity(r)
	}
	token, err := at.Token(r.Header, site.SessionCookie)
	if err != nil || token == "" { // of two sessions, it is unknown which is the user's; see clean
		return auth.Grant{}, auth.ErrNoSession
	}
	return h.Auth.Grant(r.Context(), token)
}
