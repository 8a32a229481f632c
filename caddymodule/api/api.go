// Package api serves everything of CodeHub that is not a workspace, as plain
// net/http: the REST API and its event stream below /api/v1, the dashboard and the
// sign-in page with their assets, the sign-in for workspaces on hosts of their own
// (/auth/ticket), /health and /health/coordinator (SPEC 9).
//
// It translates between HTTP and the packages service, auth and events, which
// decide everything: no rule about workspaces or users belongs here, and it keeps
// no state of its own. It imports no Caddy; what a server supplies comes in as
// [Options].
package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/codehub/gateway/caddymodule/web"
	"github.com/codehub/gateway/coordinator/auth"
	"github.com/codehub/gateway/coordinator/events"
	"github.com/codehub/gateway/coordinator/outage"
	"github.com/codehub/gateway/coordinator/service"
	"github.com/codehub/gateway/coordinator/workspace"
)

// DefaultHeartbeat is the usual [Options.Heartbeat] (SPEC 9).
const DefaultHeartbeat = 30 * time.Second

// DefaultPatience is the usual [Options.Patience].
const DefaultPatience = 10 * time.Second

// readyTimeout is how long a request waits for a coordinator that is starting.
const readyTimeout = 10 * time.Second

// The values of [Options.WorkspaceURL].
const (
	// PathURL is /w/{id}/ on the main site, which needs one host name only.
	PathURL = "path"
	// HostURL is ws-{id}.<domain>, which gives every workspace an origin of its own.
	HostURL = "host"
)

// Options are what a [Handler] needs. All of them are required, unless said
// otherwise.
type Options struct {
	// Site knows the addresses of the installation, and which requests are cross origin.
	Site *web.Site
	// WorkspaceURL is which address of a workspace the API and the pages show:
	// [PathURL] (default) or [HostURL].
	WorkspaceURL string

	// Service reads and changes workspaces, and owns all rules about them.
	Service *service.Service
	// DeletionDelay is how long the deletion of a workspace can be undone for certain.
	DeletionDelay time.Duration
	// Auth knows users, sessions and tickets.
	Auth *auth.Auth
	// Hub tells event streams about changes.
	Hub *events.Hub

	// Health describes the coordinator of this process.
	Health func() Health
	// WaitReady returns nil once requests can be served, and an error when ctx ends
	// before that. Servers may accept requests earlier.
	WaitReady func(ctx context.Context) error
	// Stopping is closed when the server is about to stop. Event streams end then;
	// otherwise the server would wait for them. Nil never stops.
	Stopping <-chan struct{}
	// Heartbeat is how often an event stream sends a heartbeat and checks that its
	// session is still valid. Default: [DefaultHeartbeat].
	Heartbeat time.Duration
	// Patience is how long a request waits for the database, which may take connections
	// and not answer. Default: [DefaultPatience].
	Patience time.Duration
	// Logger gets the requests that failed. Default: none.
	Logger *zap.Logger
}

// Health is what /health/coordinator answers (SPEC 5).
type Health struct {
	// IsLeader is whether this process leads, be it one shard of several.
	IsLeader bool
	// Led are the shards that this process leads, of the Shards that there are.
	Led    []int
	Shards int
	// NodeID names this process among those of the installation.
	NodeID string
	// Uptime is the time since the coordinator was started.
	Uptime time.Duration
	// Problems are sentences about what an administrator has to put right, such as a
	// container engine that is not the one that was recorded.
	Problems []string
}

// Handler serves the API and the pages. Its methods are safe for concurrent use.
type Handler struct {
	Options
	assets *assets
	mux    *http.ServeMux
	// away logs an outage of what requests need, which is the database, once.
	away *outage.Reporter
}

// New returns a handler. It performs no I/O.
func New(o Options) (*Handler, error) {
	if o.Site == nil || o.Service == nil || o.Auth == nil || o.Hub == nil || o.Health == nil || o.WaitReady == nil {
		return nil, errors.New("the API needs a site, the service, auth, the hub, health and a way to wait until ready")
	}
	switch o.WorkspaceURL {
	case "":
		o.WorkspaceURL = PathURL
	case PathURL, HostURL:
	default:
		return nil, errors.New("the workspace URL must be " + PathURL + " or " + HostURL)
	}
	if o.Heartbeat <= 0 {
		o.Heartbeat = DefaultHeartbeat
	}
	if o.Patience <= 0 {
		o.Patience = DefaultPatience
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	embedded, err := loadAssets()
	if err != nil {
		return nil, err
	}
	h := &Handler{Options: o, assets: embedded, away: outage.New(o.Logger, zap.ErrorLevel,
		"requests are answered with 503 because the database does not answer, or takes no changes; workspaces that run are served",
		"requests can be answered again")}
	h.mux = h.routes()
	return h, nil
}

// Serve answers r, or hands it to next: paths that are not part of the API, and every
// request to a workspace's own host. Errors of the API are sent as
// application/problem+json. When a page cannot be shown, Serve has sent nothing and
// returns a [*web.Problem], so that the server can show an error page of its own.
// Errors of next are returned as they are.
func (h *Handler) Serve(w http.ResponseWriter, r *http.Request, next func(http.ResponseWriter, *http.Request) error) error {
	if _, own := h.Site.WorkspaceName(r.Host); own {
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
	// Among what ServeMux itself answers are redirects to cleaned paths.
	return next(w, r)
}

// ServeHTTP is Serve for servers without error pages: problems are sent, and other
// paths are not found.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	err := h.Serve(w, r, func(_ http.ResponseWriter, r *http.Request) error {
		return web.ProblemNotFound.With("There is nothing at %s.", r.URL.Path)
	})
	if err != nil {
		web.ProblemOf(err).Write(w)
	}
}

// ready waits for a coordinator that is starting.
func (h *Handler) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if err := h.WaitReady(ctx); err != nil {
		p := web.ProblemUnavailable.With("The server is starting; try again in a moment.")
		p.Cause = errors.Join(errors.New("waiting for the coordinator"), err)
		return p
	}
	return nil
}

// sessionUser returns the user whose session the request carries.
func (h *Handler) sessionUser(r *http.Request) (auth.User, error) {
	token := web.Cookie(r.Header, web.SessionCookie)
	if token == "" {
		return auth.User{}, auth.ErrNoSession
	}
	return h.Auth.Session(r.Context(), token)
}

// workspaceURL is the address of a workspace for people.
func (h *Handler) workspaceURL(r *http.Request, id workspace.ID) string {
	if h.WorkspaceURL == HostURL {
		return h.Site.WorkspaceOrigin(r, id) + "/"
	}
	return web.WorkspacePath(id)
}
