package reconcile

import (
	"context"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/reconcile/brake"
	"github.com/codehub/gateway/coordinator/workspace"
)

// saveTimeout bounds one statement of the loop, so that a locked row delays its own
// workspace and not all of them.
const saveTimeout = 3 * time.Second

// An error message keeps the last lines of the container's output: logTailLines, and
// what the backend returns within logTailTimeout.
const (
	logTailLines   = 20
	logTailTimeout = 3 * time.Second
)

// maxMessage bounds an error message, in bytes. It is stored in the row and shown to
// the owner.
const maxMessage = 8 << 10

// decide takes one workspace one step further: it plans, saves the decision, and
// queues the action.
func (l *loop) decide(ctx context.Context, w workspace.Workspace, snap snapshot, k *brake.Look) {
	id := w.ID
	if _, ok := l.busy[id]; ok {
		return // observed again when its actuator or probe has ended
	}
	// The last decision could not be saved. Wait for its retry, or a failing database
	// would be asked at every tick.
	if l.unsaved[id] > 0 && l.backingOff(w) {
		return
	}
	o := snap.of(id)
	l.addPull(w, &o)
	l.addProgress(w, &o)
	o.Witnessed = w.Operation != workspace.OpNone && l.begun[id].Equal(w.OpStartedAt)
	answer, asked := l.probed[id]
	if !l.addArchives(ctx, w, &o) {
		return
	}
	now := l.now()
	d := workspace.Reconcile(now, w, o, l.backingOff(w), l.policy())
	if d.AskStore {
		archive, upload := workspace.Needs(w, o)
		l.startProbe(ctx, question{row: w, archive: archive, upload: upload, bucket: true})
		return
	}
	again := l.brake.Suspected(id)
	if l.brake.Holds(now, k, brake.Loss{Row: w, Decision: d, Observation: o}) {
		if asked && again && !k.Full() {
			l.probed[id] = answer // the store's second answer, for the look that confirms the loss
		}
		return
	}
	l.apply(ctx, w, d, o)
}

// apply saves a decision and queues its action.
func (l *loop) apply(ctx context.Context, w workspace.Workspace, d workspace.Decision, o workspace.Observation) {
	backingOff := l.backingOff(w)
	if w.Operation != workspace.OpNone || d.Next.Operation != workspace.OpNone {
		l.activeUntil = l.now().Add(l.settings.Load().ActiveFor)
	}
	if d.Changed {
		// The container may be removed next; its last output explains the error.
		if d.Next.Phase == workspace.PhaseError && w.Phase != workspace.PhaseError && o.Container != nil {
			d.Next.ErrorMessage += l.logTail(ctx, w.ID)
		}
		if !l.save(ctx, w, d, backingOff) {
			return
		}
	} else {
		l.saved(w.ID) // there is nothing left to save
		l.putOff(d)
	}
	switch {
	case d.Action != workspace.ActNothing:
		l.enqueue(d)
	case d.Changed && !backingOff:
		l.queue.Add(w.ID) // the next step follows at once, not with the next tick
	}
}

// putOff schedules the next attempt that the decision asks for, and remembers who waits
// for an object store that is away.
func (l *loop) putOff(d workspace.Decision) {
	if d.Retry > 0 {
		l.retryIn(d.Next, jitter(d.Retry))
	}
	if n := d.Next; n.Waiting != nil && n.Waiting.Reason == workspace.WaitStoreAway {
		l.starved[n.ID] = struct{}{}
	} else {
		delete(l.starved, n.ID)
	}
}

// save writes a decision and schedules the retry that follows from it. It reports
// whether the row is now next.
func (l *loop) save(ctx context.Context, prev workspace.Workspace, d workspace.Decision, backingOff bool) bool {
	next := d.Next
	bounded, cancel := context.WithTimeout(ctx, saveTimeout)
	defer cancel()
	next.ErrorMessage = storable(next.ErrorMessage)
	if next.Waiting != nil {
		waiting := *next.Waiting
		waiting.Message = storable(waiting.Message)
		next.Waiting = &waiting
	}
	ok, err := l.store.Save(bounded, l.term.Fence, prev, next)
	if err != nil {
		if ctx.Err() == nil {
			l.saving.Failed(err, zap.String("workspace", string(next.ID)))
		}
		l.unsaved[next.ID]++
		l.retryIn(prev, backoff(l.unsaved[next.ID]))
		return false
	}
	l.saved(next.ID)
	if !ok {
		return false // the row changed in between; the next observation decides anew
	}
	switch {
	case next.ErrorCount > prev.ErrorCount:
		l.retryIn(next, backoff(next.ErrorCount))
	case next.ErrorCount == 0 && !backingOff:
		delete(l.retries, next.ID)
	}
	switch workspace.OpNone {
	case next.Operation:
		delete(l.begun, next.ID)
	case prev.Operation:
		l.begun[next.ID] = next.OpStartedAt
	}
	l.putOff(d)
	l.logDecision(prev, next)
	return true
}

// saved records that the workspace has no unsaved decision.
func (l *loop) saved(id workspace.ID) {
	if delete(l.unsaved, id); len(l.unsaved) == 0 {
		l.saving.Recovered()
	}
}

// storable converts any text to one that PostgreSQL accepts: valid UTF-8 without NUL. A
// container may print anything, and a message that cannot be saved would block its
// workspace forever. Of a text that is too long it keeps the end, which usually states
// the cause.
func storable(text string) string {
	if len(text) > maxMessage {
		text = "… " + text[len(text)-maxMessage:]
	}
	return strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", ""), "\uFFFD")
}

// logDecision logs one line for a failure, a wait, a new operation, or a new phase.
func (l *loop) logDecision(prev, next workspace.Workspace) {
	fields := []zap.Field{zap.String("workspace", string(next.ID)), zap.String("phase", string(next.Phase)),
		zap.String("operation", string(next.Operation)), zap.String("desired_state", string(next.DesiredState))}
	switch {
	case next.ErrorCount > prev.ErrorCount:
		l.log.Warn("workspace operation failed", append(fields, zap.String("error_reason", string(next.ErrorReason)),
			zap.String("error", next.ErrorMessage), zap.Int("error_count", next.ErrorCount))...)
	case next.Waiting != nil && (prev.Waiting == nil || prev.Waiting.Reason != next.Waiting.Reason):
		l.log.Info("workspace waits", append(fields, zap.String("reason", next.Waiting.Reason), zap.String("message", next.Waiting.Message))...)
	case next.Operation != prev.Operation && next.Operation != workspace.OpNone:
		l.log.Info("workspace operation started", fields...)
	case next.Phase != prev.Phase || next.Operation != prev.Operation:
		l.log.Info("workspace changed", append(fields, zap.String("previous_phase", string(prev.Phase)))...)
	}
}

// logTail returns the end of the container's output, for the error message. Without an
// answer in time it returns "": the failure is recorded without it.
func (l *loop) logTail(ctx context.Context, id workspace.ID) string {
	ctx, cancel := context.WithTimeout(ctx, logTailTimeout)
	defer cancel()
	text, err := l.backend.Logs(ctx, id, logTailLines)
	if err != nil || text == "" {
		return ""
	}
	return "\n" + text
}
