package activator

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/dataplane/route"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/guard"
	"github.com/codehub/gateway/coordinator/logkey"
	"github.com/codehub/gateway/coordinator/metrics"
	"github.com/codehub/gateway/coordinator/tracing"
	"github.com/codehub/gateway/coordinator/workspace"
)

// The pace of a wake-up.
const (
	// checkAgain is the time after which the wake-up looks again, and sets the desired state again if necessary, while
	// the state is refused or has no visible effect. A notification may have been lost.
	checkAgain = time.Second
	// The pause after a failed attempt: the first and the longest.
	retryMin = 250 * time.Millisecond
	retryMax = 5 * time.Second
	// attemptTimeout bounds one attempt.
	attemptTimeout = 10 * time.Second
	// refusalKept is how long further requests get the same refusal without another attempt.
	refusalKept = time.Second
	// The pause between two probes: the first and the longest.
	probeMin = 25 * time.Millisecond
	probeMax = 250 * time.Millisecond
)

// WakeUp is the wake-up of one workspace. It ends when the workspace is ready, has failed or is gone. It also ends when
// the service layer refuses, or when a user has requested another state since the last request to wake the workspace.
// Lastly, it ends when the timeouts of all requests that started, joined or extended it have passed.
type WakeUp struct {
	activator *Activator
	id        workspace.ID
	entry     *route.Entry
	ctx       context.Context // the activator's, with the request that began the wake-up
	span      trace.Span
	by        metrics.Client // began the wake-up
	done      chan struct{}

	// Guarded by activator.mu. The wake-up ends at until, and may set the desired state before wakeUntil.
	until, wakeUntil time.Time
	actor            *audit.Actor // the first caller of Wake; nil while all requests only joined
	asked            time.Time    // the last call of Wake, by the activator's clock
	refused          *service.LimitError
	overtaken        bool
	progress         WakeProgress
}

// Done is closed when the wake-up has ended.
func (w *WakeUp) Done() <-chan struct{} { return w.done }

// Refusal returns the limit that forbids waking the workspace, or nil. It is known once the wake-up has ended.
func (w *WakeUp) Refusal() *service.LimitError {
	w.activator.mu.Lock()
	defer w.activator.mu.Unlock()
	return w.refused
}

// Overtaken reports whether the wake-up has ended because a user requested to put the workspace to sleep or to archive
// it, after the last request to wake it. It is known once the wake-up has ended.
func (w *WakeUp) Overtaken() bool {
	w.activator.mu.Lock()
	defer w.activator.mu.Unlock()
	return w.overtaken
}

// guarded calls run. If run panics, the wake-up has failed, and the next request begins a new one.
func (w *WakeUp) guarded() {
	if err := guard.Call(guard.Workspace, func() error { w.run(); return nil }); err != nil {
		w.activator.log.Error("waking a workspace panicked", zap.String(logkey.Workspace, string(w.id)), zap.Error(err),
			guard.Stack(err))
		select {
		case <-w.done:
		default:
			w.end(nil, metrics.WakeFailed)
		}
	}
}

// run sets the desired state until the change is granted, then waits for the application's first answer.
func (w *WakeUp) run() {
	pause := newBackoff(retryMin, retryMax, 2)
	settled := false // at the last attempt, no other workspace of the owner was being put to sleep
	for !w.expired() {
		st := w.entry.State()
		w.follow(st)
		switch {
		case st.Ready():
			w.end(nil, metrics.WakeReady)
			return
		case st.Failed():
			w.end(nil, metrics.WakeFailed)
			return
		case !st.Exists():
			w.end(nil, metrics.WakeGivenUp)
			return
		case st.Route.Desired == workspace.DesiredRunning && !st.Dozes():
			if st.Running() {
				w.awaitAnswer(st)
			} else {
				w.wait(st, checkAgain)
			}
			continue
		case !w.mayWake():
			w.end(nil, metrics.WakeGivenUp)
			return
		}
		asked, err := w.setDesired(st)
		var limit *service.LimitError
		switch {
		case errors.As(err, &limit):
			// The other workspace may have stopped just after the attempt, so one more attempt decides.
			room := w.awaitRoom(st)
			if !room && settled {
				w.end(limit, metrics.WakeRefused)
				return
			}
			settled = !room
		case errors.Is(err, service.ErrOvertaken):
			if w.giveWay(asked) {
				return
			}
		// The change was granted, or will be possible after a change that the row will show. The row is read now, in
		// case the notification about it is lost.
		case err == nil || errors.Is(err, service.ErrOperationInProgress) || errors.Is(err, service.ErrNotFound):
			w.activator.failures.Recovered()
			pause.Reset()
			w.activator.routes.Refresh(w.id)
			w.wait(st, checkAgain)
		default:
			w.activator.failures.Report(w.activator.ctx, err, zap.String(logkey.Workspace, string(w.id)))
			w.wait(st, pause.NextBackOff())
		}
	}
}

