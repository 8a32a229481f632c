// Package codehub is the Caddy adapter. Package settings turns Caddy's configuration into options. The adapter gives
// them to the coordinator, the gateway and the API, and binds the coordinator's lifetime to Caddy's. Its handlers are
// thin: packages gateway and api decide how to answer a request, and the coordinator packages decide everything else.
package codehub

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/codehub/gateway/caddymodule/internal/brand"
	"github.com/codehub/gateway/caddymodule/internal/oidc"
	"github.com/codehub/gateway/caddymodule/internal/settings"
	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/coordinator"
	"github.com/codehub/gateway/coordinator/backend/docker/spec"
	"github.com/codehub/gateway/coordinator/store/postgres"
)

func init() {
	caddy.RegisterModule(new(App))
}

// startTimeout bounds a change of the administrator's password in a reload.
const startTimeout = 30 * time.Second

// App is the `codehub` app: the settings of the installation, and the coordinator
// that they belong to. Handlers fetch it once, when they are provisioned.
//
// The coordinator outlives the configuration. A reload that changes neither the servers nor the identity of the
// installation keeps it running. It only gives the coordinator the settings that may change while it runs.
type App struct {
	settings.App

	oidc           oidc.Settings
	passwords      bool
	identity       settings.ResolvedIdentity
	brand          *brand.Brand
	site           settings.Addresses
	mainSite       *site.Site
	untrusted      *untrustedProxies
	context        caddy.Context
	servers        []servedBy // those with handlers of ours
	workspacePorts bool
	published      bool // the engine publishes the port of the application, and no other
	sharePorts     bool
	heartbeat      time.Duration
	keepDeleted    time.Duration
	reference      *reference
	first          bool // no configuration with this app has run before
	stopping       chan struct{}
	started        chan struct{} // closed when Start has succeeded
	failed         chan struct{} // closed when it has not
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
	a.started, a.failed = make(chan struct{}), make(chan struct{})
	r, err := a.Resolve(caddy.NewReplacer())
	if err != nil {
		return fmt.Errorf("codehub: %w", err)
	}
	for _, w := range a.Warnings() {
		a.logger.Warn(w)
	}
	a.oidc, a.passwords, a.identity, a.brand = r.OIDC, r.Passwords, r.Identity, r.Brand
	a.untrusted = newUntrustedProxies(a.logger)
	a.site, a.mainSite, a.heartbeat = r.Site, newSite(r.Site, a.untrusted), r.Heartbeat
	a.workspacePorts, a.sharePorts = r.WorkspacePorts, r.SharePorts
	a.published = r.Options.Docker.Publish == spec.PublishLoopback
	a.keepDeleted = r.Live.GC.KeepDeleted()
	// The HTTP servers wait for open requests, so long ones, such as event streams, must end before that. The servers
	// may be stopped before this app is.
	eventsApp, err := ctx.App("events")
	if err != nil {
		return err
	}
	if err := eventsApp.(*caddyevents.App).On("started", examine{a, examined(r)}); err != nil {
		return fmt.Errorf("codehub: subscribing to the start of the configuration: %w", err)
	}
	for _, handler := range []caddyevents.Handler{drain{a}, onStopping(a.stopping)} { // called in this order
		if err := eventsApp.(*caddyevents.App).On("stopping", handler); err != nil {
			return fmt.Errorf("codehub: subscribing to the end of the configuration: %w", err)
		}
	}
	if err := quiesceFirst(ctx); err != nil {
		return fmt.Errorf("codehub: %w", err)
	}
	if a.reference, err = acquire(r.Options, r.Live, a.logger); err != nil {
		return fmt.Errorf("codehub: %w", err)
	}
	// Each configuration has a registry of its own. The counters are those of the coordinator.
	if err := ctx.GetMetricsRegistry().Register(a.reference.coordinator().Metrics); err != nil {
		return fmt.Errorf("codehub: registering metrics: %w", err)
	}
	return nil
}

