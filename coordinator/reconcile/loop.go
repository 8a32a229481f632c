package reconcile

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
)

// sensorTimeout bounds one bulk listing, so that a runtime that hangs is one
// that does not answer.
const sensorTimeout = 20 * time.Second

// saveTimeout bounds one statement of the loop, so that a row that somebody else
// has locked holds up its own workspace and not all of them.
const saveTimeout = 3 * time.Second

// logLines is how much of a container's last output an ERROR keeps.
const logLines = 20

// loop is the state of one leadership. Only the goroutine in run touches it.
type loop struct {
	*Controller
	fence store.Fence
	wg    sync.WaitGroup

	busy    map[workspace.ID]struct{}  // an actuator or a probe runs for it
	retryAt map[workspace.ID]time.Time // a failed attempt's next time
	probes  map[workspace.ID]probe     // answers of the object store, used once
	asking  chan struct{}              // a place for each question to the object store
	results chan result

	unsaved map[workspace.ID]int // saves that failed in a row
	running int                  // actuators at work
	queue   []act                // actuators waiting for their turn

	tickedAt    time.Time
	activeUntil time.Time
	sweepAt     time.Time
	blind       bool // the last look failed, and that was logged
	unasked     bool // the same of the last question to the object store
}

// snapshot is what the sensors said at one time.
type snapshot struct {
	rows       []workspace.Workspace
	containers map[workspace.ID]workspace.Container
	volumes    map[workspace.ID]struct{}
	jobs       map[workspace.ID][]workspace.Job
}

func (l *loop) run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
		case <-l.signal:
		case r := <-l.results:
			l.finished(ctx, r)
		}
		ids, hurry, all := l.take()
		now := l.now()
		if hurry {
			l.activeUntil = now.Add(l.settings.Load().ActiveFor)
		}
		ids = append(ids, l.due(now)...)
		if all || now.Sub(l.tickedAt) >= l.interval(now) {
			l.tickedAt = now
			l.look(ctx, nil)
		}
		if len(ids) > 0 {
			l.look(ctx, ids)
		}
		l.start(ctx)
		timer.Reset(l.untilNext())
	}
}

// interval is the time between two looks at all candidates, as things are.
func (l *loop) interval(now time.Time) time.Duration {
	s := l.settings.Load()
	if now.Before(l.activeUntil) {
		return s.ActiveInterval
	}
	return s.IdleInterval
}

// due forgets and returns the workspaces whose retry has come.
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

// untilNext is the time to the next tick, or to a retry that is due before.
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

// look observes and decides: for everything that a tick must look at, or for the
// workspaces named. Nothing known means nothing changed: a sensor that does not
// answer freezes what it senses (SPEC 2).
func (l *loop) look(ctx context.Context, ids []workspace.ID) {
	sweep := ids == nil && !l.now().Before(l.sweepAt)
	snap, err := l.observe(ctx, ids, sweep)
	if err != nil {
		if ctx.Err() == nil && !l.blind {
			l.log.Error("cannot observe; workspaces stay as they are until it works again", zap.Error(err))
			l.blind = true
		}
		// What was asked for is looked at with the next tick or sweep, on new answers.
		clear(l.probes)
		return
	}
	if l.blind {
		l.log.Info("observing works again")
		l.blind = false
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

func (l *loop) observe(ctx context.Context, ids []workspace.ID, sweep bool) (snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, sensorTimeout)
	defer cancel()
	var snap snapshot
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) { snap.rows, err = l.rows(gctx, ids, sweep); return })
	g.Go(func() (err error) { snap.containers, err = l.backend.Containers(gctx, ids...); return })
	g.Go(func() (err error) { snap.volumes, err = l.backend.Volumes(gctx, ids...); return })
	g.Go(func() (err error) { snap.jobs, err = l.backend.Jobs(gctx, ids...); return })
	return snap, g.Wait()
}

// rows are the candidates, and now and then what sleeps as well: a volume that
// vanishes under a sleeping workspace is noticed in the sweep.
func (l *loop) rows(ctx context.Context, ids []workspace.ID, sweep bool) ([]workspace.Workspace, error) {
	if ids != nil {
		return l.store.Workspaces(ctx, ids)
	}
	rows, err := l.store.Candidates(ctx)
	if err != nil || !sweep {
		return rows, err
	}
	asleep, err := l.store.StandbyIDs(ctx)
	if err != nil {
		return nil, err
	}
	seen := make(map[workspace.ID]struct{}, len(rows))
	for _, w := range rows {
		seen[w.ID] = struct{}{}
	}
	more := asleep[:0]
	for _, id := range asleep {
		if _, ok := seen[id]; !ok {
			more = append(more, id)
		}
	}
	if len(more) > 0 {
		sleeping, err := l.store.Workspaces(ctx, more)
		if err != nil {
			return nil, err
		}
		rows = append(rows, sleeping...)
	}
	return rows, nil
}

