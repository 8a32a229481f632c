// Package reconcile is the workspace controller. It observes workspaces, decides with the pure rules of package
// planner, saves the decision, and only then calls the actuators. It owns the pace of observations and retries, the
// number of concurrent actuators, and which observations are trusted. It trusts no server other than the recorded one.
// It does not trust a loss that only one look shows, or that most workspaces show at the same time. It must not decide
// anything else itself, and must not change desired states.
//
// It is level-triggered: wake-ups and events only make an observation happen sooner. If all of them are lost, the
// controller is slower, but never wrong (SPEC 1, contract 2). Each shard that the process leads has a loop: one
// goroutine that owns all its state. Actuators, pulls, sweeps and probes of the object store can take long. They run in
// goroutines of their own, at most one at a time per workspace, so that the loop never waits for them.
package reconcile

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/clock"
	"github.com/codehub/gateway/coordinator/control/reconcile/internal/actuator"
	"github.com/codehub/gateway/coordinator/control/reconcile/internal/observation"
	"github.com/codehub/gateway/coordinator/control/reconcile/internal/prepull"
	"github.com/codehub/gateway/coordinator/control/reconcile/internal/pull"
	"github.com/codehub/gateway/coordinator/control/reconcile/internal/readiness"
	"github.com/codehub/gateway/coordinator/control/reconcile/internal/schedule"
	"github.com/codehub/gateway/coordinator/control/reconcile/internal/sweep"
	"github.com/codehub/gateway/coordinator/guard"
	"github.com/codehub/gateway/coordinator/internal/periodic"
	"github.com/codehub/gateway/coordinator/metrics"
	"github.com/codehub/gateway/coordinator/outage"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/tracing"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/coordinator/workspace/planner"
)

// Store is the database as the controller uses it. *store.Store implements it.
type Store interface {
	actuator.Store
	sweep.Store
	prepull.Store
	// Now returns the time of the database's clock, on which all decisions are based.
	Now(ctx context.Context) (time.Time, error)
	// Candidates returns the rows of a shard that a tick must observe: those that are about to change. Unless
	// transitionOnly is set, it also returns rows that may differ from reality.
	Candidates(ctx context.Context, shard, shards int, transitionOnly bool) ([]workspace.Workspace, error)
	// Workspaces returns the rows with these ids, deleted ones included.
	Workspaces(ctx context.Context, ids []workspace.ID) ([]workspace.Workspace, error)
	// Save writes next if the row is still prev and the fence still holds. It also adds archived to the record of
	// next's archive.
	Save(ctx context.Context, f postgres.Fence, prev, next workspace.Workspace,
		archived *workspace.ArchiveRecord) (bool, error)
}

// Archives is the object store as the controller uses it. *archive.Store implements it.
type Archives interface {
	actuator.Archives
	observation.Archives
}

// Identity compares servers with the recorded ones. *identity.Guard implements it.
type Identity interface{ observation.Identity }

// Backend is the container backend as the controller uses it. backend.Backend implements it.
type Backend interface {
	backend.Sensors
	backend.Actuators
	Events(ctx context.Context) (<-chan workspace.ID, error)
	Logs(ctx context.Context, id workspace.ID, lines int) (string, error)
	Usage(ctx context.Context, limit time.Duration, ids ...workspace.ID) (map[workspace.ID]backend.Usage, error)
	Stats(ctx context.Context, id workspace.ID) (backend.Stats, error)
}

// Options are the dependencies of the controller. All fields are required except Addresses, Images, Freezer,
// Outdated, Probe and those with a default.
type Options struct {
	Store   Store
	Backend Backend
	// Addresses, Images, Freezer, Outdated, OnePort and LocalHomes are those of backend.Backend.
	Addresses  func(context.Context) (backend.Pool, error)
	Images     backend.Images
	Freezer    backend.Freezer
	Outdated   func(context.Context, backend.StartSpec) bool
	OnePort    bool
	LocalHomes bool
	// Probe reports whether the application at an endpoint, which serves below basePath, gives a good answer. The first
	// good answer ends the wait for a started container. If it is nil, only the backend's report counts.
	Probe    func(ctx context.Context, endpoint, basePath string) bool
	Archives Archives
	Identity Identity
	// Launch returns how a workspace's container is started under the current settings. Its errors are those of
	// launch.Spec.
	Launch func(workspace.Workspace) (backend.StartSpec, error)
	// Configured returns the image references in the settings. Default: none.
	Configured func() []string
	// Quarantine is how long an address rests before another workspace gets it.
	Quarantine func() time.Duration
	// NewOpID must return a new UUID each time: archives, jobs and volumes are named after it.
	NewOpID func() string
	// Metrics and Cycles count the controller's work. Default: nothing is counted.
	Metrics *metrics.Reconcile
	Cycles  *metrics.Cycles
	// Tracer records operations. Default: nothing is recorded.
	Tracer *tracing.Tracer
	Log    *zap.Logger
}

