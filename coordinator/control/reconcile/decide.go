package reconcile

import (
	"context"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/control/reconcile/internal/observation"
	"github.com/codehub/gateway/coordinator/guard"
	"github.com/codehub/gateway/coordinator/logkey"
	"github.com/codehub/gateway/coordinator/tracing"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/coordinator/workspace/planner"
)

// saveTimeout bounds one statement of the loop, so that a locked row delays only its own workspace.
const saveTimeout = 3 * time.Second

// savesAtOnce bounds the concurrent statements of one loop.
const savesAtOnce = 4

// An error message contains the last logTailLines lines of the container's output, if the backend returns them within
// logTailTimeout.
const (
	logTailLines   = 20
	logTailTimeout = 3 * time.Second
)

// maxMessage bounds an error message, in bytes. It is stored in the row and shown to the owner.
const maxMessage = 8 << 10

// plan is a decision to save and carry out.
type plan struct {
	row      workspace.Workspace
	decision planner.Decision
	logs     bool // there is a container whose output may explain an error
	counts   bool // the decision only counts an actuator's error, and uses no observation
	fault    bool // the decision only records that a step for the workspace panicked
}

// candidate is a workspace together with everything on which its next step depends.
type candidate struct {
	at          time.Time // by the database's clock
	row         workspace.Workspace
	observation workspace.Observation
	policy      planner.Policy
	backingOff  bool
	decision    planner.Decision
	answer      *observation.Answer // of the object store; nil if it was not asked
}

// reconcile makes the decision.
func (c *candidate) reconcile() {
	c.decision = planner.Reconcile(c.at, c.row, c.observation, c.backingOff, c.policy)
}

// prepare makes a decision on one workspace, and reports whether there is one. There is none while an actuator or a
// probe of the workspace runs, or before the object store has answered. The decision is preliminary, because the
// workspace's storage job may not get a place: a place is requested before the decision becomes final.
func (l *loop) prepare(ctx context.Context, w workspace.Workspace, snap snapshot, policy planner.Policy) (
	candidate, bool) {
	s := l.of(w.ID)
	if s.busy {
		return candidate{}, false // observed again when its actuator or probe has ended
	}
	// The last decision could not be saved. Wait until it is time to retry, because otherwise every tick would query a
	// failing database.
	if s.unsaved > 0 && s.backingOff(w) {
		return candidate{}, false
	}
	if policy.FullDisk == nil && w.Waiting != nil && w.Waiting.Reason == workspace.WaitDiskPressure {
		s.retry = retry{} // there is room again
	}
	o := snap.Of(w.ID)
	l.addPull(w, s, &o)
	l.addOutdated(ctx, w, &o)
	l.addReadiness(ctx, w, s, &o)
	l.addProgress(w, s, &o)
	l.trailOf(w).Jobs(w, o.Jobs)
	o.Witnessed = w.Operation != workspace.OpNone && s.begun.Equal(w.OpStartedAt)
	o.ActionError = s.actionError(w)
	if w.Operation != workspace.OpRestoring {
		policy.ProgressEvery = max(policy.ProgressEvery, progressMin)
	}
	answer := s.answer
	if o.ActionError == nil { // the error is counted before the answer is used
		s.answer = nil
		addArchives(snap.began, w, answer, &o)
	}
	c := candidate{
		at: l.clock.Now(), row: w, observation: o, policy: policy, backingOff: s.backingOff(w), answer: answer,
	}
	c.reconcile()
	if d := c.decision; !d.Ask.None() && d.Job == "" {
		l.startProbe(ctx, w, d.Ask)
		return candidate{}, false
	}
	return c, true
}

// addProgress adds the progress of w's operation to the observation.
func (l *loop) addProgress(w workspace.Workspace, s *state, o *workspace.Observation) {
	if w.Operation == workspace.OpNone {
		s.progress = nil
		return
	}
	if s.progress == nil {
		s.progress = new(observation.Tracker)
	}
	s.progress.Add(w, o, l.clock.Now())
}

// The pace of saving progress: at most one save per progressMin for each workspace, and at most one per progressShare
// overall. Every save is a write, a notification and a read in each process. For a restore restoreMin counts, which is
// shorter: people watch a restore, so each look at it, once a second, may save its progress.
const (
	progressMin   = 3 * time.Second
	restoreMin    = 800 * time.Millisecond
	progressShare = 20 * time.Millisecond
)

// progressEvery returns the least time between two saves of one restore's progress. It is the longer the more
// operations there are.
func (l *loop) progressEvery() time.Duration {
	operations := 0
	for _, s := range l.states {
		if s.progress != nil {
			operations++
		}
	}
	return max(restoreMin, time.Duration(operations)*progressShare)
}

// decide makes the final decision. It reports whether there is a plan. There is none before the object store has
// answered, nor before a second look has confirmed a loss.
func (l *loop) decide(ctx context.Context, c candidate, k *observation.Look) (plan, bool) {
	id, d, o := c.row.ID, c.decision, c.observation
	if !d.Ask.None() {
		l.startProbe(ctx, c.row, d.Ask)
		return plan{}, false
	}
	if o.ActionError != nil { // no observation of a loss
		return plan{row: c.row, decision: d, counts: true}, true
	}
	again := l.breaker.Suspected(id)
	if l.breaker.Holds(time.Now(), k, observation.Loss{Row: c.row, Decision: d, Observation: o}) {
		if c.answer != nil && again && !k.Full() {
			l.of(id).answer = c.answer // the store's second answer, for the look that confirms the loss
		}
		return plan{}, false
	}
	return plan{row: c.row, decision: d, logs: o.Container != nil}, true
}

// apply saves the plans, a few at a time, and queues the action of each as soon as it is saved. Each row has a
// statement of its own, so a locked row delays only itself.
func (l *loop) apply(ctx context.Context, plans []plan) {
	type outcome struct {
		plan
		saved bool
		err   error
	}
	todo, done := make(chan plan, len(plans)), make(chan outcome, len(plans))
	for _, p := range plans {
		if p.decision.Changed {
			todo <- p
			continue
		}
		l.safely(p.row, func() {
			l.of(p.row.ID).unsaved = 0 // there is nothing left to save
			l.putOff(p.decision)
			l.follow(ctx, p)
		})
	}
	close(todo)
	n := len(todo)
	for range min(n, savesAtOnce) {
		l.wg.Go(func() {
			for p := range todo {
				o := outcome{plan: p}
				o.err = guard.Call(guard.Workspace, func() (err error) {
					o.decision.Next = l.storable(ctx, p)
					o.saved, err = l.write(ctx, p.row, o.decision)
					return err
				})
				done <- o
			}
		})
	}
	for range n {
		o := <-done
		if guard.Panicked(o.err) {
			l.setAside(o.row, o.err)
			continue
		}
		l.safely(o.row, func() {
			if l.wrote(ctx, o.row, o.decision, o.saved, o.err) {
				l.follow(ctx, o.plan)
			} else if o.counts && o.err == nil {
				l.queue.Add(o.row.ID) // the row changed in between: the error is counted against the new one
			}
		})
	}
	if !l.anyUnsaved() {
		l.saving.Recovered()
	}
}

// anyUnsaved reports whether a decision could not be saved yet.
func (l *loop) anyUnsaved() bool {
	for _, s := range l.states {
		if s.unsaved > 0 {
			return true
		}
	}
	return false
}

// follow continues a plan whose row is saved: it queues the plan's action or, if there is none, the next look at the
// workspace.
func (l *loop) follow(ctx context.Context, p plan) {
	d := p.decision
	if p.counts {
		l.of(p.row.ID).failed = nil
		l.queue.Add(p.row.ID) // the decision used no observation
	}
	busy := d.Next.Operation != workspace.OpNone
	if busy || p.row.Operation != workspace.OpNone || queued(d.Next) {
		l.activeUntil = time.Now().Add(activeFor)
	}
	switch {
	case d.Action != planner.ActNothing:
		l.enqueue(ctx, d)
		return // the outcome of the action is not known yet
	case d.Next.Phase == workspace.PhaseDeleted:
		l.works(d.Next.ID)
		l.of(d.Next.ID).endWatch()
		delete(l.states, d.Next.ID) // it is never observed again
	case d.Changed && !d.OnlyProgress && !l.of(d.Next.ID).backingOff(d.Next) &&
		(busy || string(d.Next.Phase) != string(d.Next.Wanted())):
		l.queue.Add(p.row.ID) // the next step follows immediately, not with the next tick
	}
	if !p.fault && !l.of(p.row.ID).backingOff(d.Next) {
		l.works(p.row.ID)
	}
}

// storable returns the row of a plan in a form that the database accepts. It adds the container's output to the
// error, because the container may be removed next.
func (l *loop) storable(ctx context.Context, p plan) workspace.Workspace {
	next := p.decision.Next
	if p.logs && next.Phase == workspace.PhaseError && p.row.Phase != workspace.PhaseError {
		next.ErrorMessage += l.logTail(ctx, next.ID)
	}
	next.ErrorMessage = storable(next.ErrorMessage)
	next.HomeCtx.RevertProblem = storable(next.HomeCtx.RevertProblem)
	if next.Waiting != nil {
		waiting := *next.Waiting
		waiting.Message, waiting.Subject = storable(waiting.Message), storable(waiting.Subject)
		next.Waiting = &waiting
	}
	return next
}

// write saves a row. It does not access the loop's state.
func (l *loop) write(ctx context.Context, prev workspace.Workspace, d planner.Decision) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, saveTimeout)
	defer cancel()
	return l.store.Save(ctx, l.term.Fence, prev, d.Next, d.Archived)
}

// wrote records the outcome of a write, and schedules a retry if one is necessary. It reports whether the row is now as
// the decision wants it.
func (l *loop) wrote(ctx context.Context, prev workspace.Workspace, d planner.Decision, saved bool, err error) bool {
	next, s := d.Next, l.of(d.Next.ID)
	if err != nil {
		if ctx.Err() == nil {
			l.saving.Failed(err, zap.String(logkey.Workspace, string(next.ID)))
		}
		s.unsaved++
		l.jobs.Leave(next.ID)
		s.retryIn(prev, backoff(s.unsaved))
		return false
	}
	s.unsaved = 0
	if !saved || next.Operation == workspace.OpNone && prev.Operation != workspace.OpNone {
		l.jobs.Leave(next.ID)
	}
	if !saved {
		return false // the row changed in between; the next observation decides anew
	}
	switch {
	case next.ErrorCount > prev.ErrorCount:
		s.retryIn(next, backoff(next.ErrorCount))
	case next.ErrorCount == 0 && !s.backingOff(prev):
		s.retry = retry{}
	}
	operation := l.trailOf(prev)
	switch workspace.OpNone {
	case next.Operation:
		s.endOperation(next)
	case prev.Operation:
		s.begun, operation = next.OpStartedAt, l.trailOf(next)
	}
	l.putOff(d)
	l.logDecision(operation.Context(tracing.From(ctx, next.Origin)), prev, next)
	l.metrics.Saved(&prev, &next, d.Archived, l.clock.Now())
	l.sweeper.WarnOfSize(next.ID, prev.Home, next.Home)
	return true
}

// putOff schedules the next attempt that the decision requests. It also remembers whether the workspace waits for an
// unreachable object store.
func (l *loop) putOff(d planner.Decision) {
	n, s := d.Next, l.of(d.Next.ID)
	if d.Retry > 0 {
		s.retryIn(n, jitter(d.Retry))
	}
	s.storeAway = n.Waiting != nil && n.Waiting.Reason == workspace.WaitStoreAway
}

// storable converts any text to one that PostgreSQL accepts: valid UTF-8 without NUL. A container may print
// anything, and a message that cannot be saved would block its workspace permanently. Of a text that is too long it
// keeps the end, which usually states the cause.
func storable(text string) string {
	if len(text) > maxMessage {
		text = "… " + text[len(text)-maxMessage:]
	}
	return strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", ""), "\uFFFD")
}

// logDecision logs one line for a failure, a wait, a new operation, or a new phase.
func (l *loop) logDecision(ctx context.Context, prev, next workspace.Workspace) {
	fields := append(tracing.Fields(ctx), zap.String(logkey.Workspace, string(next.ID)), zap.String(logkey.Phase, string(next.Phase)),
		zap.String(logkey.Operation, string(next.Operation)), zap.String(logkey.DesiredState, string(next.DesiredState)))
	if id := next.JobOpID(); id != "" {
		fields = append(fields, zap.String(logkey.OpID, id))
	}
	switch {
	case next.ErrorCount > prev.ErrorCount:
		fields = append(fields, zap.String(logkey.ErrorReason, string(next.ErrorReason)),
			zap.String(logkey.Error, next.ErrorMessage), zap.Int(logkey.ErrorCount, next.ErrorCount))
		switch {
		case next.ErrorReason == workspace.ReasonImagePullFailed:
			l.log.Error("workspace operation failed; its owner can start it again, or choose another image", fields...)
		case next.Phase == workspace.PhaseError:
			l.log.Error("workspace operation failed; an administrator must recover the workspace", fields...)
		default:
			l.log.Warn("workspace operation failed; it is retried", fields...)
		}
	case next.Waiting != nil && (prev.Waiting == nil || prev.Waiting.Reason != next.Waiting.Reason):
		tracing.Waits(ctx, next.Waiting.Reason)
		l.log.Info("workspace waits", append(fields, zap.String(logkey.Reason, next.Waiting.Reason),
			zap.String(logkey.Message, next.Waiting.Message))...)
	case next.Operation != prev.Operation && next.Operation != workspace.OpNone:
		l.log.Info("workspace operation started", fields...)
	case next.Phase != prev.Phase || next.Operation != prev.Operation:
		l.log.Info("workspace changed", append(fields, zap.String(logkey.PreviousPhase, string(prev.Phase)))...)
	}
}

// logTail returns the end of the container's output, for the error message. Without an answer in time it
// returns "", and the failure is recorded without the output.
func (l *loop) logTail(ctx context.Context, id workspace.ID) string {
	ctx, cancel := context.WithTimeout(ctx, logTailTimeout)
	defer cancel()
	text, err := l.backend.Logs(ctx, id, logTailLines)
	if err != nil || text == "" {
		return ""
	}
	return "\n" + text
}