// Start starts the coordinator, or gives the running one the settings of this
// configuration.
func (a *App) Start() error {
	err := a.start()
	if err == nil {
		close(a.started)
		return nil
	}
	close(a.failed)
	// Caddy shuts down the servers that it has already started, without sending an event first.
	_ = quiesce{a.context}.Handle(a.context, caddy.Event{}) // it has no error
	return err
}

func (a *App) start() error {
	if err := a.checkPorts(); err != nil {
		return fmt.Errorf("codehub: %w", err)
	}
	warnOfAddresses(a.site, a.servers, a.logger)
	ctx, cancel := untilExit()
	defer cancel()
	a.first = !runs("codehub")
	// If the database of a new configuration cannot be reached, the reload is refused and the former configuration
	// keeps serving.
	return a.reference.activate(ctx, !runs("http"))
}

// runs reports whether the running configuration has an app.
func runs(app string) bool {
	_, err := caddy.ActiveContext().AppIfConfigured(app)
	return !errors.Is(err, caddy.ErrNotConfigured)
}

// untilExit returns a context that ends when the process is told to exit. Caddy then waits for the start that is under
// way. Without this context, Caddy could wait long: a start waits for PostgreSQL, and a migration waits as long as a
// backup takes.
func untilExit() (context.Context, context.CancelFunc) {
	const interval = 100 * time.Millisecond
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for !caddy.Exiting() {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
		}
		cancel()
	}()
	return ctx, cancel
}

// Stop withdraws the settings of this configuration. The coordinator keeps running
// while another configuration refers to it.
func (a *App) Stop() error { return a.reference.deactivate() }

// Cleanup releases the coordinator, if it was acquired. The release of the last reference stops it.
func (a *App) Cleanup() error {
	if a.reference == nil {
		return nil
	}
	return a.reference.release()
}

// WaitReady returns when the coordinator can serve requests: it is connected, and its route table is loaded. Servers
// may accept requests before that.
func (a *App) WaitReady(ctx context.Context) error { return a.reference.coordinator().WaitReady(ctx) }

// Refused returns why this process must not serve requests any more, or nil.
func (a *App) Refused() *postgres.OlderError { return a.reference.coordinator().Refused() }

// Coordinator returns the coordinator. The API uses it to reach into containers, and for administrators.
func (a *App) Coordinator() *coordinator.Coordinator { return a.reference.coordinator() }

// Health reports the state of this process's coordinator.
func (a *App) Health() coordinator.Health { return a.reference.coordinator().Health() }

// Stopping is closed when this configuration begins to stop. Event streams end then,
// and their clients connect again.
func (a *App) Stopping() <-chan struct{} { return a.stopping }

// Heartbeat is the interval of heartbeats of event streams.
func (a *App) Heartbeat() time.Duration { return a.heartbeat }

// DeletionDelay is how long the deletion of a workspace can be undone.
func (a *App) DeletionDelay() time.Duration { return a.keepDeleted }

// appOf returns the configuration's codehub app. Handlers call it once, in
// Provision.
func appOf(ctx caddy.Context) (*App, error) {
	app, err := ctx.AppIfConfigured("codehub")
	if errors.Is(err, caddy.ErrNotConfigured) {
		return nil, errors.New("the codehub app is not configured: " +
			"add a `codehub { … }` block to the global options, see Caddyfile.example")
	}
	if err != nil {
		return nil, err
	}
	a := app.(*App)
	if server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server); ok {
		a.servers = serveBy(a.servers, server)
	}
	return a, nil
}

// exiting is closed by the last configuration of a process when it begins to stop.
var (
	exiting   = make(chan struct{})
	beginExit = sync.OnceFunc(func() { close(exiting) })
)

// onStopping is a channel that is closed when the configuration begins to stop. If the process then exits, exiting is
// closed, too.
type onStopping chan struct{}

// Handle is called by Caddy, once.
func (c onStopping) Handle(context.Context, caddy.Event) error {
	if caddy.Exiting() {
		beginExit()
	}
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
