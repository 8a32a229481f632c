// Package coordinator connects the parts of the product that do not know Caddy. These include the clients of
// PostgreSQL, Redis, the object store and the container backend. In each process, it provides the gateway and the API
// with a service layer, sign-in, a route table, an activator, activity and live events. Further components run in the
// leader only (SPEC 5).
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
	"github.com/codehub/gateway/coordinator/control/finalizer"
	"github.com/codehub/gateway/coordinator/control/gc"
	"github.com/codehub/gateway/coordinator/control/history"
	"github.com/codehub/gateway/coordinator/control/isolation"
	"github.com/codehub/gateway/coordinator/control/leader"
	"github.com/codehub/gateway/coordinator/control/orphan"
	"github.com/codehub/gateway/coordinator/control/pressure"
	"github.com/codehub/gateway/coordinator/control/reconcile"
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
	"github.com/codehub/gateway/coordinator/internal/periodic"
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

// Coordinator contains every part of the product that does not depend on Caddy. Its methods are safe for concurrent
// use. [New] sets its exported fields, which never change.
//
// The components that every process runs start with [Coordinator.Start] and end with
// [Coordinator.Stop]. Those of the leader run only during a term (SPEC 5).
type Coordinator struct {
	// Service is the only way to change the desired state (SPEC 1, contract 3).
	Service *service.Service
	// Auth checks users, sessions and tickets.
	Auth *auth.Auth
	// Usage knows how long workspaces were in each phase. Audit knows who requested what.
	Usage *usage.Store
	Audit *auditlog.Log
	// Routes knows from memory where workspaces are and who owns them.
	Routes *route.Table
	// Activator wakes workspaces for held requests, and Activity records when workspaces are used.
	Activator *activator.Activator
	Activity  *activity.Buffer
	// Hub feeds the event streams of this process.
	Hub *events.Hub
	// Identity knows which database, bucket and backend are the recorded ones.
	Identity *identity.Guard
	// Tracer records spans of what this process does, or nothing.
	Tracer *tracing.Tracer
	// Metrics are what this process reports to Prometheus. They live as long as the coordinator.
	Metrics *metrics.Metrics

	opts Options
	log  *zap.Logger

	store    *store.Store
	redis    *redis.Client
	archives *archive.Store
	backend  backend.Backend

	stats      recent.Answers[workspace.ID, backend.Stats]
	disk       recent.Answers[struct{}, backend.Disk]
	sizes      recent.Answers[string, int64] // of images, by reference
	feed       *changes.Feed
	elector    *leader.Elector
	controller *reconcile.Controller
	gc         *gc.Runner
	scrub      *scrub.Runner
	pressure   *pressure.Watch
	leaders    []leaderComponent // all components of the leader but the controller
	terms      terms
	leading    context.Context // ends with Resign
	resign     context.CancelFunc

	images  atomic.Pointer[launch.Catalog]
	refused atomic.Pointer[postgres.OlderError] // see Refused
	// auditFor is for how long the audit is kept, in nanoseconds.
	auditFor atomic.Int64
	doze     atomic.Int64 // after how long without use a workspace dozes, in nanoseconds; 0: never
	started  time.Time    // for the uptime

	mu            sync.Mutex // guards the following
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
	if c.Tracer, err = export.New(opts.NodeID, os.Getenv, log.Named("tracing")); err != nil {
		return nil, err
	}
	c.Metrics = metrics.New(c.state)
	c.opts.Archive.Metrics = c.Metrics.S3
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
	// Without this, a flush to a server that does not answer would take longer than the flush's own limit.
	address.ContextTimeoutEnabled = true
	c.redis = redis.NewClient(address)
	if c.archives, err = archive.New(c.opts.Archive); err != nil {
		return err
	}
	networks := outage.New(c.log, zapcore.WarnLevel, "the networks of workspaces that sleep cannot be kept: they wake as usual, "+
		"a little later", "the networks of workspaces that sleep are kept again")
	c.opts.Docker.Kept = func(ctx context.Context, err error) { networks.Report(ctx, err) }
	if c.backend, err = c.opts.NewBackend(); err != nil {
		return err
	}
	return nil
}

