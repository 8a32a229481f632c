package reconcile

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/codehub/gateway/coordinator/control/reconcile/internal/actuator"
	"github.com/codehub/gateway/coordinator/control/reconcile/internal/observation"
	"github.com/codehub/gateway/coordinator/control/reconcile/internal/prepull"
	"github.com/codehub/gateway/coordinator/control/reconcile/internal/pull"
	"github.com/codehub/gateway/coordinator/control/reconcile/internal/sweep"
	"github.com/codehub/gateway/coordinator/internal/workqueue"
	"github.com/codehub/gateway/coordinator/metrics"
	"github.com/codehub/gateway/coordinator/workspace"
)

// observeTimeout bounds one observation, so that a backend that hangs counts as one that does not answer.
const observeTimeout = 20 * time.Second

// listAll is the number of workspaces from which the loop lists everything at once, instead of each workspace
// separately.
const listAll = 100

// scope is the set of workspaces of an observation.
type scope int

const (
	requested    scope = iota // given ones: woken, hinted, or due
	transitional              // those that are about to change
	everything                // all candidates
)

func (s scope) String() string { return [...]string{"requested", "transitional", "everything"}[s] }

// snapshot is what the database and the backend reported at one time.
type snapshot struct {
	observation.Snapshot
	rows  []workspace.Workspace
	began time.Time // before anything was read
}

// loop is the state of one term as the leader of one shard. Only the goroutine in run accesses it, except for
// queue and woken.
type loop struct {
	*Controller
	term  Term
	queue *workqueue.Queue[workspace.ID]
	woken atomic.Bool // a wake-up is in the queue: become active
	pulls *pull.Pool
	wg    sync.WaitGroup

	states   map[workspace.ID]*state // only of workspaces with something to remember
	breaker  *observation.Breaker
	actuator *actuator.Actuator
	sweeper  *sweep.Sweeper
	puller   *prepull.Puller
	results  chan result
	ended    []workspace.ID // their results were handled, and they were not observed since

	tickedAt, fullAt time.Time // the last active and the last full observation
	activeUntil      time.Time
}

// newLoop returns the loop of a term.
func newLoop(c *Controller, term Term) *loop {
	term.Shards = max(term.Shards, 1)
	l := &loop{
		Controller: c,
		term:       term,
		queue:      workqueue.New[workspace.ID](),
		states:     make(map[workspace.ID]*state),
		breaker:    observation.NewBreaker(c.log),
		results:    make(chan result),
	}
	l.actuator = &actuator.Actuator{
		Store: c.store, Backend: actuator.Traced(c.backend, c.tracer), Archives: c.archives, Identity: c.identity,
		Launch: c.launch, Addresses: c.addresses, Images: c.images, Freezer: c.freezer, Quarantine: c.quarantine,
		Policy: c.policy, Tracer: c.tracer, Log: c.log,
		Pull:  func(image string) { l.pulls.Begin(image) },
		Fence: term.Fence, Label: fmt.Sprintf("%s:%d", term.Fence.Lock, term.Fence.Epoch), Lease: term.Lease,
	}
	l.sweeper = &sweep.Sweeper{
		Store: c.store, Backend: c.backend, Archives: c.archives, Identity: c.identity, Clock: c.clock,
		Policy:   c.policy,
		Settings: func() sweep.Settings { return c.settings.Load().sweep() },
		Changed:  func(id workspace.ID) { c.Hint(id) }, Measuring: c.measuring, LocalHomes: c.localHomes, Log: c.log,
		Fence: term.Fence, Shard: term.Shard, Shards: term.Shards,
	}
	l.puller = prepull.New(prepull.Options{
		Images: c.images, Store: c.store, Identity: c.identity.Backend, Configured: c.configured,
		Resolve: func(image string) (string, error) {
			spec, err := c.launch(workspace.Workspace{ImageRef: image})
			return spec.Image, err
		},
		Full:   func() bool { return c.fullDisk.Load() != nil },
		Pull:   func(ctx context.Context, reference string) error { return l.pulls.Ahead(ctx, reference) },
		Cycles: c.cycles, Log: c.log,
	})
	return l
}

// run waits for a tick, a wake-up, the time of a retry, or the result of a task or probe. Then it observes the affected
// workspaces, and begins again. Only bounded queries block it.
func (l *loop) run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
		case <-l.queue.Ready():
		case r := <-l.results:
			l.handle(ctx, r)
			l.handleMore(ctx)
		}
		// A wake-up between these two lines is not lost: it also makes the queue ready, and the next iteration finds
		// it.
		woken := l.woken.Swap(false)
		batch := l.queue.Take()
		now := time.Now()
		if woken {
			l.activeUntil = now.Add(activeFor)
		}
		ids := append(l.takeEnded(batch.Keys), l.due(now)...)
		switch {
		case batch.All || !now.Before(l.nextFull()):
			l.tickedAt, l.fullAt = now, now
			l.reconcile(ctx, everything, nil)
		case !now.Before(l.nextTick(now)):
			l.tickedAt = now
			l.reconcile(ctx, transitional, nil)
		}
		// A workspace with a running actuator or probe is observed only after that has ended.
		ids = slices.DeleteFunc(ids, func(id workspace.ID) bool {
			s := l.states[id]
			if s == nil || !s.busy {
				return false
			}
			s.again = true
			return true
		})
		if len(ids) > 0 {
			l.reconcile(ctx, requested, ids)
			l.lookAgain(ids)
		}
		timer.Reset(l.untilNext())
	}
}

// takeEnded returns the workspaces in asked together with those whose actuator or probe has ended. A workspace in both
// sets was requested while its actuator or probe ran, or after that: see lookAgain.
func (l *loop) takeEnded(asked []workspace.ID) []workspace.ID {
	ids := asked
	for _, id := range l.ended {
		if slices.Contains(asked, id) {
			l.of(id).again = true
		} else {
			ids = append(ids, id)
		}
	}
	l.ended = l.ended[:0]
	return ids
}

// lookAgain requests another observation of each workspace that was requested while a probe of it ran, because the
// answer of that probe may be outdated.
func (l *loop) lookAgain(ids []workspace.ID) {
	for _, id := range ids {
		s := l.states[id]
		if s == nil || !s.again {
			continue
		}
		s.again = false
		if !s.busy {
			l.queue.Add(id)
		}
	}
}

// nextFull returns when all candidates are observed next: after the idle interval, or sooner to confirm a loss.
func (l *loop) nextFull() time.Time {
	next := l.fullAt.Add(l.settings.Load().IdleInterval)
	if at := l.breaker.ConfirmAt(); !at.IsZero() && at.Before(next) {
		return at
	}
	return next
}

// nextTick returns when the workspaces that are about to change are observed next. While nothing is active, there is no
// such separate tick.
func (l *loop) nextTick(now time.Time) time.Time {
	s := l.settings.Load()
	if now.Before(l.activeUntil) {
		return l.tickedAt.Add(s.ActiveInterval)
	}
	return l.tickedAt.Add(s.IdleInterval)
}

// untilNext returns the time until the next tick or the next retry, whichever is first.
func (l *loop) untilNext() time.Duration {
	now := time.Now()
	next := l.nextFull()
	if at := l.nextTick(now); at.Before(next) {
		next = at
	}
	for _, s := range l.states {
		if at := s.retry.at; !at.IsZero() && at.Before(next) {
			next = at
		}
	}
	return max(next.Sub(now), 0)
}

// reconcile observes the workspaces of a scope and decides on each. Conditions that cannot be observed stay
// (SPEC 2).
func (l *loop) reconcile(ctx context.Context, s scope, ids []workspace.ID) {
	defer l.metrics.Cycle(s.String(), time.Now())
	snap, err := l.observe(ctx, s, ids)
	if err != nil {
		// The next tick or sweep observes the given workspaces, and the object store is asked again then.
		for _, s := range l.states {
			s.answer = nil
		}
		return
	}
	defer l.tidy(snap.rows)
	look := l.breaker.Begin(s == everything, snap.Volumes)
	policy := l.policy()
	policy.ProgressEvery = l.progressEvery()
	var plans []plan
	var ready []candidate
	for _, w := range snap.rows {
		l.isolate(w, &plans, func() {
			if c, ok := l.prepare(ctx, w, snap, policy); ok {
				ready = append(ready, c)
			}
		})
	}
	l.queueJobs(ctx, ready, &plans)
	for _, c := range ready {
		l.isolate(c.row, &plans, func() {
			if p, ok := l.decide(ctx, c, look); ok {
				plans = append(plans, p)
			}
		})
	}
	for _, loss := range l.breaker.Confirm(look, l.settings.Load().MaxLossShare) {
		plans = append(plans, plan{row: loss.Row, decision: loss.Decision, logs: loss.Observation.Container != nil})
	}
	l.apply(ctx, plans)
}

// observe reads the rows of a scope, and the backend's objects of these workspaces. An error means that the rows could
// not be read. If a sensor fails, the snapshot says that it is unseen.
func (l *loop) observe(ctx context.Context, s scope, ids []workspace.ID) (snapshot, error) {
	began := time.Now()
	bounded, cancel := context.WithTimeout(ctx, observeTimeout)
	defer cancel()
	var rows []workspace.Workspace
	err := l.clock.Measure(bounded)
	if err == nil {
		rows, err = l.rows(bounded, s, ids)
	}
	l.metrics.Sensed(ctx, metrics.Database, err)
	l.reading.Report(ctx, err) // a timeout is an outage, too
	if err != nil {
		return snapshot{}, err
	}
	if len(rows) == 0 {
		return snapshot{}, nil
	}
	if s == everything && (len(rows) > listAll || l.breaker.Suspects()) {
		ids = nil // to confirm a loss, the state of the others counts as well
	} else {
		ids = make([]workspace.ID, len(rows))
		for i, w := range rows {
			ids[i] = w.ID
		}
	}
	return snapshot{observation.Read(ctx, bounded, l.backend, l.identity, l.observing, ids), rows, began}, nil
}

// rows returns the rows of a scope. The scope of all candidates includes the workspaces with an unconfirmed loss.
func (l *loop) rows(ctx context.Context, s scope, ids []workspace.ID) ([]workspace.Workspace, error) {
	if s == requested {
		return l.store.Workspaces(ctx, ids)
	}
	rows, err := l.store.Candidates(ctx, l.term.Shard, l.term.Shards, s == transitional)
	suspects := l.breaker.Others(rows)
	if err != nil || s != everything || len(suspects) == 0 {
		return rows, err
	}
	more, err := l.store.Workspaces(ctx, suspects)
	return append(rows, more...), err
}