// Term is one term as the leader of a shard.
type Term struct {
	// Fence is the condition of every write of the term.
	Fence postgres.Fence
	// Shard is the part of the workspaces, from 0 to Shards-1.
	Shard, Shards int
	// Lease reports whether this process is still certain to be the leader. It does not ask the database.
	Lease func() bool
}

// Controller reconciles the workspaces of the shards that its process leads.
type Controller struct {
	store    Store
	backend  Backend
	archives Archives
	identity Identity
	log      *zap.Logger
	tracer   *tracing.Tracer
	launch   func(workspace.Workspace) (backend.StartSpec, error)
	newOpID  func() string
	metrics  *metrics.Reconcile
	cycles   *metrics.Cycles
	// configured is [Options.Configured].
	configured func() []string
	// quarantine is [Options.Quarantine].
	quarantine func() time.Duration
	fullDisk   atomic.Pointer[workspace.FullDisk] // why no home is brought to the disk now
	// addresses, images, freezer, outdated and localHomes are optional parts of the backend: see [Options].
	addresses  func(context.Context) (backend.Pool, error)
	images     backend.Images
	freezer    backend.Freezer
	outdated   func(context.Context, backend.StartSpec) bool
	localHomes bool
	prober     readiness.Prober
	settings   atomic.Pointer[Settings]
	clock      *clock.Database   // for decisions; the pace of the loops does not follow it
	measuring  chan struct{}     // held while homes are measured
	probes     chan struct{}     // bounds the concurrent probes of all loops
	calls      schedule.Executor // the actuator calls of all loops
	removals   schedule.Executor // those that remove volumes
	jobs       *schedule.Jobs    // the storage jobs of all loops
	faults     faults            // of all loops

	// The reporters of outages outlive a term. So even if this process loses the lead during an outage and leads again,
	// the log has one beginning and one end of the outage.
	reading   *outage.Reporter // the rows
	observing observation.Outages
	saving    *outage.Reporter
	probing   *outage.Reporter

	mu    sync.Mutex // guards the following
	loops map[*loop]struct{}
	pulls *pull.Pool // nil while no loop runs
	quit  func()     // ends the subscription to events; nil while no loop runs
}

// New returns a controller, which does nothing before Run.
func New(o Options) *Controller {
	c := &Controller{
		store: o.Store, backend: o.Backend, archives: o.Archives, identity: o.Identity, log: o.Log,
		metrics: o.Metrics, cycles: o.Cycles, configured: o.Configured, tracer: cmp.Or(o.Tracer, tracing.Off()),
		launch: o.Launch, quarantine: o.Quarantine, addresses: o.Addresses, images: o.Images, freezer: o.Freezer,
		outdated: o.Outdated, localHomes: o.LocalHomes, newOpID: o.NewOpID, measuring: make(chan struct{}, 1),
		clock: clock.NewDatabase(o.Store, o.Log), probes: make(chan struct{}, maxProbes),
		loops:     make(map[*loop]struct{}),
		reading:   observation.NewOutage(o.Log, "workspaces"),
		observing: observation.NewOutages(o.Log, o.Metrics),
		saving: outage.New(o.Log, zap.ErrorLevel,
			"cannot save decisions; they are made again until it works", "saving decisions works again"),
		probing: outage.New(o.Log, zap.ErrorLevel,
			"the object store cannot be used; operations that need it wait", "the object store can be used again"),
	}
	if o.Probe != nil {
		c.prober = readiness.Prober{Probe: o.Probe, Stats: o.Backend.Stats, OnePort: o.OnePort}
	}
	if c.configured == nil {
		c.configured = func() []string { return nil }
	}
	c.calls.Limit = func() int { return c.settings.Load().MaxConcurrent }
	c.removals.Limit = func() int { return maxRemovals }
	c.jobs = schedule.NewJobs(func() int { return c.settings.Load().MaxJobs })
	c.Apply(DefaultSettings())
	return c
}

// Apply replaces the settings. The new settings apply from the next observation on. Running actuators keep their
// timeouts.
func (c *Controller) Apply(s Settings) {
	c.settings.Store(&s)
	c.calls.Next()
	c.jobs.Next()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pulls != nil {
		c.pulls.Apply(s.pulls())
	}
	for l := range c.loops {
		l.queue.Add() // the wait in progress may have become too long
		l.puller.Apply(s.PrepullInterval)
	}
}

// Wake makes the loops observe these workspaces immediately and stay active for a while, because a desired
// state has changed. It never blocks and is safe for concurrent use, as are Hint and WakeAll. Workspaces
// outside the shards of this process are ignored.
func (c *Controller) Wake(ids ...workspace.ID) { c.dispatch(ids, true) }

