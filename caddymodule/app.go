// Package codehub is the Caddy adapter: it turns Caddy's configuration into options
// of the coordinator, the gateway and the API, and ties the coordinator's lifetime
// to Caddy's. Its handlers are thin: what becomes of a request is decided in
// packages gateway and api, everything else in the coordinator packages.
package codehub

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"go.uber.org/zap"

	"github.com/codehub/gateway/caddymodule/oidc"
	"github.com/codehub/gateway/caddymodule/web"
	"github.com/codehub/gateway/coordinator"
	"github.com/codehub/gateway/coordinator/activator"
	"github.com/codehub/gateway/coordinator/activity"
	"github.com/codehub/gateway/coordinator/auth"
	"github.com/codehub/gateway/coordinator/backend/docker/spec"
	"github.com/codehub/gateway/coordinator/events"
	"github.com/codehub/gateway/coordinator/route"
	"github.com/codehub/gateway/coordinator/service"
)

func init() {
	caddy.RegisterModule(new(App))
}

// startTimeout bounds the start of the coordinator, and a change of the administrator's
// password in a reload.
const startTimeout = 30 * time.Second

// App is the `codehub` app: the settings of the installation, and the coordinator
// that they belong to. Handlers fetch it once, when they are provisioned.
//
// The coordinator outlives the configuration: a reload that changes neither the
// servers nor the identity of the installation keeps it running, and only gives it
// the settings that may change meanwhile.
type App struct {
	// Database is where PostgreSQL is, as a URL or as keywords and values. Required.
	// Write it as a placeholder, `{env.DATABASE_URL}`, because it holds a password.
	Database Value `json:"database,omitempty"`
	// Redis is where Redis is, as `redis://`, `rediss://` or `unix://` URL. Required.
	// Write it as a placeholder, `{env.REDIS_URL}`.
	Redis Value `json:"redis,omitempty"`
	// Where people sign in, and where workspaces are.
	SiteSettings
	// PublicURL is the address of the main site as people open it, such as
	// `https://codehub.example.com`, without a path. Workspaces learn their own addresses
	// from it. Default: main_host, with http on this machine and https elsewhere; empty
	// without main_host.
	PublicURL Value `json:"public_url,omitempty"`
	// WorkspacePorts is whether the other ports of a workspace have hosts, too:
	// `{port}--ws-{id}.{domain}`, each an origin of its own, for its owner. Default: true.
	WorkspacePorts Value `json:"workspace_ports,omitempty"`
	// SharePorts allows another process to listen where this one does. Without it Caddy
	// does not start then: each would answer half of the requests for both. Set it only
	// while a process of the same installation takes over from another. Default: false.
	SharePorts Value `json:"share_ports,omitempty"`
	// Installation tells apart the containers, volumes and networks of several
	// installations that share a container engine. Changing it later orphans what
	// exists. Default: `codehub`.
	Installation Value `json:"installation,omitempty"`
	// AdminPassword is the password of the user `admin`. When it is set, the user is
	// created, or given this password, at every start, and in a reload that changes it.
	// Default: no such user is created.
	AdminPassword Value `json:"admin_password,omitempty"`
	// SessionTTL is how long a sign-in lasts. Default: 336h.
	SessionTTL Value `json:"session_ttl,omitempty"`
	// SignIn says how people sign in.
	SignIn SignInSettings `json:"sign_in,omitzero"`
	// OIDC is an OpenID Connect provider through which people may sign in.
	OIDC OIDCSettings `json:"oidc,omitzero"`
	// Identity takes the signed-in user from another authentication of Caddy's.
	Identity IdentitySettings `json:"identity,omitzero"`
	// S3 is the object store for the archives.
	S3 S3Settings `json:"s3,omitzero"`
	// HomeWarn is the size of a home, such as `20GiB`, from which on its owner is told that
	// it is large, and the log says so once; 0 is never. Nothing is refused because of it:
	// `docker home` limits homes. Default: 0.
	HomeWarn Value `json:"home_warn,omitempty"`
	// DiskPressure says what happens as the disk of the homes fills up.
	DiskPressure DiskPressureSettings `json:"disk_pressure,omitzero"`
	// Encryption encrypts the archives.
	Encryption EncryptionSettings `json:"encryption,omitzero"`
	// Images are those that users choose from when they create a workspace; the first one is
	// the default. Only administrators may run any other. Default: one with the name
	// `default`, of the backend's workspace_image.
	Images []ImageSettings `json:"images,omitempty"`
	// Backend is what workspaces run on: `docker` or `kubernetes`. Only that one may have
	// settings. Default: `docker`.
	Backend string `json:"backend,omitempty"`
	// Kubernetes are the settings of that backend.
	Kubernetes KubernetesSettings `json:"kubernetes,omitzero"`
	// Docker are the settings of that backend.
	Docker DockerSettings `json:"docker,omitzero"`
	// Egress says what workspaces reach besides the internet.
	Egress EgressSettings `json:"egress,omitzero"`
	// Coordinator is the rhythm of the background work.
	Coordinator CoordinatorSettings `json:"coordinator,omitzero"`
	// TTL says when unused workspaces are put away.
	TTL TTLSettings `json:"ttl,omitzero"`
	// Work says what keeps a workspace awake that nobody uses.
	Work WorkSettings `json:"work,omitzero"`
	// ActivityMode is what counts as use of a workspace. With `presence`, a script in its
	// pages reports what people do there, and what such pages send by themselves does not
	// count. With `traffic`, everything counts, so an open tab keeps its workspace awake.
	// Default: `presence`.
	ActivityMode Value `json:"activity,omitempty"`
	// ActivityFlushInterval is how often this process writes to Redis which
	// workspaces were used. It must be well below the standby TTL. Default: 30s, or a
	// quarter of the standby TTL when that is less.
	ActivityFlushInterval Value `json:"activity_flush_interval,omitempty"`
	// Limits bound how many workspaces run at once.
	Limits LimitSettings `json:"limits,omitzero"`
	// RedisChannels are the prefixes of the Redis channels.
	RedisChannels ChannelSettings `json:"redis_channels,omitzero"`
	// RouteLease is for how long running workspaces are reached without a confirmation of
	// their addresses by PostgreSQL, and so how long it may be away without disturbing
	// anybody in them; then requests are held. The address of a workspace that has stopped
	// rests for as long and a minute. The same for all processes. Default: `10m`.
	RouteLease Value `json:"route_lease,omitempty"`
	// SSEHeartbeatInterval is how often an idle event stream sends a heartbeat, and
	// checks that its session still holds. Default: 30s.
	SSEHeartbeatInterval Value `json:"sse_heartbeat_interval,omitempty"`
	// Timeouts say how long an operation may take.
	Timeouts TimeoutSettings `json:"timeouts,omitzero"`

	oidc           oidc.Settings
	passwords      bool
	identity       identity
	site           siteAddresses
	mainSite       *web.Site
	context        caddy.Context
	workspacePorts bool
	published      bool // the engine publishes the port of the application, and no other
	sharePorts     bool
	heartbeat      time.Duration
	gcDelay        time.Duration
	reference      *reference
	stopping       chan struct{}
	logger         *zap.Logger
}

// CaddyModule returns the Caddy module information.
func (*App) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "codehub", New: func() caddy.Module { return new(App) }}
}

// Provision resolves the settings, reports everything that is wrong with them, and
// acquires a reference to the coordinator they belong to. It connects to nothing, so
// that `caddy validate` needs no servers.
func (a *App) Provision(ctx caddy.Context) error {
	a.logger = ctx.Logger()
	a.context, a.stopping = ctx, make(chan struct{})
	settings, err := a.resolve(caddy.NewReplacer())
	if err != nil {
		return fmt.Errorf("codehub: %w", err)
	}
	a.oidc, a.passwords, a.identity = settings.oidc, settings.passwords, settings.identity
	a.site, a.mainSite, a.heartbeat = settings.site, settings.site.site(), settings.heartbeat
	a.workspacePorts, a.sharePorts = settings.workspacePorts, settings.sharePorts
	a.published = settings.options.Docker.Publish == spec.PublishLoopback
	a.gcDelay = settings.live.GC.Delay
	// Long requests, such as event streams, must end before the HTTP servers wait for
	// them, and the servers may be stopped before this app is.
	eventsApp, err := ctx.App("events")
	if err != nil {
		return err
	}
	if err := eventsApp.(*caddyevents.App).On("stopping", onStopping(a.stopping)); err != nil {
		return fmt.Errorf("codehub: subscribing to the end of the configuration: %w", err)
	}
	if err := quiesceFirst(ctx); err != nil {
		return fmt.Errorf("codehub: %w", err)
	}
	if a.reference, err = acquire(settings.options, settings.live, a.logger); err != nil {
		return fmt.Errorf("codehub: %w", err)
	}
	if err := ctx.GetMetricsRegistry().Register(archiveMetrics{a.reference.coordinator().ArchiveHealth}); err != nil {
		return fmt.Errorf("codehub: registering metrics: %w", err)
	}
	return nil
}

// Start starts the coordinator, or gives the running one the settings of this
// configuration.
func (a *App) Start() error {
	if err := a.checkPorts(); err != nil {
		return fmt.Errorf("codehub: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	return a.reference.activate(ctx)
}

// Stop withdraws the settings of this configuration. The coordinator keeps running
// while another configuration refers to it.
func (a *App) Stop() error { return a.reference.deactivate() }

// Cleanup releases the coordinator, if it was acquired. The last release stops it.
func (a *App) Cleanup() error {
	if a.reference == nil {
		return nil
	}
	return a.reference.release()
}

// Service is the only way to change what is desired of a workspace.
func (a *App) Service() *service.Service { return a.reference.coordinator().Service() }

// Auth knows users, sessions and tickets.
func (a *App) Auth() *auth.Auth { return a.reference.coordinator().Auth() }

// Routes is the table that the gateway routes by.
func (a *App) Routes() *route.Table { return a.reference.coordinator().Routes() }

// Activator wakes workspaces for the requests that wait for them.
func (a *App) Activator() *activator.Activator { return a.reference.coordinator().Activator() }

// Activity records when workspaces are used.
func (a *App) Activity() *activity.Buffer { return a.reference.coordinator().Activity() }

// Hub tells this process's event streams about changes.
func (a *App) Hub() *events.Hub { return a.reference.coordinator().Hub() }

// WaitReady returns when the coordinator can serve requests: it is connected, and
// its route table is loaded. Servers may accept before that.
func (a *App) WaitReady(ctx context.Context) error { return a.reference.coordinator().WaitReady(ctx) }

// Health reports the state of this process's coordinator.
func (a *App) Health() coordinator.Health { return a.reference.coordinator().Health() }

// Stopping is closed when this configuration begins to stop. Event streams end then,
// and their clients connect again.
func (a *App) Stopping() <-chan struct{} { return a.stopping }

// Heartbeat is the interval of heartbeats of event streams.
func (a *App) Heartbeat() time.Duration { return a.heartbeat }

// DeletionDelay is how long the deletion of a workspace can be undone.
func (a *App) DeletionDelay() time.Duration { return a.gcDelay }

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