// assemble creates the components and connects them. It is the only place that knows
// which component uses which.
func (c *Coordinator) assemble() {
	prefixes := events.Prefixes{SSE: c.opts.SSEPrefix, Wake: c.opts.WakePrefix}
	c.Identity = identity.New(c.store, c.backend, c.archives, c.opts.Installation(), c.log.Named("identity"))
	c.Audit = auditlog.New(c.store.DB, c.log.Named("audit"))
	c.Usage = usage.New(c.store.DB)
	c.Service = service.New(c.store, service.Options{
		InstanceBackend: c.opts.BackendName(), StorageBackend: c.opts.BackendName(), Logger: c.log.Named("service"),
		Inventory: Inventory{c.backend, c.archives, c.Identity}, Metrics: c.Metrics.Service,
	})
	c.Auth = auth.New(accounts.New(c.store.DB), auth.Options{
		SessionTTL: c.opts.SessionTTL, Logger: c.log.Named("auth"), Audit: c.Audit,
	})
	c.Hub = events.NewHub()
	c.Hub.Metrics = c.Metrics.Events
	c.stats.Age, c.disk.Age, c.sizes.Age = time.Second, 30*time.Second, time.Minute
	publisher := events.NewPublisher(c.redis, c.store, prefixes, c.log.Named("events"))
	c.feed = changes.New(c.store, changes.Options{}, c.log.Named("changes"))
	c.Routes = route.New(c.store, route.Options{Feed: c.feed}, c.log.Named("routes"))
	c.Routes.Distrust(true) // until checkAddresses knows better
	c.feed.Subscribe(c.Routes, c.Hub, publisher)
	c.feed.OnConfirmed(c.Routes.Confirmed)
	c.feed.OnPassed(c.Hub.Passed)
	c.Activator = activator.New(c.Routes, c.Service, nil, c.Tracer, c.log.Named("activator"))
	c.Activator.Metrics = c.Metrics.Wakes
	c.Activity = activity.NewBuffer(c.redis, activity.Options{
		Fallback: c.Service.Limited(), Node: c.opts.NodeID, Metrics: c.Metrics.Activity, Cycles: c.Metrics.Cycles,
		Used: c.Activator.Used,
	}, c.log.Named("activity"))
	c.feed.Subscribe(dozes{c})
	c.controller = reconcile.New(reconcile.Options{
		Store: c.Service.Limited(), Backend: c.backend, Archives: c.archives, Identity: c.Identity,
		Launch: c.launch, Configured: c.configuredImages, Quarantine: c.Routes.Quarantine,
		Addresses: c.backend.Addresses, Images: c.backend.Images, Freezer: c.backend.Freezer, Outdated: c.backend.Outdated,
		OnePort: c.backend.OnePort, LocalHomes: c.backend.LocalHomes, Probe: activator.ProbeHTTP(),
		NewOpID: uuid.NewString, Tracer: c.Tracer,
		Metrics: c.Metrics.Reconcile, Cycles: c.Metrics.Cycles, Log: c.log.Named("controller"),
	})
	c.pressure = pressure.New(pressure.Options{
		Backend: c.backend, Store: c.store, Archiver: c.Service,
		Leads: func() bool { return c.terms.count() > 0 }, Controller: c.controller, Log: c.log.Named("pressure"),
	}, pressure.DefaultSettings())
	c.gc = gc.New(gc.Options{
		Archives: c.archives, Store: c.store, Orphans: gc.NewOrphanTracker(c.redis, gc.DefaultKey),
		Identity: c.Identity, Holder: c.opts.NodeID,
		Metrics: c.Metrics.Archives, Cycles: c.Metrics.Cycles,
		OnCollected: func(ids []workspace.ID) { c.controller.Wake(ids...) },
	}, c.log.Named("gc"))
	c.scrub = scrub.New(scrub.Options{
		Store: c.store, Archives: c.archives, Identity: c.Identity, Metrics: c.Metrics.Archives, Cycles: c.Metrics.Cycles,
		Log: c.log.Named("scrub"),
	})
	c.leaders = c.leaderComponents(publisher)
}