// Hint makes the loops observe these workspaces immediately, because their containers, volumes or jobs may have
// changed.
func (c *Controller) Hint(ids ...workspace.ID) { c.dispatch(ids, false) }

// WakeAll makes the loops observe all candidates immediately.
func (c *Controller) WakeAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for l := range c.loops {
		l.queue.AddAll()
	}
}

// SetFullDisk sets the reason why no home may be brought to the disk from now on; nil means that there is room. When
// there is room again, workspaces that waited for it are observed immediately.
func (c *Controller) SetFullDisk(d *workspace.FullDisk) {
	if was := c.fullDisk.Swap(d); was != nil && d == nil {
		c.WakeAll()
	}
}

// dispatch passes each id to the loop of its shard.
func (c *Controller) dispatch(ids []workspace.ID, wake bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for l := range c.loops {
		for _, id := range ids {
			if id.Shard(l.term.Shards) != l.term.Shard {
				continue
			}
			if wake {
				l.woken.Store(true)
			}
			l.queue.Add(id)
		}
	}
}

// Queues has the lengths of the queues, counted for the shards of this process.
type Queues struct{ Jobs, Calls, Removals schedule.Length }

// Queues returns the lengths of the queues. maxJobs is the largest number of concurrent jobs in the whole installation.
func (c *Controller) Queues() (q Queues, maxJobs int) {
	return Queues{c.jobs.Len(), c.calls.Len(), c.removals.Len()}, c.settings.Load().MaxJobs
}

// policy returns the limits for decisions from now on.
func (c *Controller) policy() planner.Policy {
	s := c.settings.Load()
	return planner.Policy{
		Timeouts:    s.Timeouts,
		WaitLimit:   s.WaitLimit,
		KeepDeleted: s.KeepDeleted,
		MaxRetry:    s.MaxRetry,
		FullDisk:    c.fullDisk.Load(),
		NewOpID:     c.newOpID,
	}
}

// Run reconciles the shard until ctx ends, and returns the error of ctx. ctx must end with the leader's term. It may
// run concurrently, once for each shard. When it returns, no actuator, probe or sweep that it started is running.
func (c *Controller) Run(ctx context.Context, term Term) error {
	l := newLoop(c, term)
	c.join(l)
	defer c.leave(l)
	defer l.endTrails()
	defer l.wg.Wait()
	defer c.removals.Drop(&l.wg)
	defer c.calls.Drop(&l.wg)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // first, so that the components beside the loop end even after a panic in it
	l.beside(ctx, "sweep", l.sweeper.Run)
	l.beside(ctx, "measure", l.sweeper.Measure)
	if term.Shard == 0 {
		l.beside(ctx, "prepull", l.puller.Run)
	}
	return l.run(ctx)
}

// beside runs a component of the term concurrently with the loop.
func (l *loop) beside(ctx context.Context, component string, run func(context.Context)) {
	l.wg.Go(func() {
		_ = guard.Keep(ctx, l.log, component, 0, func(ctx context.Context) error { run(ctx); return nil })
	})
}

// join adds a loop. The first one starts the shared parts.
func (c *Controller) join(l *loop) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.loops[l] = struct{}{}
	if c.quit == nil {
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = guard.Keep(ctx, c.log, "container events", 0, func(ctx context.Context) error { c.subscribe(ctx); return nil })
		}()
		c.quit = func() { cancel(); <-done }
		c.pulls = pull.New(func(ctx context.Context, image string, progress func(done, total int64)) error {
			return c.images.Pull(ctx, image, progress) // only a backend with images reports a missing one
		}, c.settings.Load().pulls())
	}
	l.pulls = c.pulls
	l.puller.Apply(c.settings.Load().PrepullInterval)
}

// leave removes a loop. The last one ends the shared parts.
func (c *Controller) leave(l *loop) {
	c.mu.Lock()
	delete(c.loops, l)
	c.jobs.Drop(l.term.Shard, l.term.Shards)
	for id, s := range l.states {
		if s.fault != nil {
			c.faults.remove(id)
		}
	}
	quit, pulls := c.quit, c.pulls
	last := len(c.loops) == 0
	if last {
		c.quit, c.pulls = nil, nil
	}
	c.mu.Unlock()
	if last {
		quit()
		pulls.Close()
	}
}

// subscribe turns the backend's events into hints. After an interruption of the events, it requests an observation of
// everything, because events may have been missed.
func (c *Controller) subscribe(ctx context.Context) {
	const pause = time.Second
	events := outage.New(c.log, zap.WarnLevel,
		"no events from the container backend; workspaces are observed at intervals only",
		"events from the container backend arrive again")
	for ctx.Err() == nil {
		changes, err := c.backend.Events(ctx)
		events.Report(ctx, err)
		if err == nil {
			c.WakeAll()
			for id := range changes {
				c.Hint(id)
			}
		}
		periodic.Pause(ctx, pause)
	}
}
