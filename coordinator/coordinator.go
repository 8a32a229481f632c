// Package coordinator puts the parts together: the database, the object store,
// the container runtime and Redis on one side; the service layer, sign-in, the
// route table, activity and live events for the gateway on the other; and in
// between, in one process at a time, the leader's work of SPEC 5.
package coordinator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/activity"
	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/auth"
	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/docker"
	"github.com/codehub/gateway/coordinator/events"
	"github.com/codehub/gateway/coordinator/gc"
	"github.com/codehub/gateway/coordinator/leader"
	"github.com/codehub/gateway/coordinator/reconcile"
	"github.com/codehub/gateway/coordinator/route"
	"github.com/codehub/gateway/coordinator/service"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/ttl"
	"github.com/codehub/gateway/coordinator/workspace"
)

// startTimeout bounds what Start waits for the servers it cannot do without.
const startTimeout = 20 * time.Second

// Coordinator is everything of the product that knows no Caddy. Its methods are
// safe for concurrent use.
type Coordinator struct {
	opts Options
	log  *zap.Logger

	store    *store.Store
	redis    *redis.Client
	archives *archive.Store
	backend  backend.Backend

	service    *service.Service
	auth       *auth.Auth
	routes     *route.Table
	activity   *activity.Buffer
	hub        *events.Hub
	publisher  *events.Publisher
	elector    *leader.Elector
	controller *reconcile.Controller
	ttl        *ttl.Runner
	gc         *gc.Runner

	leading atomic.Bool
	started time.Time

	mu     sync.Mutex // guards what follows
	cancel context.CancelFunc
	done   sync.WaitGroup
	closed bool
}

// New makes a coordinator. It performs no I/O, so that a configuration can be
// checked without its servers.
func New(opts Options, log *zap.Logger) (*Coordinator, error) {
	opts = opts.withDefaults()
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	redis.SetLogger(redisLog{log.Named("redis")})
	c := &Coordinator{opts: opts, log: log, started: time.Now()}
	if err := c.connect(); err != nil {
		c.close()
		return nil, err
	}
	c.assemble()
	elector, err := leader.New(leader.Options{
		Conn: c.store.ConnConfig(), Lock: leader.DefaultLock, LockID: opts.LockID, Node: opts.NodeID,
	}, log.Named("leader"))
	if err != nil {
		c.close()
		return nil, err
	}
	c.elector = elector
	c.Apply(DefaultSettings())
	return c, nil
}

// connect makes the clients. None of them talks to its server yet.
func (c *Coordinator) connect() (err error) {
	if c.store, err = store.Open(c.opts.Database); err != nil {
		return fmt.Errorf("database: %w", err)
	}
	address, err := redis.ParseURL(c.opts.Redis)
	if err != nil {
		return fmt.Errorf("redis: %w; give a URL such as redis://host:6379/0", err)
	}
	c.redis = redis.NewClient(address)
	if c.archives, err = archive.New(c.opts.Archive); err != nil {
		return err
	}
	if c.backend, err = docker.New(c.opts.Docker); err != nil {
		return err
	}
	return nil
}

func (c *Coordinator) assemble() {
	prefixes := events.Prefixes{SSE: c.opts.SSEPrefix, Wake: c.opts.WakePrefix}
	c.service = service.New(c.store, service.Options{
		InstanceBackend: "docker", StorageBackend: "docker", Logger: c.log.Named("service"),
	})
	c.auth = auth.New(c.store, auth.Options{SessionTTL: c.opts.SessionTTL, Logger: c.log.Named("auth")})
	c.routes = route.New(c.store, route.DefaultResync, c.log.Named("routes"))
	c.activity = activity.NewBuffer(c.redis, activity.Options{}, c.log.Named("activity"))
	c.hub = events.NewHub(c.redis, prefixes, c.log.Named("events"))
	c.publisher = events.NewPublisher(c.redis, prefixes, c.log.Named("events"))
	c.controller = reconcile.New(c.store, c.backend, c.archives, uuid.NewString, c.log.Named("controller"))
	c.ttl = ttl.New(c.store, c.service, activity.NewLog(c.redis, activity.DefaultKey), ttl.DefaultSettings(), c.log.Named("ttl"))
	c.gc = gc.New(gc.Options{
		Archives: c.archives, Store: c.store, Sightings: gc.NewSightings(c.redis, gc.DefaultKey),
		OnCollected: func(ids []workspace.ID) { c.controller.Wake(ids...) },
	}, c.log.Named("gc"))
}