// leaderComponents returns the components of the leader. This list is the only place that knows them all.
func (c *Coordinator) leaderComponents(publisher *events.Publisher) []leaderComponent {
	kept := []history.Kept{
		{For: func() time.Duration { return history.Retention }, Trim: c.store.TrimHistory},
		{For: func() time.Duration { return time.Duration(c.auditFor.Load()) }, Trim: c.Audit.Trim},
		{For: func() time.Duration { return usage.Retention }, Trim: c.Usage.Trim},
	}
	orphans := orphan.NewSearch(orphan.New(c.backend, c.store, c.Identity), c.log.Named("orphans"))
	isolation := isolation.New(c.backend, c.Identity.Backend, c.log.Named("isolation"))
	finalizer := finalizer.New(c.backend, c.Identity.Backend, c.log)
	scarcity := scarcity.New(scarcity.Options{
		Memory: c.backend.Memory, Store: c.store, Sleeper: c.Service, Identity: c.Identity.Backend,
		Cycles: c.Metrics.Cycles, Log: c.log.Named("scarcity"),
	}, scarcity.DefaultSettings())
	ttl := ttl.New(ttl.Options{
		Store: c.Service.Limited(), Expirer: c.Service, Activity: activity.NewLog(c.redis, activity.DefaultKey),
		Looker: c.backend, Notebooks: work.NewNotebooks(),
		Metrics: c.Metrics.Service, Cycles: c.Metrics.Cycles, Log: c.log.Named("ttl"),
	}, ttl.DefaultSettings())
	c.feed.Subscribe(ttl)
	census := census.New(c.store, c.Metrics.Cycles, c.log.Named("census"))
	return []leaderComponent{
		{name: "publisher", run: everyTerm(publisher.Run)},
		{
			name: "history",
			run: c.rounds("history", "trimming the history and the audit", history.Interval,
				func(ctx context.Context) error { return history.Trim(ctx, kept...) }),
			apply: func(s Settings) { c.auditFor.Store(int64(s.AuditRetention)) },
		},
		{name: "orphans", run: c.rounds("orphans", "looking for orphans", orphan.SearchInterval, orphans.Look)},
		{name: "isolation", run: everyTerm(isolation.Run), problems: isolation.Problems},
		{
			name: "sweep", run: everyTerm(c.pressure.Sweep),
			apply: func(s Settings) { c.pressure.Set(s.Pressure) },
			show: func(l *metrics.LeaderState) {
				if d := c.pressure.State(); d.Known && c.terms.leads(0) {
					l.Disk = &metrics.Disk{Total: d.Disk.Total, Free: d.Disk.Free, Pressed: d.Pressed, Full: d.Full}
				}
			},
		},
		{name: "scarcity", run: everyTerm(scarcity.Run), apply: func(s Settings) { scarcity.Set(s.Scarcity) }},
		{
			name: "census", run: everyTerm(census.Run),
			show: func(l *metrics.LeaderState) { l.Workspaces = (*metrics.Workspaces)(census.Counts()) },
		},
		{name: "release", run: func(ctx context.Context, t leader.Term) error { return finalizer.Run(backend.WithLease(ctx, t.Lease)) }},
		{
			name: "ttl", run: func(ctx context.Context, t leader.Term) error { return ttl.Run(ctx, t.Fence) },
			apply: func(s Settings) { ttl.Set(s.TTL) },
		},
		{
			name: "gc", run: func(ctx context.Context, t leader.Term) error { return c.gc.Run(ctx, t.Fence, t.Lease) },
			apply: func(s Settings) { c.gc.Set(s.GC) },
			show: func(l *metrics.LeaderState) {
				if r := c.gc.Last(); r != nil {
					l.Collected = &metrics.Collected{
						Archives: r.Archives, Orphans: r.Orphans, Due: r.Due, Unknown: r.Unknown, Newer: r.Newer,
					}
				}
			},
		},
		{
			name: "scrub", run: func(ctx context.Context, t leader.Term) error { return c.scrub.Run(ctx, t.Fence) },
			apply: func(s Settings) { c.scrub.Set(s.Scrub) },
			show: func(l *metrics.LeaderState) {
				if h, known := c.scrub.Health(); known {
					l.Archives = (*metrics.ArchiveHealth)(&h)
				}
			},
		},
	}
}

