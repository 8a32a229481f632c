// Package reconcile is the workspace controller: it looks at the world, decides
// with the pure rules of package workspace, saves what it decided, and only then
// acts. It is level-triggered: wake-ups and events make a look come sooner, and
// losing every one of them costs time, never correctness (SPEC 1, contract 2).
//
// One loop owns all state. Whatever can take long, actuators and questions to
// the object store, runs beside it, at most one at a time for a workspace; so a
// look never waits for the world to change.
package reconcile

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Store is the database as the controller uses it. *store.Store implements it.
type Store interface {
	// Candidates are the rows that a tick must look at.
	Candidates(ctx context.Context) ([]workspace.Workspace, error)
	// Workspaces are the rows with these ids, deleted ones included.
	Workspaces(ctx context.Context, ids []workspace.ID) ([]workspace.Workspace, error)
	// StandbyIDs are the workspaces that are asleep with a volume.
	StandbyIDs(ctx context.Context) ([]workspace.ID, error)
	// Save writes next if the row is still prev and the fence still holds.
	Save(ctx context.Context, f store.Fence, prev, next workspace.Workspace) (bool, error)
	// Holds reports whether the fence's epoch is still the newest.
	Holds(ctx context.Context, f store.Fence) (bool, error)
}

// Archives is the object store as the controller uses it. *archive.Store
// implements it.
type Archives interface {
	Stat(ctx context.Context, key string) (archive.Info, error)
	CreateEmpty(ctx context.Context, key string) error
	JobEnv(key string) []string
}

// Settings can change while the controller runs.
type Settings struct {
	// IdleInterval and ActiveInterval are the times between two looks at all
	// candidates; the second holds while an operation is in progress and for
	// ActiveFor after a wake-up (SPEC 5).
	IdleInterval, ActiveInterval, ActiveFor time.Duration
	// SweepInterval is the time between two looks that also include what sleeps.
	SweepInterval time.Duration
	// MaxConcurrent bounds the actuators that run at once.
	MaxConcurrent int
	// Timeouts are the operations' limits; MaxRetry bounds an operation's failures.
	Timeouts map[workspace.Operation]time.Duration
	MaxRetry int
	// StableAfter is how long a container must last not to count as crashing.
	StableAfter time.Duration
}

// DefaultSettings are those of SPEC 3 and 5.
func DefaultSettings() Settings {
	return Settings{
		IdleInterval:   15 * time.Second,
		ActiveInterval: time.Second,
		ActiveFor:      30 * time.Second,
		SweepInterval:  5 * time.Minute,
		MaxConcurrent:  10,
		Timeouts:       workspace.DefaultTimeouts(),
		MaxRetry:       3,
		StableAfter:    time.Minute,
	}
}

// Controller reconciles the workspaces of one shard while it leads.
type Controller struct {
	store    Store
	backend  backend.Backend
	archives Archives
	log      *zap.Logger
	newOpID  func() string
	now      func() time.Time
	settings atomic.Pointer[Settings]

	mu      sync.Mutex
	pending map[workspace.ID]struct{}
	hurry   bool          // a wish is among the pending: stay active for a while
	all     bool          // look at everything
	signal  chan struct{} // holds one token while there is something pending
}

// New makes a controller. It does nothing before Run. newOpID makes UUIDs.
func New(s Store, r backend.Backend, a Archives, newOpID func() string, log *zap.Logger) *Controller {
	c := &Controller{
		store: s, backend: r, archives: a, log: log, newOpID: newOpID, now: now,
		pending: make(map[workspace.ID]struct{}),
		signal:  make(chan struct{}, 1),
	}
	c.Apply(DefaultSettings())
	return c
}

// now is the time as the database keeps it: a row that was saved and one that was
// read back must compare equal.
func now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

// Apply replaces the settings; they hold from the next look on.
func (c *Controller) Apply(s Settings) {
	c.settings.Store(&s)
	c.poke()
}

// Wake asks for a look at these workspaces at once, because of a wish. It never
// blocks, and may be called by anybody at any time.
func (c *Controller) Wake(ids ...workspace.ID) { c.enqueue(true, ids) }

// Hint asks for a look at these workspaces at once, because something about them
// may have changed in the world.
func (c *Controller) Hint(ids ...workspace.ID) { c.enqueue(false, ids) }

// WakeAll asks for a look at everything that is not asleep.
func (c *Controller) WakeAll() {
	c.mu.Lock()
	c.all = true
	c.mu.Unlock()
	c.poke()
}

func (c *Controller) enqueue(hurry bool, ids []workspace.ID) {
	c.mu.Lock()
	for _, id := range ids {
		c.pending[id] = struct{}{}
	}
	c.hurry = c.hurry || hurry
	c.mu.Unlock()
	c.poke()
}

func (c *Controller) poke() {
	select {
	case c.signal <- struct{}{}:
	default:
	}
}

// take returns what is pending and forgets it.
func (c *Controller) take() (ids []workspace.ID, hurry, all bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := range c.pending {
		ids = append(ids, id)
	}
	clear(c.pending)
	hurry, all = c.hurry, c.all
	c.hurry, c.all = false, false
	return ids, hurry, all
}

// policy is what decisions are made under now.
func (c *Controller) policy() workspace.Policy {
	s := c.settings.Load()
	return workspace.Policy{
		Timeouts:    s.Timeouts,
		MaxRetry:    s.MaxRetry,
		StableAfter: s.StableAfter,
		NewOpID:     c.newOpID,
	}
}

// Run reconciles until ctx ends, which is when the leadership does. When it
// returns, nothing that it started runs any more.
func (c *Controller) Run(ctx context.Context, f store.Fence) error {
	l := &loop{
		Controller: c,
		fence:      f,
		busy:       make(map[workspace.ID]struct{}),
		retryAt:    make(map[workspace.ID]time.Time),
		probes:     make(map[workspace.ID]probe),
		unsaved:    make(map[workspace.ID]int),
		asking:     make(chan struct{}, maxProbes),
		results:    make(chan result),
	}
	defer l.wg.Wait()
	l.wg.Go(func() { l.subscribe(ctx) })
	return l.run(ctx)
}

// subscribe turns the runtime's events into hints. After a break everything is
// looked at, because events may have been missed.
func (l *loop) subscribe(ctx context.Context) {
	const pause = time.Second
	healthy := true
	for ctx.Err() == nil {
		events, err := l.backend.Events(ctx)
		if err == nil {
			if !healthy {
				l.log.Info("runtime events are back")
			}
			healthy = true
			l.WakeAll()
			for id := range events {
				l.Hint(id)
			}
		} else if healthy && ctx.Err() == nil {
			healthy = false
			l.log.Warn("no events from the runtime; looking at intervals only", zap.Error(err))
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}
