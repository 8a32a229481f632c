package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/control/reconcile/internal/actuator"
	"github.com/codehub/gateway/coordinator/control/reconcile/internal/observation"
	"github.com/codehub/gateway/coordinator/guard"
	"github.com/codehub/gateway/coordinator/logkey"
	"github.com/codehub/gateway/coordinator/metrics"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/coordinator/workspace/planner"
)

// cleanupFailures is the number of failures from which the pause after a failed clean-up or probe is computed. Failures
// of clean-ups and probes are not counted in the row.
const cleanupFailures = 3

// task is one call of an actuator.
type task struct {
	actuator.Call
	waited time.Duration // for its turn
}

// result is the outcome of a task, or of a probe if answer is set.
type result struct {
	task   task
	answer *observation.Answer
	err    error
}

// enqueue queues the action of a saved decision.
func (l *loop) enqueue(ctx context.Context, d planner.Decision) {
	s := l.of(d.Next.ID)
	s.busy = true
	ctx = s.trail.Context(ctx)
	t, queued := task{Call: actuator.Call{Action: d.Action, Row: d.Next, VolumeOpID: d.VolumeOpID}}, time.Now()
	executor, request := l.executor(d.Action, d.Next, queued)
	executor.Submit(&l.wg, request, func() {
		began := time.Now()
		t.waited = began.Sub(queued)
		var err error
		defer func() { l.wg.Go(func() { l.send(ctx, result{task: t, err: err}) }) }() // the turn is over
		err = guard.Call(guard.Workspace, func() error { return l.actuator.Execute(ctx, t.Call) })
		l.metrics.Acted(string(t.Action), t.waited, time.Since(began), err)
	})
}

// send passes a result to the loop. At the end of the term it drops the result, because the next leader observes the
// effect.
func (l *loop) send(ctx context.Context, r result) {
	select {
	case l.results <- r:
	case <-ctx.Done():
	}
}

// handle records the outcome of a task or a probe and requests the next observation of its workspace.
func (l *loop) handle(ctx context.Context, r result) {
	l.of(r.task.Row.ID).busy = false
	l.safely(r.task.Row, func() { l.took(ctx, r) })
	l.ended = append(l.ended, r.task.Row.ID)
}

// took is the part of handle that depends on the result.
func (l *loop) took(ctx context.Context, r result) {
	id := r.task.Row.ID
	s := l.of(id)
	if s.progress != nil {
		s.progress.Waited(r.task.waited)
	}
	switch {
	case ctx.Err() != nil:
	case guard.Panicked(r.err):
		l.setAside(r.task.Row, r.err)
	case r.answer != nil:
		l.metrics.Sensed(ctx, metrics.ObjectStore, r.err)
		l.probeDone(r.answer, r.err)
	case r.err != nil:
		l.taskFailed(r.task, r.err)
	default:
		l.works(id)
	}
}

// handleMore handles the results that are already waiting, so that one observation serves them all.
func (l *loop) handleMore(ctx context.Context) {
	for {
		select {
		case r := <-l.results:
			l.handle(ctx, r)
		default:
			return
		}
	}
}

// taskFailed records an actuator's error, so that the next observation counts it against the operation. A failed
// clean-up belongs to no operation, and is only retried later. If an image is missing, it is pulled first.
func (l *loop) taskFailed(t task, err error) {
	var missing *backend.MissingImageError
	id := t.Row.ID
	switch s := l.of(id); {
	case errors.As(err, &missing) && s.image == nil:
		joined := l.pulls.Join(missing.Image, func() { l.queue.Add(id) })
		s.image = &image{
			pull: joined, leave: func() { l.pulls.Leave(joined) }, jobs: missing.Jobs, of: l.imageOf(t.Row),
			began: time.Now(),
		}
	case t.Row.Operation == workspace.OpNone || errors.Is(err, actuator.ErrHeldBack) ||
		errors.Is(err, backend.ErrLeaseLapsed):
		l.log.Warn("workspace action failed; it is retried", zap.String(logkey.Workspace, string(id)),
			zap.String(logkey.Action, string(t.Action)), zap.Error(err))
		s.retryIn(t.Row, backoff(cleanupFailures))
	default:
		s.dropImage() // the image may have been removed again
		s.failed = &failure{fmt.Errorf("%s: %w", t.Action, err), t.Row.Operation, t.Row.OpStartedAt}
	}
}
