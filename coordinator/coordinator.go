// Package coordinator connects the parts of the product that know no Caddy. There are the clients
// of PostgreSQL, Redis, the object store and the container backend. Each process offers the
// gateway and the API a service layer, sign-in, route table, activator, activity and live events.
// Further components run in the leader only (SPEC 5).
//
// It owns their lifetimes and hands them their settings. It must not contain rules:
// each belongs to the package that it is about.
package coordinator

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/control/census"
	"github.com/codehub/gateway/coordinator/control/gc"
	"github.com/codehub/gateway/coordinator/control/history"
	"github.com/codehub/gateway/coordinator/control/isolation"
	"github.com/codehub/gateway/coordinator/control/leader"
	"github.com/codehub/gateway/coordinator/control/orphan"
	"github.com/codehub/gateway/coordinator/control/predict"
	"github.com/codehub/gateway/coordinator/control/pressure"
	"github.com/codehub/gateway/coordinator/control/reconcile"
	"github.com/codehub/gateway/coordinator/control/release"
	"github.com/codehub/gateway/coordinator/control/scarcity"
	"github.com/codehub/gateway/coordinator/control/scrub"
	"github.com/codehub/gateway/coordinator/control/ttl"
	"github.com/codehub/gateway/coordinator/dataplane/activator"
	"github.com/codehub/gateway/coordinator/dataplane/activity"
	"github.com/codehub/gateway/coordinator/dataplane/auth"
	"github.com/codehub/gateway/coordinator/dataplane/changes"
	"github.com/codehub/gateway/coordinator/dataplane/events"
	"github.com/codehub/gateway/coordinator/dataplane/route"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/guard"
	"github.com/codehub/gateway/coordinator/identity"
	"github.com/codehub/gateway/coordinator/internal/recent"
	"github.com/codehub/gateway/coordinator/internal/work"
	"github.com/codehub/gateway/coordinator/launch"
	"github.com/codehub/gateway/coordinator/logkey"
	"github.com/codehub/gateway/coordinator/metrics"
	"github.com/codehub/gateway/coordinator/outage"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/accounts"
	"github.com/codehub/gateway/coordinator/store/auditlog"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/store/usage"
	"github.com/codehub/gateway/coordinator/tracing"
	"github.com/codehub/gateway/coordinator/tracing/export"
	"github.com/codehub/gateway/coordinator/workspace"
)

// startTimeout bounds one attempt to reach a server at the start.
const startTimeout = 20 * time.Second

// Coordinator is everything of the product that does not depend on Caddy. Its methods
// are safe for concurrent use.
//
// The components that every process runs start with [Coordinator.Start] and end with
// [Coordinator.Stop]. Those of the leader run only during a term (SPEC 5).
type Coordinator struct {
	opts   Options
	log    *zap.Logger
	tracer *tracing.Tracer

	store    *store.Store
	redis    *redis.Client
	archives *archive.Store
	backend  backend.Backend

	service    *service.Service
	auth       *auth.Auth
	feed       *changes.Feed
	routes     *route.Table
	activator  *activator.Activator
	activity   *activity.Buffer
	hub        *events.Hub
	stats      recent.Answers[workspace.ID, backend.Stats]
	disk       recent.Answers[struct{}, backend.Disk]
	sizes      recent.Answers[string, int64] // of images, by reference
	publisher  *events.Publisher
	elector    *leader.Elector
	controller *reconcile.Controller
	ttl        *ttl.Runner
	gc         *gc.Runner
	scrub      *scrub.Runner
	identity   *identity.Guard
	orphans    *orphan.Search
	pressure   *pressure.Watch
	scarcity   *scarcity.Runner
	history    *history.Trimmer
	audit      *auditlog.Log
	isolation  *isolation.Keeper
	release    *release.Releaser
	census     *census.Census
	predict    *predict.Predictor
	metrics    *metrics.Metrics
	terms      terms
	leading    context.Context // ends with Resign
	resign     context.CancelFunc

	images  atomic.Pointer[launch.Catalog]
	refused atomic.Pointer[postgres.OlderError] // see Refused
	// auditFor is for how long the audit is kept, in nanoseconds.
	auditFor atomic.Int64
	doze     atomic.Int64 // after how long without use a workspace dozes, in nanoseconds; 0: never
	started  time.Time    // for the uptime

	mu            sync.Mutex // guards what follows
	cancel        context.CancelFunc
	done          sync.WaitGroup
	closed        bool
	adminPassword string // of the current settings
	adminWritten  string // the one that was written to the database
}

