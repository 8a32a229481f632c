// Package gateway lets the owner of a workspace through to its application, wakes
// the workspace when it sleeps, and shows meanwhile what is going on (SPEC 8).
//
// A request passes, in this order: [Locate] finds its target, [Decide] says
// from its client kind and the workspace's state what becomes of it, the hold keeps
// it until the state changes, and the answer is given: by the proxy, or by the one
// method that renders every other answer.
//
// It is plain net/http and must not import Caddy: what a server supplies (identity,
// trusted proxies, the proxy itself, whether the process is ending) comes in as
// functions. It must not touch PostgreSQL or Redis for a workspace that is ready.
package gateway

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/codehub/gateway/caddymodule/web"
	"github.com/codehub/gateway/coordinator/activator"
	"github.com/codehub/gateway/coordinator/activity"
	"github.com/codehub/gateway/coordinator/auth"
	"github.com/codehub/gateway/coordinator/route"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Defaults of [Options].
const (
	DefaultWakeTimeout = 5 * time.Minute
	DefaultPageWait    = 1500 * time.Millisecond
)

// loadTimeout is how long a request waits for a process that has just started.
const loadTimeout = 10 * time.Second

// Options are what a gateway is made from. All are required unless they have a
// default.
type Options struct {
	Site      *web.Site
	Routes    *route.Table
	Activator *activator.Activator
	Activity  *activity.Buffer
	Sessions  Sessions
	Service   Service
	// Proxy passes requests on to applications.
	Proxy ProxyFunc
	// Identity returns the id of the signed-in user, "" when nobody is, and an error
	// when that cannot be found out at the moment.
	Identity func(*http.Request) (userID string, err error)
	// WaitReady returns when the coordinator can serve requests. Default: at once.
	WaitReady func(context.Context) error
	// Stopping is closed when the configuration of this gateway is replaced or the
	// process ends; Exiting tells which. Default: never.
	Stopping <-chan struct{}
	Exiting  func() bool
	// NoIdleTimeout lifts the server's limit on silence for the request, until the
	// returned function is called. Default: there is no such limit.
	NoIdleTimeout func(*http.Request) (restore func())
	// WakeTimeout is how long a program's request is held while its workspace wakes,
	// and how long a wake-up lasts after the last request. Default:
	// [DefaultWakeTimeout].
	WakeTimeout time.Duration
	// PageWait is how long a page waits while it is undecided what to show: for the
	// desired state to be granted, and for the first answer of a running container.
	// Zero is no wait.
	PageWait time.Duration
	// StripAuthorization keeps the Authorization header from workspaces.
	StripAuthorization bool
	Log                *zap.Logger
}

// Sessions is the part of package auth that signs people in on a workspace's own
// host.
type Sessions interface {
	Redeem(ctx context.Context, ticket string, id workspace.ID) (token string, err error)
	WorkspaceSession(ctx context.Context, token string, id workspace.ID) (auth.User, error)
}

// Service is the part of the service layer that the pages need.
type Service interface {
	// Running returns the user's workspaces that count against the limits.
	Running(ctx context.Context, userID string) ([]workspace.Workspace, error)
}

// ProxyFunc passes a request on to the application of a workspace that is ready in the
// state st, at st.Route.Endpoint ("host:port"). It returns [ErrUnreachable] when
// nothing accepts connections there, [*NoAnswerError] when the application broke off
// or took too long, and any other error as [Gateway.Serve] is to return it.
type ProxyFunc func(w http.ResponseWriter, r *http.Request, st *route.State) error

// Gateway serves requests for workspaces. It is safe for concurrent use.
type Gateway struct {
	Options
	polls atomic.Int64 // status requests that wait for a change
}

// New returns a gateway. It performs no I/O.
func New(o Options) *Gateway {
	if o.WaitReady == nil {
		o.WaitReady = func(context.Context) error { return nil }
	}
	if o.Exiting == nil {
		o.Exiting = func() bool { return false }
	}
	if o.NoIdleTimeout == nil {
		o.NoIdleTimeout = func(*http.Request) func() { return func() {} }
	}
	if o.WakeTimeout == 0 {
		o.WakeTimeout = DefaultWakeTimeout
	}
	return &Gateway{Options: o}
}

// request is one gateway request on its way to its answer.
type request struct {
	w      http.ResponseWriter
	r      *http.Request
	target Target
	kind   ClientKind
	user   string
	entry  *route.Entry // nil when there is no such workspace
	// retried says that the request was proxied again after a failed dial.
	retried bool
	// err is why the application gave no answer.
	err error
}