// Apply changes the settings that may change while everything runs. A running
// leadership, open sockets and held requests stay.
func (c *Coordinator) Apply(s Settings) {
	c.service.SetLimits(s.Limits)
	c.activity.SetFlushInterval(s.FlushInterval)
	c.elector.SetRetryInterval(s.RetryInterval)
	c.controller.Apply(s.Reconcile)
	c.ttl.Set(ttl.Settings{Interval: s.TTLInterval, Standby: s.StandbyTTL, Archive: s.ArchiveTTL})
	c.gc.Set(gc.Settings{Interval: s.GCInterval, Delay: s.GCDelay})
}

// Start connects, brings the schema up to date and begins the work. It fails when
// PostgreSQL cannot be reached, because nothing works without it; Redis, the
// object store and the container runtime may come later. Started already: nothing.
func (c *Coordinator) Start(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errors.New("the coordinator has been stopped")
	}
	if c.cancel != nil {
		return nil
	}
	if err := c.prepare(ctx); err != nil {
		return err
	}
	ctx, c.cancel = context.WithCancel(context.Background())
	for _, part := range []func(context.Context) error{
		c.listen, c.route, c.activity.Run, c.hub.Run, c.lead, c.reach,
	} {
		c.done.Go(func() {
			if err := part(ctx); err != nil && ctx.Err() == nil {
				c.log.Error("a part of the coordinator has ended", zap.Error(err))
			}
		})
	}
	return nil
}

func (c *Coordinator) prepare(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := c.store.Ping(ctx); err != nil {
		return fmt.Errorf("database: cannot be reached; check that PostgreSQL runs and that the setting leads to it: %w", err)
	}
	if err := c.store.Migrate(ctx); err != nil {
		return fmt.Errorf("database: bringing the schema up to date: %w", err)
	}
	if c.opts.AdminPassword == "" {
		return nil
	}
	created, err := c.auth.EnsureUser(ctx, c.opts.AdminUser, c.opts.AdminPassword, "admin")
	if err != nil {
		return fmt.Errorf("admin_password: making the user %s: %w", c.opts.AdminUser, err)
	}
	if created {
		c.log.Info("made the first administrator", zap.String("username", c.opts.AdminUser))
	}
	return nil
}

