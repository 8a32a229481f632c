// Package activator wakes workspaces for requests that wait for them. Each workspace has one wake-up, however many requests wait.
// The wake-up sets the desired state, and then probes the application until it gives its first answer (DESIGN 7).
//
// It owns the wake-ups and the number of held requests of this process. It must not decide which request may wake a workspace:
// the gateway's decision table does that. It lives as long as the coordinator, so wake-ups and held requests survive a reload of
// the configuration.
package activator

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/clock"
	"github.com/codehub/gateway/coordinator/dataplane/route"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/logkey"
	"github.com/codehub/gateway/coordinator/metrics"
	"github.com/codehub/gateway/coordinator/outage"
	"github.com/codehub/gateway/coordinator/setting"
	"github.com/codehub/gateway/coordinator/tracing"
	"github.com/codehub/gateway/coordinator/workspace"
)

// The defaults of [Activator.SetMaxHeld]: DefaultMaxHeld is how many requests are held, and one in DefaultShare of them
// may belong to one user.
const (
	DefaultMaxHeld = 1000
	DefaultShare   = 10
)

// CheckMaxHeld returns an error, under the name of the setting, if the limit n is invalid for [Activator.SetMaxHeld]. A
// limit of 0 is valid, and means that no request is held.
func CheckMaxHeld(n int64) error {
	if n < 0 {
		return setting.Errorf("limits max_held", "must be at least 0, not %d", n)
	}
	return nil
}

// Service changes the desired state. It is the service layer.
type Service interface {
	// SetDesired returns a [*service.LimitError] if a limit forbids the change, and the other errors of
	// [service.Service.SetDesired]. Actor.Asked is how long ago RUNNING was requested.
	SetDesired(ctx context.Context, a service.Actor, id workspace.ID, d workspace.DesiredState) error
	// Running returns the user's workspaces that count against the limits.
	Running(ctx context.Context, userID string) ([]workspace.Workspace, error)
}

// Routes is the part of the route table that the activator needs.
type Routes interface {
	// Refresh makes the table reread the workspace's row soon.
	Refresh(id workspace.ID)
	// Lookup returns the entry of a workspace that is awake.
	Lookup(id workspace.ID) (*route.Entry, bool)
}

// Probe reports whether the application at an endpoint, which serves below basePath, gives a good answer.
type Probe func(ctx context.Context, endpoint, basePath string) bool

// Activator wakes workspaces. Its methods are safe for concurrent use.
type Activator struct {
	// Metrics counts ended wake-ups. It is nil, or set before the first wake-up.
	Metrics *metrics.Wakes

	routes  Routes
	service Service
	probe   Probe
	log     *zap.Logger
	tracer  *tracing.Tracer
	// failures reports the failures of all wake-ups as one outage, because all of them need the database.
	failures *outage.Reporter

	held holds
	now  func() time.Time // only for differences

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex // guards the fields below, and the wake-ups' own fields
	wakeUps map[workspace.ID]*WakeUp
}

// New returns an activator that probes with probe; nil means [ProbeHTTP]. It does no I/O.
func New(routes Routes, service Service, probe Probe, tracer *tracing.Tracer, log *zap.Logger) *Activator {
	if probe == nil {
		probe = ProbeHTTP()
	}
	a := &Activator{routes: routes, service: service, probe: probe, tracer: tracer, log: log,
		wakeUps: make(map[workspace.ID]*WakeUp), now: clock.Steady()}
	a.failures = outage.New(log, zap.ErrorLevel, "waking workspaces failed and is retried",
		"workspaces can be woken again")
	a.SetMaxHeld(DefaultMaxHeld, 0)
	a.ctx, a.cancel = context.WithCancel(context.Background())
	return a
}

// Run ends all wake-ups when ctx ends, and returns when they have ended.
func (a *Activator) Run(ctx context.Context) error {
	<-ctx.Done()
	a.mu.Lock()
	a.cancel() // under the lock, so that no wake-up begins afterwards
	a.mu.Unlock()
	a.wg.Wait()
	return nil
}

// Stopped is closed when all wake-ups end because the coordinator stops.
func (a *Activator) Stopped() <-chan struct{} { return a.ctx.Done() }