// New returns a coordinator that is not started. It performs no I/O, so that a
// configuration can be checked without its servers. It returns the errors of
// [Options.Validate].
func New(opts Options, log *zap.Logger) (*Coordinator, error) {
	opts = opts.withDefaults()
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	redis.SetLogger(redisLog{log.Named("redis")})
	c := &Coordinator{opts: opts, log: log, started: time.Now()}
	c.leading, c.resign = context.WithCancel(context.Background())
	var err error
	if c.tracer, err = export.New(opts.NodeID, os.Getenv, log.Named("tracing")); err != nil {
		return nil, err
	}
	c.metrics = metrics.New(c.state)
	c.opts.Archive.Metrics = c.metrics.S3
	if err := c.connect(); err != nil {
		c.close()
		return nil, err
	}
	c.assemble()
	elector, err := leader.New(leader.Options{
		Conn: c.store.ConnConfig(), LockID: opts.LockID, Shards: opts.Shards, Node: opts.NodeID,
	}, log.Named("leader"))
	if err != nil {
		c.close()
		return nil, err
	}
	c.elector = elector
	c.apply(DefaultSettings())
	return c, nil
}

// connect creates the clients. None of them talks to its server yet. After an error,
// close releases those that were created.
func (c *Coordinator) connect() (err error) {
	if c.store, err = store.Open(c.opts.Database, postgres.Options{
		Tracer: c.opts.Wrap.Database, Log: c.log.Named("store"), Waiting: c.waiting,
	}); err != nil {
		return fmt.Errorf("database: %w", err)
	}
	address, err := redis.ParseURL(c.opts.Redis)
	if bad := (*url.Error)(nil); errors.As(err, &bad) {
		err = bad.Err // without the URL, which may hold a password
	}
	if err != nil {
		return fmt.Errorf("redis: %w; give a URL such as redis://host:6379/0", err)
	}
	// Otherwise a flush to a server that is silent takes longer than its own limit.
	address.ContextTimeoutEnabled = true
	c.redis = redis.NewClient(address)
	if c.archives, err = archive.New(c.opts.Archive); err != nil {
		return err
	}
	networks := outage.New(c.log, zapcore.WarnLevel, "the networks of workspaces that sleep cannot be kept: they wake as usual, "+
		"a little later", "the networks of workspaces that sleep are kept again")
	c.opts.Docker.Kept = func(ctx context.Context, err error) { networks.Report(ctx, err) }
	c.opts.Docker.Reclaimed = c.metrics.Service.Reclaimed
	if c.backend, err = c.opts.NewBackend(); err != nil {
		return err
	}
	return nil
}