// reach says, once, which of the servers that may come later cannot be used yet,
// and makes the bucket as soon as that is possible. Everything else is tried again
// by whoever needs it.
func (c *Coordinator) reach(ctx context.Context) error {
	if err := within(ctx, func(ctx context.Context) error { return c.redis.Ping(ctx).Err() }); err != nil && ctx.Err() == nil {
		c.log.Warn("redis cannot be reached yet: nobody is put to sleep until it can", zap.Error(err))
	}
	const pause = 2 * time.Second
	for down := false; ; down = true {
		err := within(ctx, c.archives.EnsureBucket)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			if down {
				c.log.Info("the object store can be used")
			}
			return nil
		case !down:
			c.log.Warn("the object store cannot be used yet: nothing is archived or restored until it can", zap.Error(err))
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// within calls f with startTimeout to do it in.
func within(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return f(ctx)
}

// redisLog takes what the Redis client says by itself. It is said for each dial;
// that Redis is away is told once, by each part that needs it.
type redisLog struct{ log *zap.Logger }

func (l redisLog) Printf(_ context.Context, format string, v ...any) {
	l.log.Debug(fmt.Sprintf(format, v...))
}

// listen hands the database's notifications on. They are hints: whoever gets them
// also looks by itself, and after a break everything is looked at.
func (c *Coordinator) listen(ctx context.Context) error {
	const pause = time.Second
	for down := false; ctx.Err() == nil; {
		err := c.store.Listen(ctx, func() {
			if down {
				c.log.Info("listening to the database again")
			}
			down = false
			c.auth.Resync()
			c.routes.Resync()
			c.hub.Resync()
			c.controller.WakeAll()
		}, c.notified)
		if ctx.Err() != nil {
			return nil
		}
		if !down {
			c.log.Warn("no notifications from the database; looking at intervals only", zap.Error(err))
			down = true
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
	return nil
}

func (c *Coordinator) notified(n store.Notification) {
	switch n.Channel {
	case store.ChannelRevoked:
		c.auth.Revoked(n.SessionID)
		return
	case store.ChannelWake, store.ChannelDeleted:
		if c.leading.Load() {
			c.controller.Wake(n.WorkspaceID)
		}
	}
	c.routes.Notify(n)
	c.hub.Notify(n)
	if c.leading.Load() {
		c.publisher.Notify(n)
	}
}

func (c *Coordinator) route(ctx context.Context) error {
	c.routes.Run(ctx)
	return nil
}

// lead waits for the leadership and does the leader's work while it lasts.
func (c *Coordinator) lead(ctx context.Context) error {
	return c.elector.Run(ctx, func(ctx context.Context, f store.Fence) error {
		c.leading.Store(true)
		defer c.leading.Store(false)
		return together(ctx,
			func(ctx context.Context) error { return c.controller.Run(ctx, f) },
			c.publisher.Run, c.ttl.Run, c.gc.Run)
	})
}

// together runs the parts until ctx ends or one of them does, and then ends the
// others. It returns when all have: no part outlives the leadership.
func together(ctx context.Context, parts ...func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for _, part := range parts {
		wg.Go(func() { cancel(part(ctx)) })
	}
	wg.Wait()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// Stop ends everything that Start began: the leadership is given up, recorded
// activity is written, connections are closed. It returns when that is done, or
// with ctx's error when it takes longer. Stopped already, or never started: nothing.
func (c *Coordinator) Stop(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	if c.cancel != nil {
		c.cancel()
	}
	ended := make(chan struct{})
	go func() {
		c.done.Wait()
		c.close()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stopping the coordinator: %w", ctx.Err())
	}
}

// close releases the clients that were made.
func (c *Coordinator) close() {
	if c.auth != nil {
		c.auth.Close()
	}
	if c.backend != nil {
		if err := c.backend.Close(); err != nil {
			c.log.Warn("closing the container runtime's client", zap.Error(err))
		}
	}
	if c.redis != nil {
		if err := c.redis.Close(); err != nil {
			c.log.Warn("closing the Redis client", zap.Error(err))
		}
	}
	if c.store != nil {
		c.store.Close()
	}
}

// Service is the one way to wish (SPEC 1, contract 3).
func (c *Coordinator) Service() *service.Service { return c.service }

// Auth signs people in.
func (c *Coordinator) Auth() *auth.Auth { return c.auth }

// Routes is where workspaces are reached, from memory.
func (c *Coordinator) Routes() *route.Table { return c.routes }

// Activity records that somebody is there.
func (c *Coordinator) Activity() *activity.Buffer { return c.activity }

// Hub tells browsers what changes.
func (c *Coordinator) Hub() *events.Hub { return c.hub }

// WaitReady returns nil once requests can be routed, and ctx's error when that
// does not happen in time.
func (c *Coordinator) WaitReady(ctx context.Context) error {
	select {
	case <-c.routes.Loaded():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Health is what /health/coordinator answers (SPEC 5).
type Health struct {
	IsLeader bool
	NodeID   string
	Uptime   time.Duration
}

// Health reports whether this process leads.
func (c *Coordinator) Health() Health {
	s := c.elector.Status()
	return Health{IsLeader: s.IsLeader, NodeID: s.NodeID, Uptime: time.Since(c.started)}
}
