package reconcile

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/control/reconcile/internal/brake"
	"github.com/codehub/gateway/coordinator/control/reconcile/internal/probe"
	"github.com/codehub/gateway/coordinator/control/reconcile/internal/pull"
	"github.com/codehub/gateway/coordinator/control/reconcile/internal/sense"
	"github.com/codehub/gateway/coordinator/internal/workqueue"
	"github.com/codehub/gateway/coordinator/outage"
	"github.com/codehub/gateway/coordinator/workspace"
)

// loop is the state of one term as the leader of one shard. Only the goroutine in run
// touches it, except for queue and woken.
type loop struct {
	*Controller
	term  Term
	label string // the term, for the labels of what it starts
	queue *workqueue.Queue[workspace.ID]
	woken atomic.Bool // a wake-up is in the queue: become active
	pulls *pull.Pool
	wg    sync.WaitGroup

	busy     map[workspace.ID]struct{}     // workspaces with an actuator or a probe running
	again    map[workspace.ID]struct{}     // of them, those that were asked for meanwhile
	retries  map[workspace.ID]retry        // when the next attempt is due
	unsaved  map[workspace.ID]int          // consecutive saves that failed
	probed   map[workspace.ID]probe.Answer // answers of the object store, each used once
	begun    map[workspace.ID]time.Time    // when this leader has begun the operations in progress
	progress map[workspace.ID]progress     // how the operations in progress get on
	pulling  map[workspace.ID]awaited      // images that workspaces wait for
	starved  map[workspace.ID]struct{}     // workspaces that wait for a store that is away
	brake    *brake.Brake

	results chan result

	tickedAt, fullAt time.Time // the last active and the last full observation
	activeUntil      time.Time

	reading   *outage.Reporter // the rows
	observing sense.Outages
	saving    *outage.Reporter
	probing   *outage.Reporter
}

// newLoop returns the loop of a term.
func newLoop(c *Controller, term Term) *loop {
	term.Shards = max(term.Shards, 1)
	return &loop{
		Controller: c,
		term:       term,
		label:      fmt.Sprintf("%s:%d", term.Fence.Lock, term.Fence.Epoch),
		queue:      workqueue.New[workspace.ID](),
		busy:       make(map[workspace.ID]struct{}),
		again:      make(map[workspace.ID]struct{}),
		retries:    make(map[workspace.ID]retry),
		unsaved:    make(map[workspace.ID]int),
		probed:     make(map[workspace.ID]probe.Answer),
		begun:      make(map[workspace.ID]time.Time),
		progress:   make(map[workspace.ID]progress),
		pulling:    make(map[workspace.ID]awaited),
		starved:    make(map[workspace.ID]struct{}),
		brake:      brake.New(c.log),
		results:    make(chan result),
		reading:    sense.NewOutage(c.log, "workspaces"),
		observing:  sense.NewOutages(c.log),
		saving: outage.New(c.log, zap.ErrorLevel,
			"cannot save decisions; they are made again until it works", "saving decisions works again"),
		probing: outage.New(c.log, zap.WarnLevel,
			"the object store cannot be used; operations that need it wait", "the object store can be used again"),
	}
}

// ended forgets what the loop knows of the operation of a workspace. Without one it may not be
// observed again for long.
func (l *loop) ended(id workspace.ID) {
	delete(l.begun, id)
	delete(l.progress, id)
	delete(l.pulling, id)
}

// forget forgets a workspace that is never observed again.
func (l *loop) forget(id workspace.ID) {
	l.ended(id)
	delete(l.retries, id)
	delete(l.probed, id)
	delete(l.starved, id)
	delete(l.again, id)
}

// run waits for a tick, a wake-up, a retry that is due, or the result of a task or
// probe, and then observes what is affected. Nothing in it blocks except bounded
// queries.
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
		// A wake-up between these two lines is not lost: it signals, and the next
		// iteration finds it.
		woken := l.woken.Swap(false)
		batch := l.queue.Take()
		now := time.Now()
		if woken {
			l.activeUntil = now.Add(l.settings.Load().ActiveFor)
		}
		ids := append(batch.Keys, l.due(now)...)
		switch {
		case batch.All || !now.Before(l.nextFull()):
			l.tickedAt, l.fullAt = now, now
			l.reconcile(ctx, everything, nil)
		case !now.Before(l.nextTick(now)):
			l.tickedAt = now
			l.reconcile(ctx, transitional, nil)
		}
		// Those with an actuator or a probe are observed when it has ended.
		ids = slices.DeleteFunc(ids, func(id workspace.ID) bool {
			_, busy := l.busy[id]
			if busy {
				l.again[id] = struct{}{}
			}
			return busy
		})
		if len(ids) > 0 {
			l.reconcile(ctx, requested, ids)
			l.lookAgain(ids)
		}
		timer.Reset(l.untilNext())
	}
}

// lookAgain has those observed once more that were asked for while a probe of them ran: its
// answer may be older than what there was to see.
func (l *loop) lookAgain(ids []workspace.ID) {
	for _, id := range ids {
		if _, asked := l.again[id]; !asked {
			continue
		}
		delete(l.again, id)
		if _, busy := l.busy[id]; !busy {
			l.queue.Add(id)
		}
	}
}

// nextFull is when all candidates are observed next: at the idle interval, or sooner to
// confirm a loss.
func (l *loop) nextFull() time.Time {
	next := l.fullAt.Add(l.settings.Load().IdleInterval)
	if at := l.brake.ConfirmAt(); !at.IsZero() && at.Before(next) {
		return at
	}
	return next
}

// nextTick is when those that are about to change are observed next. While nothing is
// active there is no such tick of its own.
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
	for _, r := range l.retries {
		if r.at.Before(next) {
			next = r.at
		}
	}
	return max(next.Sub(now), 0)
}

// reconcile observes the workspaces of a scope and decides on each. What cannot be
// observed keeps its conditions (SPEC 2).
func (l *loop) reconcile(ctx context.Context, s scope, ids []workspace.ID) {
	snap, err := l.observe(ctx, s, ids)
	if err != nil {
		// The given workspaces are observed again at the next tick or sweep, and the
		// object store is asked again.
		clear(l.probed)
		return
	}
	look := l.brake.Begin(s == everything, snap.Volumes)
	var plans []plan
	var ready []candidate
	for _, w := range snap.rows {
		if c, ok := l.prepare(ctx, w, snap); ok {
			ready = append(ready, c)
		}
	}
	l.queueJobs(ctx, ready)
	for _, c := range ready {
		if p, ok := l.decide(ctx, c, look); ok {
			plans = append(plans, p)
		}
	}
	for _, loss := range l.brake.Confirm(look, l.settings.Load().MaxLossShare) {
		plans = append(plans, plan{loss.Row, loss.Decision, loss.Observation.Container != nil})
	}
	l.apply(ctx, plans)
}