// assemble creates the components and connects them. It is the only place that knows
// which component uses which.
func (c *Coordinator) assemble() {
	prefixes := events.Prefixes{SSE: c.opts.SSEPrefix, Wake: c.opts.WakePrefix}
	c.identity = identity.New(c.store, c.backend, c.archives, c.opts.Installation(), c.log.Named("identity"))
	c.isolation = isolation.New(c.backend, c.identity.Backend, c.log.Named("isolation"))
	c.release = release.New(c.backend, c.identity.Backend, c.log)
	c.audit = auditlog.New(c.store.DB, c.log.Named("audit"))
	c.history = history.New(c.log.Named("history"),
		history.Kept{For: func() time.Duration { return history.Retention }, Trim: c.store.TrimHistory},
		history.Kept{For: func() time.Duration { return time.Duration(c.auditFor.Load()) }, Trim: c.audit.Trim},
		history.Kept{For: func() time.Duration { return usage.Retention }, Trim: c.Usage().Trim},
		history.Kept{For: func() time.Duration { return usage.Retention }, Trim: c.Usage().TrimAhead},
		history.Kept{For: func() time.Duration { return predict.Kept }, Trim: c.store.TrimArrivals})
	c.orphans = orphan.NewSearch(orphan.New(c.backend, c.store, c.identity), c.log.Named("orphans"))
	c.service = service.New(c.store, service.Options{
		InstanceBackend: c.opts.BackendName(), StorageBackend: c.opts.BackendName(), Logger: c.log.Named("service"),
		Inventory: Inventory{c.backend, c.archives, c.identity}, Metrics: c.metrics.Service,
	})
	c.auth = auth.New(accounts.New(c.store.DB), auth.Options{
		SessionTTL: c.opts.SessionTTL, Logger: c.log.Named("auth"), Audit: c.audit,
	})
	c.hub = events.NewHub()
	c.hub.Metrics = c.metrics.Events
	c.stats.Age, c.disk.Age, c.sizes.Age = time.Second, 30*time.Second, time.Minute
	c.publisher = events.NewPublisher(c.redis, c.store, prefixes, c.log.Named("events"))
	c.feed = changes.New(c.store, changes.Options{}, c.log.Named("changes"))
	c.routes = route.New(c.store, route.Options{Feed: c.feed}, c.log.Named("routes"))
	c.routes.Distrust(true) // until checkAddresses knows better
	c.feed.Subscribe(c.routes, c.hub, c.publisher)
	c.feed.OnConfirmed(c.routes.Confirmed)
	c.feed.OnPassed(c.hub.Passed)
	c.activator = activator.New(c.routes, c.service, nil, c.tracer, c.log.Named("activator"))
	c.activator.Metrics = c.metrics.Wakes
	c.activity = activity.NewBuffer(c.redis, activity.Options{
		Fallback: c.service.Limited(), Node: c.opts.NodeID, Metrics: c.metrics.Activity, Cycles: c.metrics.Cycles,
		Used: c.activator.Used,
	}, c.log.Named("activity"))
	c.feed.Subscribe(dozes{c})
	c.controller = reconcile.New(reconcile.Options{
		Store: c.service.Limited(), Backend: c.backend, Archives: c.archives, Identity: c.identity,
		Launch: c.launch, Configured: c.configuredImages, Quarantine: c.routes.Quarantine,
		Addresses: c.backend.Addresses, Images: c.backend.Images, Freezer: c.backend.Freezer, Outdated: c.backend.Outdated,
		OnePort: c.backend.OnePort, LocalHomes: c.backend.LocalHomes, Probe: activator.ProbeHTTP(),
		NewOpID: uuid.NewString, Tracer: c.tracer,
		Metrics: c.metrics.Reconcile, Cycles: c.metrics.Cycles, Log: c.log.Named("controller"),
	})
	c.pressure = pressure.New(pressure.Options{
		Backend: c.backend, Store: c.store, Archiver: c.service,
		Leads: func() bool { return c.terms.count() > 0 }, Controller: c.controller, Log: c.log.Named("pressure"),
	}, pressure.DefaultSettings())
	c.scarcity = scarcity.New(scarcity.Options{
		Memory: c.backend.Memory, Store: c.store, Sleeper: c.service, Identity: c.identity.Backend,
		Cycles: c.metrics.Cycles, Log: c.log.Named("scarcity"),
	}, scarcity.DefaultSettings())
	c.ttl = ttl.New(ttl.Options{
		Store: c.service.Limited(), Expirer: c.service, Activity: activity.NewLog(c.redis, activity.DefaultKey),
		Looker: c.backend, Notebooks: work.NewNotebooks(),
		Metrics: c.metrics.Service, Cycles: c.metrics.Cycles, Log: c.log.Named("ttl"),
	}, ttl.DefaultSettings())
	c.feed.Subscribe(c.ttl)
	c.gc = gc.New(gc.Options{
		Archives: c.archives, Store: c.store, Orphans: gc.NewOrphanTracker(c.redis, gc.DefaultKey),
		Identity: c.identity, Holder: c.opts.NodeID,
		Metrics: c.metrics.Archives, Cycles: c.metrics.Cycles,
		OnCollected: func(ids []workspace.ID) { c.controller.Wake(ids...) },
	}, c.log.Named("gc"))
	c.scrub = scrub.New(scrub.Options{
		Store: c.store, Archives: c.archives, Identity: c.identity, Metrics: c.metrics.Archives, Cycles: c.metrics.Cycles,
		Log: c.log.Named("scrub"),
	})
	c.census = census.New(c.store, c.metrics.Cycles, c.log.Named("census"))
	c.predict = predict.New(predict.Options{
		Store: c.store, Start: c.service.StartAhead, Usage: c.Usage().Ahead, Cycles: c.metrics.Cycles, Log: c.log.Named("predict"),
	})
}

// Apply changes the settings that may change at run time. A term as the leader, open
// sockets and held requests continue. It returns an error when the administrator's
// password changed and could not be written; the other settings apply all the same.
// It does not validate the settings: see [Settings.Validate].
func (c *Coordinator) Apply(ctx context.Context, s Settings) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.apply(s)
	if c.cancel == nil {
		return nil // Start writes it
	}
	return c.writeAdministrator(ctx)
}

// apply hands the settings to the parts. It performs no I/O.
func (c *Coordinator) apply(s Settings) {
	c.adminPassword = s.AdminPassword
	c.auth.SetExempt(s.SignInExempt)
	c.service.SetLimits(s.Limits)
	c.service.SetMaxKeepAwake(s.MaxKeepAwake)
	images := s.Images.Default(c.opts.defaultImage())
	c.images.Store(&images)
	c.service.SetImages(images)
	c.activator.SetMaxHeld(s.MaxHeld, 0)
	c.applyLease(s.RouteLease)
	c.activity.Set(s.Activity)
	c.archives.Apply(s.Archive)
	c.elector.Set(s.Leader)
	s.Reconcile.KeepDeleted = s.GC.KeepDeleted() // one window: as long as the archive is kept, so are the files
	s.Reconcile.HomeWarn = s.HomeWarn
	c.pressure.Set(s.Pressure)
	c.scarcity.Set(s.Scarcity)
	c.controller.Apply(s.Reconcile)
	if c.backend.Freezer == nil {
		s.TTL.Doze = 0
	}
	c.doze.Store(int64(s.TTL.Doze))
	c.ttl.Set(s.TTL)
	c.gc.Set(s.GC)
	c.auditFor.Store(int64(s.AuditRetention))
	c.scrub.Set(s.Scrub)
	c.predict.Apply(s.Predict)
	c.service.SetDelays(s.Delays())
}

// launch says how a workspace's container is started, by the present settings.
func (c *Coordinator) launch(w workspace.Workspace) (backend.StartSpec, error) {
	return launch.Spec(*c.images.Load(), launch.Site(c.opts.Site), w)
}

// configuredImages are the references of all images that the present settings name.
func (c *Coordinator) configuredImages() []string {
	images := c.images.Load().References()
	if c.opts.Kubernetes == nil {
		images = append(images, c.opts.Docker.WithDefaults().JobImage)
	}
	return images
}

// AwaitDatabase returns when PostgreSQL answers, and logs what it waits for. Servers often start
// together, in any order. It also returns, without an error, when waiting does not help, for example
// after a wrong password: [Coordinator.Start] reports that. Its only error is that of ctx.
func (c *Coordinator) AwaitDatabase(ctx context.Context) error {
	const pause = time.Second
	waits := outage.New(c.log, zapcore.WarnLevel, "this process waits with its start until PostgreSQL can be reached",
		"PostgreSQL can be reached: this process starts")
	for {
		err := within(ctx, c.store.Ping)
		if err == nil {
			waits.Recovered()
		}
		if !postgres.IsUnreachable(err) {
			return ctx.Err()
		}
		waits.Report(ctx, err)
		if !sleep(ctx, pause) {
			return ctx.Err()
		}
	}
}

// Start connects, migrates the schema and starts the components. It fails when
// PostgreSQL cannot be reached, because nothing works without it; Redis, the object
// store and the container backend may become reachable later. A migration that needs a
// lock which others hold, such as a backup, is waited for until ctx ends. A second call does
// nothing, and a coordinator that was stopped does not start again.
func (c *Coordinator) Start(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errors.New("the coordinator has been stopped")
	}
	if c.cancel != nil {
		return nil
	}
	guard.LogTo(c.log)
	if err := c.prepare(ctx); err != nil {
		return err
	}
	ctx, c.cancel = context.WithCancel(context.Background())
	c.run(ctx, c.components())
	return nil
}

