package reconcile

import (
	"context"
	"math/rand/v2"
	"strings"
	"time"

	"go.uber.org/zap"

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
// queues the action. requested is false in a tick, which observes every candidate, and
// true for a workspace that was woken, hinted or swept.
func (l *loop) decide(ctx context.Context, w workspace.Workspace, snap snapshot, requested bool) {
	id := w.ID
	if _, ok := l.busy[id]; ok {
		return // observed again when its actuator or probe has ended
	}
	// The last decision could not be saved. Wait for its retry, or a failing database
	// would be asked at every tick.
	if l.unsaved[id] > 0 && l.now().Before(l.retryAt[id]) {
		return
	}
	o := workspace.Observation{Jobs: snap.jobs[id]}
	if k, ok := snap.containers[id]; ok {
		o.Container = &k
	}
	_, o.Volume = snap.volumes[id]
	if awaitsGC(w, o) && !requested {
		return
	}
	if !l.addArchives(ctx, w, &o) {
		return
	}
	now := l.now()
	backingOff := now.Before(l.retryAt[id])
	d := workspace.Reconcile(now, w, o, backingOff, l.policy())
	if w.Operation != workspace.OpNone || d.Next.Operation != workspace.OpNone {
		l.activeUntil = now.Add(l.settings.Load().ActiveFor)
	}
	if d.Changed {
		// The container may be removed next; its last output explains the error.
		if d.Next.Phase == workspace.PhaseError && w.Phase != workspace.PhaseError && o.Container != nil {
			d.Next.ErrorMessage += l.logTail(ctx, id)
		}
		if !l.save(ctx, w, d.Next) {
			return
		}
	} else {
		l.saved(id) // there is nothing left to save
	}
	switch {
	case d.Action != workspace.ActNothing:
		l.enqueue(d)
	case d.Changed && !backingOff:
		l.Hint(id) // the next step follows at once, not with the next tick
	}
}

// awaitsGC reports whether nothing but the archive of a deleted workspace is left.
// The GC removes it hours later; until then, ticks do not ask the object store about
// it. After the removal the GC wakes the controller; if that is lost, a sweep finds
// out.
func awaitsGC(w workspace.Workspace, o workspace.Observation) bool {
	return w.Deleted() && w.Phase == workspace.PhaseDeleting && w.Operation == workspace.OpNone &&
		o.Container == nil && !o.Volume && len(o.Jobs) == 0 && w.Conditions.True(workspace.ArchiveReady)
}

// save writes a decision and schedules the retry that follows from it. It reports
// whether the row is now next.
func (l *loop) save(ctx context.Context, prev, next workspace.Workspace) bool {
	bounded, cancel := context.WithTimeout(ctx, saveTimeout)
	defer cancel()
	next.ErrorMessage = storable(next.ErrorMessage)
	ok, err := l.store.Save(bounded, l.fence, prev, next)
	if err != nil {
		if ctx.Err() == nil {
			l.saving.Failed(err, zap.String("workspace", string(next.ID)))
		}
		l.unsaved[next.ID]++
		l.retryAt[next.ID] = l.now().Add(backoff(l.unsaved[next.ID]))
		return false
	}
	l.saved(next.ID)
	if !ok {
		return false // the row changed in between; the next observation decides anew
	}
	switch {
	case next.ErrorCount > prev.ErrorCount:
		l.retryAt[next.ID] = l.now().Add(backoff(next.ErrorCount))
	case next.ErrorCount == 0:
		delete(l.retryAt, next.ID)
	}
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

// logDecision logs one line for a failure, a new operation, or a new phase.
func (l *loop) logDecision(prev, next workspace.Workspace) {
	fields := []zap.Field{zap.String("workspace", string(next.ID)), zap.String("phase", string(next.Phase)),
		zap.String("operation", string(next.Operation)), zap.String("desired_state", string(next.DesiredState))}
	switch {
	case next.ErrorCount > prev.ErrorCount:
		l.log.Warn("workspace operation failed", append(fields, zap.String("error_reason", string(next.ErrorReason)),
			zap.String("error", next.ErrorMessage), zap.Int("error_count", next.ErrorCount))...)
	case next.Operation != prev.Operation && next.Operation != workspace.OpNone:
		l.log.Info("workspace operation started", fields...)
	case next.Phase != prev.Phase || next.Operation != prev.Operation:
		l.log.Info("workspace changed", append(fields, zap.String("previous_phase", string(prev.Phase)))...)
	}
}

// backoff is the pause after a number of failures in a row: 1 s, 2 s, 4 s … 30 s,
// ±50 % (SPEC 1, contract 10). It is a function of error_count, which is in the row,
// so a new leader continues where the former one was. A library's backoff keeps its
// own count in memory and could not.
func backoff(failures int) time.Duration {
	d := 30 * time.Second
	if failures >= 1 && failures <= 5 {
		d = time.Second << (failures - 1)
	}
	return d/2 + rand.N(d)
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