// Apply changes the settings that may change at run time. A term as the leader, open sockets and held requests
// continue. It returns an error if the administrator's password has changed and cannot be written. The other settings
// apply nevertheless. It does not validate the settings: see [Settings.Validate].
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
	c.Auth.SetExempt(s.SignInExempt)
	c.Service.SetLimits(s.Limits)
	c.Service.SetMaxKeepAwake(s.MaxKeepAwake)
	images := s.Images.Default(c.opts.defaultImage())
	c.images.Store(&images)
	c.Service.SetImages(images)
	c.Activator.SetMaxHeld(s.MaxHeld, 0)
	c.applyLease(s.RouteLease)
	c.Activity.Set(s.Activity)
	c.archives.Apply(s.Archive)
	c.elector.Set(s.Leader)
	s.Reconcile.KeepDeleted = s.GC.KeepDeleted() // one window: as long as the archive is kept, so are the files
	s.Reconcile.HomeWarn = s.HomeWarn
	c.controller.Apply(s.Reconcile)
	if c.backend.Freezer == nil {
		s.TTL.Doze = 0
	}
	c.doze.Store(int64(s.TTL.Doze))
	for _, part := range c.leaders {
		if part.apply != nil {
			part.apply(s)
		}
	}
	c.Service.SetDelays(s.Delays())
}

// launch returns how a workspace's container is started under the current settings.
func (c *Coordinator) launch(w workspace.Workspace) (backend.StartSpec, error) {
	return launch.Spec(*c.images.Load(), launch.Site(c.opts.Site), w)
}

// configuredImages returns the references of all images that the present settings name.
func (c *Coordinator) configuredImages() []string {
	images := c.images.Load().References()
	if c.opts.Kubernetes == nil {
		images = append(images, c.opts.Docker.WithDefaults().JobImage)
	}
	return images
}

// AwaitDatabase waits until PostgreSQL answers, and logs that. It is useful because servers often start together, in
// any order. It also returns, without an error, if waiting does not help, for example because the password is wrong:
// [Coordinator.Start] then reports the problem. Its only error is that of ctx.
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
		if !periodic.Pause(ctx, pause) {
			return ctx.Err()
		}
	}
}

// Start connects, migrates the schema and starts the components. It fails if PostgreSQL cannot be reached, because
// nothing works without it. Redis, the object store and the container backend may become reachable later. If a
// migration needs a lock that somebody else holds, such as a backup, Start waits for the lock until ctx ends. A second
// call does nothing, and a coordinator that was stopped does not start again.
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

// writeAdministrator gives the user [AdminUser] the password of the current settings, unless this process has done so
// already. It creates the user if necessary. An empty password leaves the user unchanged. The caller holds c.mu.
func (c *Coordinator) writeAdministrator(ctx context.Context) error {
	password := c.adminPassword
	if password == "" || password == c.adminWritten {
		return nil
	}
	if older := c.Refused(); older != nil {
		return older
	}
	ctx = audit.With(ctx, audit.Actor{Kind: audit.System, Name: "admin_password"})
	created, err := c.Auth.EnsureUser(ctx, AdminUser, password, auth.RoleAdmin)
	if err != nil {
		return fmt.Errorf("admin_password: writing the user %s: %w", AdminUser, err)
	}
	c.adminWritten = password
	if created {
		c.log.Info("created the first administrator", zap.String(logkey.Username, AdminUser))
	}
	return nil
}

// redisLog logs only at debug level what the Redis client prints for every failed dial, because each component that
// needs Redis logs the outage itself, once.
type redisLog struct{ log *zap.Logger }

// Printf implements the logging interface of the Redis client.
func (l redisLog) Printf(_ context.Context, format string, v ...any) {
	l.log.Debug(fmt.Sprintf(format, v...))
}

// Stop ends everything that Start began. It resigns as the leader, writes recorded activity, thaws dozing workspaces
// if no other process supports dozing, and closes the connections. It returns when that is done. If ctx ends earlier,
// it returns ctx's error, and the rest continues in the background. A second call does nothing.
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
	if c.Auth != nil {
		c.Auth.Close()
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
	c.Tracer.Close() // after all that has spans to send
}

// WaitReady waits until the route table is filled, so that requests can be routed, and then returns nil. If ctx ends
// earlier, it returns the error of ctx.
func (c *Coordinator) WaitReady(ctx context.Context) error {
	select {
	case <-c.Routes.Loaded():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