// newBackoff returns exponential pauses with the library's jitter of ±50 %.
func newBackoff(first, longest time.Duration, factor float64) *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval, b.Multiplier = first, longest, factor
	return b
}

// setDesired makes one attempt to set the desired state, in the owner's name, because only the owner's requests start a
// wake-up and the owner's limits apply. It returns the time at which the state was requested.
func (w *WakeUp) setDesired(st *route.State) (asked time.Time, err error) {
	ctx, cancel := context.WithTimeout(w.ctx, attemptTimeout)
	defer cancel()
	w.activator.mu.Lock()
	if w.actor != nil {
		ctx = audit.With(ctx, *w.actor)
	}
	asked = w.asked
	w.activator.mu.Unlock()
	actor := service.Actor{UserID: st.Route.OwnerID, Through: audit.Gateway, Input: w.by == metrics.Navigation, Asked: w.activator.now().Sub(asked)}
	return asked, w.activator.service.SetDesired(ctx, actor, w.id, workspace.DesiredRunning)
}

// giveWay ends the wake-up because another state was requested after asked. It reports false if the workspace was requested
// again since then.
func (w *WakeUp) giveWay(asked time.Time) bool {
	w.activator.mu.Lock()
	defer w.activator.mu.Unlock()
	if w.asked.After(asked) {
		return false
	}
	w.overtaken = true
	w.endLocked(nil, metrics.WakeGivenUp)
	return true
}

// wait waits until st is outdated, but for at most d, and not longer than until the wake-up's time is up. It reports
// whether st may still be the newest state.
func (w *WakeUp) wait(st *route.State, d time.Duration) bool {
	w.activator.mu.Lock()
	d = min(d, time.Until(w.until))
	w.activator.mu.Unlock()
	timer := time.NewTimer(max(d, 0))
	defer timer.Stop()
	select {
	case <-st.Changed():
		return false
	case <-w.activator.ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// awaitAnswer probes the application until it gives a good answer, the state changes, or the wake-up's time is up.
func (w *WakeUp) awaitAnswer(st *route.State) {
	ctx, span := w.activator.tracer.Start(w.ctx, tracing.Answer)
	defer span.End()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w.activator.wg.Go(func() {
		select {
		case <-st.Changed():
			cancel()
		case <-ctx.Done():
		}
	})
	for pause := newBackoff(probeMin, probeMax, 1.5); ; {
		if w.activator.probe(ctx, st.Route.Endpoint, st.Route.BasePath) {
			w.entry.SetAnswered(st, true)
			return
		}
		if !w.wait(st, pause.NextBackOff()) || w.late() {
			return
		}
	}
}

// late reports whether the wake-up's time is up, without ending it.
func (w *WakeUp) late() bool {
	w.activator.mu.Lock()
	defer w.activator.mu.Unlock()
	return !time.Now().Before(w.until)
}

// mayWake reports whether a request that may wake the workspace is still waiting. Requests that only joined do not count.
func (w *WakeUp) mayWake() bool {
	w.activator.mu.Lock()
	defer w.activator.mu.Unlock()
	return time.Now().Before(w.wakeUntil)
}

// expired ends the wake-up if its time is up or the activator stops.
func (w *WakeUp) expired() bool {
	w.activator.mu.Lock()
	defer w.activator.mu.Unlock()
	if w.activator.ctx.Err() == nil && time.Now().Before(w.until) {
		return false
	}
	how := metrics.WakeGivenUp
	if w.activator.ctx.Err() != nil {
		how = metrics.WakeStopped
	}
	w.endLocked(nil, how)
	return true
}

// end ends the wake-up; refused is the limit that forbids it, or nil.
func (w *WakeUp) end(refused *service.LimitError, how metrics.WakeEnd) {
	w.activator.mu.Lock()
	defer w.activator.mu.Unlock()
	w.endLocked(refused, how)
}

// endLocked is end for a caller that holds activator.mu, so that no request can join an ended wake-up. A refused
// wake-up is kept for a moment, so that further requests get its refusal without another attempt.
func (w *WakeUp) endLocked(refused *service.LimitError, how metrics.WakeEnd) {
	a := w.activator
	w.refused = refused
	st, took := w.entry.State(), time.Since(w.progress.Began)
	fields := append(tracing.Fields(w.ctx), zap.String(logkey.Workspace, string(w.id)), zap.Duration(logkey.Duration, took))
	if st.Ready() {
		a.log.Info("workspace woken: it answers", fields...)
	} else {
		a.log.Debug("wake-up ended without an answer", fields...)
	}
	w.span.SetAttributes(attribute.Bool(logkey.Ready, st.Ready()))
	w.span.End()
	a.Metrics.Ended(w.progress.ended(w.by, how, time.Now()))
	w.entry.Unpin()
	close(w.done)
	if refused == nil {
		delete(a.wakeUps, w.id)
		return
	}
	time.AfterFunc(refusalKept, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.wakeUps[w.id] == w {
			delete(a.wakeUps, w.id)
		}
	})
}