// Wake starts a wake-up of the workspace or joins the current one, and extends it to at least timeout from now. It
// overrides an earlier request for another state. A later request for another state ends the wake-up (see
// [WakeUp.Overtaken]). The wake-up is logged and traced as part of the request of ctx, but continues after ctx ends. A
// new wake-up is counted for the client that by identifies. In the audit, the first caller of Wake is the one who
// opened the workspace.
func (a *Activator) Wake(ctx context.Context, id workspace.ID, e *route.Entry, timeout time.Duration, by metrics.Client) *WakeUp {
	return a.begin(ctx, id, e, timeout, by, true)
}

// thawTimeout bounds the wake-up of a dozing workspace that is being used.
const thawTimeout = 30 * time.Second

// Used wakes a dozing workspace because it is being used: for example, a message arrived on a connection that is
// already open, or a person uses its page. It then returns false: the use does not count before the wake-up is granted,
// and does not count at all if a limit forbids the wake-up. For a workspace that does not doze, Used does nothing and
// returns true, without allocating. It never blocks. by is the actor for the audit; nil is the system itself.
func (a *Activator) Used(id workspace.ID, by audit.Asker) bool {
	e, known := a.routes.Lookup(id)
	if !known || !e.State().Dozes() {
		return true
	}
	ctx := context.Background()
	if by != nil {
		ctx = audit.With(ctx, by.Actor())
	}
	a.Wake(ctx, id, e, thawTimeout, metrics.Program)
	return false
}

// Join is [Activator.Wake] for requests that must not wake a workspace. Its wake-up never sets the desired state, and
// only waits until something else starts the workspace.
func (a *Activator) Join(ctx context.Context, id workspace.ID, e *route.Entry, timeout time.Duration, by metrics.Client) *WakeUp {
	return a.begin(ctx, id, e, timeout, by, false)
}

// begin returns the current wake-up or a new one, and extends it to the timeout. After the activator has stopped, it
// returns a wake-up that has already ended, so that callers need no special case.
func (a *Activator) begin(ctx context.Context, id workspace.ID, e *route.Entry, timeout time.Duration, by metrics.Client,
	wake bool) *WakeUp {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	w := a.wakeUps[id]
	if w == nil {
		w = &WakeUp{activator: a, id: id, entry: e, by: by, done: make(chan struct{})}
		w.progress.start(e.State(), now)
		w.ctx, w.span = a.tracer.Start(tracing.Join(a.ctx, ctx), tracing.Wake,
			trace.WithAttributes(attribute.String(logkey.Workspace, string(id))))
		a.wakeUps[id] = w
		e.Pin() // keeps the entry in the table
		if a.ctx.Err() == nil {
			a.wg.Go(w.guarded)
		} else {
			w.endLocked(nil, metrics.WakeStopped)
		}
	}
	tracing.Link(ctx, w.span)
	w.until = later(w.until, now.Add(timeout))
	if wake {
		if w.actor == nil {
			w.actor = new(audit.Of(ctx))
		}
		w.wakeUntil = later(w.wakeUntil, now.Add(timeout))
		w.asked = a.now()
	}
	return w
}

// WakeUps returns how many wake-ups are in progress.
func (a *Activator) WakeUps() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.wakeUps)
}

// InProgress returns the workspace's wake-up and extends it, or returns nil if there is none. It starts nothing.
func (a *Activator) InProgress(id workspace.ID, timeout time.Duration) *WakeUp {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	w := a.wakeUps[id]
	if w != nil {
		w.until = later(w.until, now.Add(timeout))
		if w.wakeUntil.After(now) {
			w.wakeUntil = later(w.wakeUntil, now.Add(timeout))
		}
	}
	return w
}

// Forget lets the next request try again although a limit has just refused the last wake-up, because the cause may be
// gone.
func (a *Activator) Forget(id workspace.ID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if w := a.wakeUps[id]; w != nil && w.refused != nil {
		delete(a.wakeUps, id)
	}
}

// later returns the later of two times. A wake-up is extended to the later time, because an earlier request may have
// had a longer timeout.
func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
