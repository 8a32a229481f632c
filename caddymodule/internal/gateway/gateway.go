// Package gateway proxies requests to workspaces. It admits only the owner, wakes a
// workspace that sleeps, and shows the progress until it is ready (SPEC 8).
//
// The address of a request has been parsed already ([site.Site.Parse]). Then [decision.Decide]
// looks up the decision for its client kind and the workspace's state. The hold keeps the
// request until the state changes. In the end, either the proxy answers, or the one method that renders all other
// answers.
//
// It owns the path of a request through these steps, and its own paths on the origin of a workspace's pages. It is
// plain net/http and must not import Caddy. The server passes in functions for what only it knows: the identity of
// users, trusted proxies, the proxy itself, and whether the process is ending. It must not touch PostgreSQL or Redis
// for a workspace that is ready.
package gateway

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/codehub/gateway/caddymodule/internal/brand"
	"github.com/codehub/gateway/caddymodule/internal/gateway/decision"
	"github.com/codehub/gateway/caddymodule/internal/gateway/forward"
	"github.com/codehub/gateway/caddymodule/internal/gateway/tabs"
	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/caddymodule/internal/web"
	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/dataplane/activator"
	"github.com/codehub/gateway/coordinator/dataplane/activity"
	"github.com/codehub/gateway/coordinator/dataplane/auth"
	"github.com/codehub/gateway/coordinator/dataplane/route"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/metrics"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/tracing"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Defaults of [Options].
const (
	DefaultWakeTimeout = 5 * time.Minute
	DefaultPageWait    = 1500 * time.Millisecond
)

// loadTimeout is how long a request waits for the route table of a process that has
// just started, before it gets 503.
const loadTimeout = 10 * time.Second

// Options configure a [Gateway]. All are required unless something else is said.
type Options struct {
	// Site knows the addresses of the installation and the cross-origin rule.
	Site *site.Site
	// Brand is the brand on the pages. Default: the product's own.
	Brand *brand.Brand
	// Routes knows from memory where workspaces are and who owns them.
	Routes *route.Table
	// Activator wakes workspaces and counts the requests that wait.
	Activator *activator.Activator
	// Activity records when workspaces are used.
	Activity *activity.Buffer
	// Sessions and Service are the parts of the coordinator that pages and sign-in need.
	Sessions Sessions
	Service  Service
	// Proxy passes requests on to applications.
	Proxy forward.ProxyFunc
	// Identity returns the signed-in user's grant, and the zero Grant for a request without a valid
	// session. It returns an error when the session cannot be checked at the moment.
	Identity func(*http.Request, *site.Address) (auth.Grant, error)
	// Token returns the grant of a personal access token with this secret, which needs
	// [auth.ScopeWorkspace]. Its errors are those of [auth.Auth.Token].
	Token func(r *http.Request, secret string) (auth.Grant, error)
	// Client returns the origin of a request for the audit.
	Client func(*http.Request) audit.Actor
	// ClientAddress returns only the address in Client, which costs less.
	ClientAddress func(*http.Request) string
	// IdentityOnly says that Identity knows the signed-in user on workspaces' own hosts, too. Then
	// there are no sessions and tickets for these hosts, and no sign-in page.
	IdentityOnly bool
	// WaitReady returns nil when the coordinator can serve requests, and an error when
	// the context ends before that.
	WaitReady func(context.Context) error
	// Stopping is closed when the configuration of this gateway is replaced or the
	// process ends; Exiting tells which. Nil is never closed.
	Stopping <-chan struct{}
	Exiting  func() bool
	// Refused returns why this process must no longer serve requests, or nil if it may. Once it has returned an error,
	// it always returns one, and the grants of all requests have ended.
	Refused func() *postgres.OlderError
	// NoIdleTimeout suspends the server's limit on silence for the request until the
	// returned function is called.
	NoIdleTimeout func(*http.Request) (restore func())
	// WakeTimeout is how long a program's request is held while its workspace wakes,
	// and how long a wake-up lasts after the last request. See [DefaultWakeTimeout].
	WakeTimeout time.Duration
	// PageWait is how long a navigation waits before it gets the wake page. It waits for the desired state to be
	// granted, and for the first answer of a running container. Requests that a page sends by itself to a dozing
	// workspace wait equally long for a person's input. Zero means no wait. See [DefaultPageWait].
	PageWait time.Duration
	// PageStatus is the status of pages that would otherwise have a status of 5xx. [DefaultPageStatus] changes none.
	PageStatus int
	// Ports says which ports of workspaces have hosts. Default: [PortsOff].
	Ports PortAccess
	// StripAuthorization removes the Authorization header before a request is proxied.
	StripAuthorization bool
	// Tracer records how long requests are held.
	Tracer *tracing.Tracer
	// RequestID returns the id of a request in the server's access log. It is called only for a request
	// that is held or logged.
	RequestID func(*http.Request) string
	// Answered is called with the outcome of a request for a workspace, for the access log. The time is how long the
	// request was held.
	Answered func(r *http.Request, id workspace.ID, client, answer string, held time.Duration)
	// Metrics counts requests; nil counts none.
	Metrics *metrics.Gateway
	// Log receives errors and warnings about single requests.
	Log *zap.Logger
}

