package reconcile

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/codehub/gateway/coordinator/outage"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
)

// observeTimeout bounds one observation, so that a backend that hangs counts as one
// that does not answer.
const observeTimeout = 20 * time.Second

// loop is the state of one term as the leader. Only the goroutine in run touches it.
type loop struct {
	*Controller
	fence store.Fence
	wg    sync.WaitGroup

	busy     map[workspace.ID]struct{}    // workspaces with an actuator or a probe running
	retryAt  map[workspace.ID]time.Time   // when the next attempt after a failure is due
	unsaved  map[workspace.ID]int         // consecutive saves that failed
	probed   map[workspace.ID]probeResult // answers of the object store, each used once
	tasks    []task                       // actuator calls that wait for their turn
	inFlight int                          // actuator calls in progress

	probeSlots chan struct{} // bounds the concurrent probes
	results    chan result

	tickedAt    time.Time
	activeUntil time.Time
	sweepAt     time.Time

	observing, saving, probing *outage.Reporter
}

// snapshot is what the database and the backend reported at one time.
type snapshot struct {
	rows       []workspace.Workspace
	containers map[workspace.ID]workspace.Container
	volumes    map[workspace.ID]workspace.Volume
	jobs       map[workspace.ID][]workspace.Job
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
		}
		// A wake-up between these two lines is not lost: it signals, and the next
		// iteration finds it.
		woken := l.woken.Swap(false)
		batch := l.queue.Take()
		now := l.now()
		if woken {
			l.activeUntil = now.Add(l.settings.Load().ActiveFor)
		}
		ids := append(batch.Keys, l.due(now)...)
		if batch.All || now.Sub(l.tickedAt) >= l.interval(now) {
			l.tickedAt = now
			l.reconcile(ctx, nil)
		}
		if len(ids) > 0 {
			l.reconcile(ctx, ids)
		}
		l.startTasks(ctx)
		timer.Reset(l.untilNext())
	}
}

// interval returns the current time between two observations of all candidates.
func (l *loop) interval(now time.Time) time.Duration {
	s := l.settings.Load()
	if now.Before(l.activeUntil) {
		return s.ActiveInterval
	}
	return s.IdleInterval
}

// due returns the workspaces whose retry is due, and clears their retry times.
func (l *loop) due(now time.Time) []workspace.ID {
	var ids []workspace.ID
	for id, at := range l.retryAt {
		if !now.Before(at) {
			delete(l.retryAt, id)
			ids = append(ids, id)
		}
	}
	return ids
}

// untilNext returns the time until the next tick or the next retry, whichever is first.
func (l *loop) untilNext() time.Duration {
	now := l.now()
	next := l.tickedAt.Add(l.interval(now))
	for _, at := range l.retryAt {
		if at.Before(next) {
			next = at
		}
	}
	return max(next.Sub(now), 0)
}

// reconcile observes the given workspaces, or all candidates if ids is nil, and
// decides on each. If the observation fails nothing changes: conditions keep their
// values (SPEC 2).
func (l *loop) reconcile(ctx context.Context, ids []workspace.ID) {
	sweep := ids == nil && !l.now().Before(l.sweepAt)
	snap, err := l.observe(ctx, ids, sweep)
	l.observing.Report(ctx, err)
	if err != nil {
		// The given workspaces are observed again at the next tick or sweep, and the
		// object store is asked again.
		clear(l.probed)
		return
	}
	if sweep {
		l.sweepAt = l.now().Add(l.settings.Load().SweepInterval)
	}
	for _, w := range snap.rows {
		if ctx.Err() != nil {
			return
		}
		l.decide(ctx, w, snap, ids != nil || sweep)
	}
}

// observe reads rows, containers, volumes and jobs at the same time, each in one call
// for all workspaces. If one of them fails the snapshot is not used: a container
// listing without its volumes would look like lost data.
func (l *loop) observe(ctx context.Context, ids []workspace.ID, sweep bool) (snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, observeTimeout)
	defer cancel()
	var snap snapshot
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) { snap.rows, err = l.rows(gctx, ids, sweep); return })
	g.Go(func() (err error) { snap.containers, err = l.backend.Containers(gctx, ids...); return })
	g.Go(func() (err error) { snap.volumes, err = l.backend.Volumes(gctx, ids...); return })
	g.Go(func() (err error) { snap.jobs, err = l.backend.Jobs(gctx, ids...); return })
	return snap, g.Wait()
}

// rows returns the rows of ids, or the candidates. In a sweep it adds the workspaces in
// STANDBY, which ticks leave out although their volumes can disappear.
func (l *loop) rows(ctx context.Context, ids []workspace.ID, sweep bool) ([]workspace.Workspace, error) {
	if ids != nil {
		return l.store.Workspaces(ctx, ids)
	}
	rows, err := l.store.Candidates(ctx, 0, 1, false)
	if err != nil || !sweep {
		return rows, err
	}
	candidates := make(map[workspace.ID]struct{}, len(rows))
	for _, w := range rows {
		candidates[w.ID] = struct{}{}
	}
	var after workspace.ID
	for {
		page, err := l.store.SweepPage(ctx, 0, 1, after, sweepPage)
		if err != nil {
			return nil, err
		}
		for _, w := range page {
			if _, ok := candidates[w.ID]; !ok {
				rows = append(rows, w)
			}
			after = w.ID
		}
		if len(page) < sweepPage {
			return rows, nil
		}
	}
}

// sweepPage is how many rows a sweep reads at once.
const sweepPage = 1000