// decide takes one workspace one step further: judge and plan, save, act.
func (l *loop) decide(ctx context.Context, w workspace.Workspace, snap snapshot, asked bool) {
	id := w.ID
	if _, ok := l.busy[id]; ok {
		return // its end brings the next look
	}
	if l.unsaved[id] > 0 && l.now().Before(l.retryAt[id]) {
		return
	}
	o := workspace.Observation{Jobs: snap.jobs[id]}
	if k, ok := snap.containers[id]; ok {
		o.Container = &k
	}
	_, o.Volume = snap.volumes[id]
	if awaitsGC(w, o) && !asked {
		return
	}
	if !l.complete(ctx, w, &o) {
		return
	}
	now := l.now()
	waiting := now.Before(l.retryAt[id])
	d := workspace.Reconcile(now, w, o, waiting, l.policy())
	if w.Operation != workspace.OpNone || d.Next.Operation != workspace.OpNone {
		l.activeUntil = now.Add(l.settings.Load().ActiveFor)
	}
	if !d.Changed {
		delete(l.unsaved, id) // what could not be saved is no longer so
	}
	if d.Changed {
		if d.Next.Phase == workspace.PhaseError && w.Phase != workspace.PhaseError && o.Container != nil {
			d.Next.ErrorMessage += l.lastWords(ctx, id)
		}
		if !l.save(ctx, w, d.Next) {
			return
		}
	}
	switch {
	case d.Action != workspace.ActNothing:
		l.busy[id] = struct{}{}
		l.queue = append(l.queue, act{action: d.Action, row: d.Next})
	case d.Changed && !waiting:
		// One step follows another without waiting for a tick.
		l.Hint(id)
	}
}

// awaitsGC reports whether only the archive of a deleted workspace is left. That
// is the GC's to remove, hours later: no tick asks the object store about it. The
// GC says when it has, and should that be lost, the sweep finds out.
func awaitsGC(w workspace.Workspace, o workspace.Observation) bool {
	return w.Deleted() && w.Phase == workspace.PhaseDeleting && w.Operation == workspace.OpNone &&
		o.Container == nil && !o.Volume && len(o.Jobs) == 0 && w.Conditions.True(workspace.ArchiveReady)
}

// save writes a decision and remembers what follows from it for the pace of
// retries. It reports whether the row is now next.
func (l *loop) save(ctx context.Context, prev, next workspace.Workspace) bool {
	bounded, cancel := context.WithTimeout(ctx, saveTimeout)
	defer cancel()
	next.ErrorMessage = storable(next.ErrorMessage)
	saved, err := l.store.Save(bounded, l.fence, prev, next)
	if err != nil {
		if ctx.Err() == nil && len(l.unsaved) == 0 {
			l.log.Error("cannot save decisions; they are made again until it works",
				zap.String("workspace", string(next.ID)), zap.Error(err))
		}
		l.unsaved[next.ID]++
		l.retryAt[next.ID] = l.now().Add(backoff(l.unsaved[next.ID]))
		return false
	}
	if l.unsaved[next.ID] > 0 {
		if delete(l.unsaved, next.ID); len(l.unsaved) == 0 {
			l.log.Info("saving decisions works again")
		}
	}
	if !saved {
		return false // somebody wished something in between: the next look decides anew
	}
	switch {
	case next.ErrorCount > prev.ErrorCount:
		l.retryAt[next.ID] = l.now().Add(backoff(next.ErrorCount))
	case next.ErrorCount == 0:
		delete(l.retryAt, next.ID)
	}
	l.report(prev, next)
	return true
}

// maxMessage bounds an error message, in bytes.
const maxMessage = 8 << 10

// storable makes a text that came from elsewhere one that the database takes: a
// container may print anything, and what cannot be saved would hold its workspace
// up for ever. Of a text that is too long its end is kept, where the cause stands.
func storable(text string) string {
	if len(text) > maxMessage {
		text = "… " + text[len(text)-maxMessage:]
	}
	return strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", ""), "\uFFFD")
}

// report logs one line for each thing that happened.
func (l *loop) report(prev, next workspace.Workspace) {
	fields := []zap.Field{zap.String("workspace", string(next.ID)), zap.String("phase", string(next.Phase)),
		zap.String("operation", string(next.Operation)), zap.String("desired_state", string(next.DesiredState))}
	switch {
	case next.ErrorCount > prev.ErrorCount:
		l.log.Warn("workspace operation failed", append(fields, zap.String("error_reason", string(next.ErrorReason)),
			zap.String("error", next.ErrorMessage), zap.Int("error_count", next.ErrorCount))...)
	case next.Operation != prev.Operation && next.Operation != workspace.OpNone:
		l.log.Info("workspace operation begins", fields...)
	case next.Phase != prev.Phase || next.Operation != prev.Operation:
		l.log.Info("workspace changed", append(fields, zap.String("was", string(prev.Phase)))...)
	}
}

// backoff is 1 s, 2 s, 4 s … 30 s, ±50 % (SPEC 1, contract 10).
func backoff(failures int) time.Duration {
	d := 30 * time.Second
	if failures >= 1 && failures <= 5 {
		d = time.Second << (failures - 1)
	}
	return d/2 + rand.N(d)
}

// lastWords is what the container printed last, for the error message.
func (l *loop) lastWords(ctx context.Context, id workspace.ID) string {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	text, err := l.backend.Logs(ctx, id, logLines)
	if err != nil || text == "" {
		return ""
	}
	return "\n" + text
}

// notExist reports whether the object store says that there is no such archive.
func notExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }
