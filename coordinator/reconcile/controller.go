// Package reconcile is the workspace controller: it observes workspaces, decides
// with the pure rules of package workspace, saves the decision, and only then calls
// the actuators. It owns the pace of observations and retries, and how many actuators
// run at once. It must not decide anything itself, and must not change desired
// states.
//
// It is level-triggered: wake-ups and events make an observation come sooner, and
// losing every one of them costs time, never correctness (SPEC 1, contract 2). One
// goroutine, the loop, owns all state. Whatever can take long, actuators and probes of
// the object store, runs beside it, at most one at a time per workspace, so the loop
// never waits for it.
package reconcile

import (
	"context"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/outage"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workqueue"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Store is the database as the controller uses it. *store.Store implements it.
type Store interface {
	// Candidates returns the rows of a shard that every tick must observe, or only those
	// that are about to change.
	Candidates(ctx context.Context, shard, shards int, transitionOnly bool) ([]workspace.Workspace, error)
	// Workspaces returns the rows with these ids, deleted ones included.
	Workspaces(ctx context.Context, ids []workspace.ID) ([]workspace.Workspace, error)
	// SweepPage returns the next rows of a shard that ticks leave out and a sweep observes.
	SweepPage(ctx context.Context, shard, shards int, after workspace.ID, limit int) ([]workspace.Workspace, error)
	// Save writes next if the row is still prev and the fence still holds.
	Save(ctx context.Context, f store.Fence, prev, next workspace.Workspace) (bool, error)
	// Holds reports whether the fence's epoch is still the newest.
	Holds(ctx context.Context, f store.Fence) (bool, error)
}

// Archives is the object store as the controller uses it. *archive.Store implements
// it.
type Archives interface {
	// Stat returns an error that is fs.ErrNotExist if the archive or its commit marker
	// does not exist. Any other error means that it is not known.
	Stat(ctx context.Context, key string) (archive.Info, error)
	// CreateEmpty stores an archive without files. It does nothing if the archive
	// exists.
	CreateEmpty(ctx context.Context, key string) error
	// JobEnv returns the environment with which a storage job reaches the archive.
	JobEnv(key string) []string
}

// Controller reconciles the workspaces while its process leads.
type Controller struct {
	store    Store
	backend  backend.Backend
	archives Archives
	log      *zap.Logger
	newOpID  func() string
	now      func() time.Time
	settings atomic.Pointer[Settings]
	queue    *workqueue.Queue[workspace.ID]
	woken    atomic.Bool // a wake-up is in the queue: become active
}

// New returns a controller, which does nothing before Run. newOpID must return a new
// UUID each time: archives and jobs are named after it.
func New(s Store, b backend.Backend, a Archives, newOpID func() string, log *zap.Logger) *Controller {
	c := &Controller{
		store: s, backend: b, archives: a, log: log, newOpID: newOpID, now: now,
		queue: workqueue.New[workspace.ID](),
	}
	c.Apply(DefaultSettings())
	return c
}

// now is the time in PostgreSQL's precision: a row that was saved must compare equal
// to the same row read back.
func now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

// Apply replaces the settings. They apply from the next observation on; actuators that
// run keep their timeouts.
func (c *Controller) Apply(s Settings) {
	c.settings.Store(&s)
	c.queue.Add() // the wait in progress may have become too long
}

// Wake makes the loop observe these workspaces at once and stay active for a while,
// because a desired state has changed. It never blocks and is safe for concurrent
// use, as are Hint and WakeAll.
func (c *Controller) Wake(ids ...workspace.ID) {
	c.woken.Store(true)
	c.queue.Add(ids...)
}

// Hint makes the loop observe these workspaces at once, because their containers,
// volumes or jobs may have changed.
func (c *Controller) Hint(ids ...workspace.ID) { c.queue.Add(ids...) }

// WakeAll makes the loop observe all candidates at once.
func (c *Controller) WakeAll() { c.queue.AddAll() }

// policy returns the limits for decisions from now on.
func (c *Controller) policy() workspace.Policy {
	s := c.settings.Load()
	return workspace.Policy{
		Timeouts:    s.Timeouts,
		MaxRetry:    s.MaxRetry,
		StableAfter: s.StableAfter,
		NewOpID:     c.newOpID,
	}
}

// Run reconciles until ctx ends, which is at the end of the leader's term, and returns
// its error. When it returns, no actuator or probe that it started is running.
func (c *Controller) Run(ctx context.Context, f store.Fence) error {
	l := &loop{
		Controller: c,
		fence:      f,
		busy:       make(map[workspace.ID]struct{}),
		retryAt:    make(map[workspace.ID]time.Time),
		probed:     make(map[workspace.ID]probeResult),
		unsaved:    make(map[workspace.ID]int),
		probeSlots: make(chan struct{}, maxProbes),
		results:    make(chan result),

		observing: outage.New(c.log, zap.ErrorLevel,
			"cannot observe workspaces; they keep their state until it works again", "observing workspaces works again"),
		saving: outage.New(c.log, zap.ErrorLevel,
			"cannot save decisions; they are made again until it works", "saving decisions works again"),
		probing: outage.New(c.log, zap.WarnLevel,
			"the object store does not answer; operations that need it wait", "the object store answers again"),
	}
	defer l.wg.Wait()
	l.wg.Go(func() { l.subscribe(ctx) })
	return l.run(ctx)
}

// subscribe turns the backend's events into hints. After an interruption everything
// is observed, because events may have been missed.
func (l *loop) subscribe(ctx context.Context) {
	const pause = time.Second
	events := outage.New(l.log, zap.WarnLevel,
		"no events from the container backend; workspaces are observed at intervals only", "events from the container backend arrive again")
	for ctx.Err() == nil {
		changes, err := l.backend.Events(ctx)
		events.Report(ctx, err)
		if err == nil {
			l.WakeAll()
			for id := range changes {
				l.Hint(id)
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}