// prepare does the part of the start that needs PostgreSQL.
func (c *Coordinator) prepare(ctx context.Context) error {
	err := within(ctx, c.store.Ping)
	var pooler *postgres.PoolerError
	switch {
	case errors.As(err, &pooler):
		return fmt.Errorf("database: %w", pooler)
	case err != nil:
		return fmt.Errorf("database: cannot be reached; check that PostgreSQL runs and that the setting names it: %w",
			err)
	}
	if err := c.store.Migrate(ctx); err != nil {
		return fmt.Errorf("database: bringing the schema up to date: %w", err)
	}
	return within(ctx, c.writeAdministrator)
}

// waiting logs that the start waits for a migration.
func (c *Coordinator) waiting(w postgres.LockWait) {
	c.log.Warn("this process waits with its start until the schema can be migrated", zap.String(logkey.Message, w.String()))
}

// writeAdministrator creates the user [AdminUser] with the password of the current
// settings, or changes the user's password, unless this process has done so already.
// An empty password leaves the user unchanged. The caller holds c.mu.
func (c *Coordinator) writeAdministrator(ctx context.Context) error {
	password := c.adminPassword
	if password == "" || password == c.adminWritten {
		return nil
	}
	if older := c.Refused(); older != nil {
		return older
	}
	ctx = audit.With(ctx, audit.Actor{Kind: audit.System, Name: "admin_password"})
	created, err := c.auth.EnsureUser(ctx, AdminUser, password, auth.RoleAdmin)
	if err != nil {
		return fmt.Errorf("admin_password: writing the user %s: %w", AdminUser, err)
	}
	c.adminWritten = password
	if created {
		c.log.Info("created the first administrator", zap.String(logkey.Username, AdminUser))
	}
	return nil
}

// redisLog logs at debug level what the Redis client prints for every failed dial: each
// component that needs Redis logs the outage itself, once.
type redisLog struct{ log *zap.Logger }

// Printf implements the logging interface of the Redis client.
func (l redisLog) Printf(_ context.Context, format string, v ...any) {
	l.log.Debug(fmt.Sprintf(format, v...))
}

// Stop ends everything that Start began: it resigns as the leader, writes recorded
// activity, thaws what dozes if no other process supports that, and closes the connections. It returns when that is done, or with ctx's
// error when it takes longer; the rest then continues in the background. A second call
// does nothing.
func (c *Coordinator) Stop(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	started := c.cancel != nil
	if started {
		c.cancel()
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.done.Wait()
		if started {
			guard.Run("ending what dozes", c.endDozes)
		}
		guard.Run("closing the connections", c.close)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stopping the coordinator: %w", ctx.Err())
	}
}

// close releases the clients that exist. Errors are logged only: the process stops
// using them either way.
func (c *Coordinator) close() {
	if c.auth != nil {
		c.auth.Close()
	}
	if c.backend.Core != nil {
		if err := c.backend.Close(); err != nil {
			c.log.Warn("closing the container backend's client failed", zap.Error(err))
		}
	}
	if c.redis != nil {
		if err := c.redis.Close(); err != nil {
			c.log.Warn("closing the redis client failed", zap.Error(err))
		}
	}
	if c.store != nil {
		c.store.Close()
	}
	c.tracer.Close() // after all that has spans to send
}

// Service is the only way to change the desired state (SPEC 1, contract 3).
func (c *Coordinator) Service() *service.Service { return c.service }

// Auth checks users, sessions and tickets.
func (c *Coordinator) Auth() *auth.Auth { return c.auth }

// Usage is how long workspaces were in each phase.
func (c *Coordinator) Usage() *usage.Store { return usage.New(c.store.DB) }

// Audit is who has asked for what.
func (c *Coordinator) Audit() *auditlog.Log { return c.audit }

// Routes tells from memory where workspaces are and who owns them.
func (c *Coordinator) Routes() *route.Table { return c.routes }

// Tracer records spans of what this process does, or nothing.
func (c *Coordinator) Tracer() *tracing.Tracer { return c.tracer }

// Activator wakes workspaces for held requests.
func (c *Coordinator) Activator() *activator.Activator { return c.activator }

// Activity records when workspaces are used.
func (c *Coordinator) Activity() *activity.Buffer { return c.activity }

// Hub feeds the event streams of this process.
func (c *Coordinator) Hub() *events.Hub { return c.hub }

// WaitReady returns nil once the route table is filled, so that requests can be routed,
// or ctx's error if that ends first.
func (c *Coordinator) WaitReady(ctx context.Context) error {
	select {
	case <-c.routes.Loaded():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
