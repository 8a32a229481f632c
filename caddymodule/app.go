// Package codehub is the Caddy adapter: it turns Caddy's configuration into
// options of the coordinator, whose lifetime it ties to Caddy's, and serves the
// gateway, the API and the pages. What the product does is in the coordinator
// packages.
package codehub

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator"
	"github.com/codehub/gateway/coordinator/activity"
	"github.com/codehub/gateway/coordinator/auth"
	"github.com/codehub/gateway/coordinator/events"
	"github.com/codehub/gateway/coordinator/route"
	"github.com/codehub/gateway/coordinator/service"
)

func init() {
	caddy.RegisterModule(new(App))
}

// startTimeout bounds starting the coordinator when Caddy starts, and changing a
// password at a reload.
const startTimeout = 30 * time.Second

// App is the `codehub` app: the settings of the installation, and the coordinator
// that they belong to. Handlers fetch it once, when they are provisioned.
//
// The coordinator outlives the configuration: a reload that leaves the servers
// and the identity of the installation as they are goes on with the same one, and
// only hands it the settings that may change while it runs.
type App struct {
	// Database is where PostgreSQL is, as a URL or as keywords and values. Required.
	// Write it as a placeholder, `{env.DATABASE_URL}`, because it holds a password.
	Database Value `json:"database,omitempty"`
	// Redis is where Redis is, as `redis://`, `rediss://` or `unix://` URL. Required.
	// Write it as a placeholder, `{env.REDIS_URL}`.
	Redis Value `json:"redis,omitempty"`
	// Installation tells apart the containers, volumes and networks of several
	// installations that share a container runtime. Changing it later orphans what
	// exists. Default: `codehub`.
	Installation Value `json:"installation,omitempty"`
	// AdminPassword is the password of the user `admin`. When it is set, the user is
	// made, or given this password, at every start. Default: there is no such user.
	AdminPassword Value `json:"admin_password,omitempty"`
	// SessionTTL is how long a sign-in lasts. Default: 336h.
	SessionTTL Value `json:"session_ttl,omitempty"`
	// S3 is the object store that keeps the archives.
	S3 S3Settings `json:"s3,omitzero"`
	// Docker is the container runtime.
	Docker DockerSettings `json:"docker,omitzero"`
	// Coordinator is the rhythm of the background work.
	Coordinator CoordinatorSettings `json:"coordinator,omitzero"`
	// TTL says when unused workspaces are put away.
	TTL TTLSettings `json:"ttl,omitzero"`
	// ActivityFlushInterval is how often this process writes to Redis which
	// workspaces were used. It must be well below the standby TTL. Default: 30s, or a
	// quarter of the standby TTL when that is less.
	ActivityFlushInterval Value `json:"activity_flush_interval,omitempty"`
	// Limits bound how many workspaces run at once.
	Limits LimitSettings `json:"limits,omitzero"`
	// RedisChannels are the prefixes of the Redis channels.
	RedisChannels ChannelSettings `json:"redis_channels,omitzero"`
	// SSEHeartbeatInterval is how often an idle event stream sends a heartbeat, and
	// checks that its session still holds. Default: 30s.
	SSEHeartbeatInterval Value `json:"sse_heartbeat_interval,omitempty"`
	// Timeouts say how long an operation may take.
	Timeouts TimeoutSettings `json:"timeouts,omitzero"`

	heartbeat, sessionTTL time.Duration
	lease                 *lease
	stopping              chan struct{}
	logger                *zap.Logger
}

// CaddyModule returns the Caddy module information.
func (*App) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "codehub", New: func() caddy.Module { return new(App) }}
}

// Provision resolves the settings, reports everything that is wrong with them,
// and takes hold of the coordinator they belong to. It connects to nothing, so
// that `caddy validate` needs no servers.
func (a *App) Provision(ctx caddy.Context) error {
	a.logger = ctx.Logger()
	a.stopping = make(chan struct{})
	settings, err := a.resolve(caddy.NewReplacer())
	if err != nil {
		return fmt.Errorf("codehub: %w", err)
	}
	a.heartbeat, a.sessionTTL = settings.heartbeat, settings.options.SessionTTL
	// Requests that last, such as event streams, must end before the HTTP servers
	// wait for them, and servers may be stopped before this app is.
	eventsApp, err := ctx.App("events")
	if err != nil {
		return err
	}
	if err := eventsApp.(*caddyevents.App).On("stopping", onStopping(a.stopping)); err != nil {
		return fmt.Errorf("codehub: subscribing to the end of the configuration: %w", err)
	}
	if a.lease, err = acquire(settings.options, settings.live, a.logger); err != nil {
		return fmt.Errorf("codehub: %w", err)
	}
	return nil
}

// Start starts the coordinator, or hands the running one the settings of this
// configuration.
func (a *App) Start() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	return a.lease.enter(ctx)
}

// Stop takes the settings of this configuration back. The coordinator goes on
// while another configuration holds it.
func (a *App) Stop() error { return a.lease.leave() }

// Cleanup releases the coordinator, if it was acquired. The last one to release it
// stops it.
func (a *App) Cleanup() error {
	if a.lease == nil {
		return nil
	}
	return a.lease.release()
}

// Service is the one way to wish something of a workspace.
func (a *App) Service() *service.Service { return a.lease.c().Service() }

// Auth knows users, sessions and tickets.
func (a *App) Auth() *auth.Auth { return a.lease.c().Auth() }

// Routes is the table that the gateway routes by.
func (a *App) Routes() *route.Table { return a.lease.c().Routes() }

// Activity takes note of what is used.
func (a *App) Activity() *activity.Buffer { return a.lease.c().Activity() }

// Hub tells this process's event streams about changes.
func (a *App) Hub() *events.Hub { return a.lease.c().Hub() }

// WaitReady returns when the coordinator can serve requests: it is connected, and
// its route table is loaded. Servers may accept before that.
func (a *App) WaitReady(ctx context.Context) error { return a.lease.c().WaitReady(ctx) }

// Health says what this process knows about its coordinator.
func (a *App) Health() coordinator.Health { return a.lease.c().Health() }

// Stopping is closed when this configuration begins to stop: what would last,
// such as an event stream, ends then, and its client connects again.
func (a *App) Stopping() <-chan struct{} { return a.stopping }

// Heartbeat is the interval of heartbeats of event streams.
func (a *App) Heartbeat() time.Duration { return a.heartbeat }

// appOf returns the configuration's codehub app. Handlers call it once, in
// Provision.
func appOf(ctx caddy.Context) (*App, error) {
	app, err := ctx.AppIfConfigured("codehub")
	if errors.Is(err, caddy.ErrNotConfigured) {
		return nil, errors.New("the codehub app is not configured: add a `codehub { … }` block to the global options, see Caddyfile.example")
	}
	if err != nil {
		return nil, err
	}
	return app.(*App), nil
}

// onStopping closes a channel when the configuration begins to stop.
type onStopping chan struct{}

// Handle is called by Caddy, once.
func (c onStopping) Handle(context.Context, caddy.Event) error {
	select {
	case <-c:
	default:
		close(c)
	}
	return nil
}

// Interface guards.
var (
	_ caddy.App           = (*App)(nil)
	_ caddy.Provisioner   = (*App)(nil)
	_ caddy.CleanerUpper  = (*App)(nil)
	_ caddyevents.Handler = onStopping(nil)
)