// Sessions is the part of package auth that signs users in on a workspace's own host.
// Its errors are those of [auth.Auth].
type Sessions interface {
	// Redeem exchanges a one-time ticket for the token of a new session on the workspace's own host. The ticket is
	// valid only together with the secret of the browser that asked for it.
	Redeem(ctx context.Context, ticket, browser string, id workspace.ID) (token string, err error)
	// WorkspaceSession returns the grant of such a session.
	WorkspaceSession(ctx context.Context, token string, id workspace.ID) (auth.Grant, error)
}

// Service is the part of the service layer that the pages need.
type Service interface {
	forward.Service
	// Running returns the user's workspaces that count against the limits.
	Running(ctx context.Context, userID string) ([]workspace.Workspace, error)
	// SetDesired changes the desired state of a workspace that the actor may see. Its errors
	// are those of [service.Service.SetDesired].
	SetDesired(ctx context.Context, a service.Actor, id workspace.ID, d workspace.DesiredState) error
	// KeepAwake keeps the workspace awake for d from now on, even unused; 0 ends that. It accepts at most MaxKeepAwake,
	// of [forward.Service].
	KeepAwake(ctx context.Context, a service.Actor, id workspace.ID, d time.Duration) (workspace.Workspace, error)
	// WorkCap is the longest time for which work keeps an unused workspace awake.
	WorkCap() time.Duration
}

// Gateway serves requests for workspaces. It is safe for concurrent use.
type Gateway struct {
	Options
	polls     atomic.Int64 // status requests that wait for a change
	tabs      *tabs.Tabs
	forwarder *forward.Forwarder
}

// New returns a gateway. It performs no I/O and starts nothing.
func New(o Options) *Gateway {
	open := &tabs.Tabs{}
	return &Gateway{Options: o, tabs: open, forwarder: forward.New(forward.Options{
		Activity: o.Activity, Tabs: open, Service: o.Service, StripAuthorization: o.StripAuthorization,
		Proxy: o.Proxy, NoIdleTimeout: o.NoIdleTimeout, Metrics: o.Metrics, Log: o.Log,
		Client: o.Client, ClientAddress: o.ClientAddress,
	})}
}

// inform returns the context for the work that a request causes. Logs and traces of that work name the request.
func (g *Gateway) inform(r *http.Request) context.Context {
	id := g.RequestID(r) // evaluated now: work for the request may outlast it
	return tracing.WithRequest(r.Context(), func() string { return id })
}

// request is one gateway request, from its arrival to its answer. One goroutine uses
// it.
type request struct {
	w    http.ResponseWriter
	r    *http.Request
	at   site.Address
	kind decision.ClientKind
	// token is the secret of its personal access token, if byToken is set. Then nothing else, such as
	// a cookie, admits it.
	token   string
	byToken bool
	basic   bool // the token is in Basic
	user    string
	grant   auth.Grant
	entry   *route.Entry // nil when the workspace does not exist or is not the user's
	held    time.Duration
	// retried says that the proxy was tried again after it could not connect to the application. It happens once at
	// most.
	retried bool
	// err is why the application gave no answer.
	err error
	// answer is the writer in w. It asks the client to reconnect while the process ends.
	answer web.ReconnectWriter
	// exchange is the state for passing the request on.
	exchange forward.Exchange
}

// acting returns the same context as [Gateway.inform], for changes that the request causes. The audit then names the
// request's sender.
func (g *Gateway) acting(req *request) context.Context {
	return audit.With(g.inform(req.r), req.grant.Actor(g.Client(req.r)))
}
