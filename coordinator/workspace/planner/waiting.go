package planner

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
)

// waitForStore maps each state in which the object store cannot be used to the reason of the wait for it.
var waitForStore = map[workspace.StoreState]string{
	workspace.StoreAway: workspace.WaitStoreAway, workspace.StoreRefuses: workspace.WaitStoreRefuses,
	workspace.StoreMismatch: workspace.WaitBucketMismatch,
}

// resume restarts the limits of the operation when a wait that does not count against them has ended. It does so even
// if a wait that counts follows, such as one for a cluster that does not answer.
func (p *planner) resume() {
	if p.was.Waiting.Unlimited() && !p.waiting.Unlimited() && p.next.Operation != workspace.OpNone &&
		p.next.Operation == p.was.Operation {
		p.next.HomeCtx.ResumedAt = p.now
	}
}

// The bounds of the pause before the next attempt. Asking an unavailable store costs only one small request, and
// checking for room on the disk costs nothing. So both are done more often.
const (
	retryMin     = time.Second
	retryMax     = 10 * time.Minute
	retryMaxAway = 30 * time.Second
	// retryMaxPull is longer: a registry counts the attempts.
	retryMaxPull = 5 * time.Minute
)

// wait records the workspace's wait. A wait for the same reason keeps the time at which it began.
func (p *planner) wait(reason, message string) {
	p.waiting = &workspace.Waiting{Reason: reason, Message: message, Since: p.now}
	if w := p.waited(); w != nil && w.Reason == reason {
		p.waiting.Since = w.Since
	}
}

// waited returns the workspace's previous wait. The count of attempts to pull an image starts over for another image,
// and when another attempt was requested.
func (p *planner) waited() *workspace.Waiting {
	w := p.was.Waiting
	switch {
	case w == nil || w.Image != "" && p.o.Image != "" && w.Image != p.o.Image:
		return nil
	case p.asked && w.Tries > 0:
		again := *w
		again.Tries = 0
		return &again
	}
	return w
}

// keepWaiting leaves the reason of the wait as it is: nothing new is known.
func (p *planner) keepWaiting() { p.waiting = p.waited() }

// retryLater requests another attempt after a pause, which grows with the length of the wait and the number of
// attempts.
func (p *planner) retryLater() {
	n := &p.next
	d := retryMin << min(n.HomeCtx.Deferred, 10)
	limit := retryMax
	if p.waiting.FailedPull() {
		p.retry = min(retryMin<<min(n.HomeCtx.Deferred+p.waiting.Tries-1, 10), retryMaxPull)
		return
	}
	if p.waiting != nil {
		d = max(d, p.now.Sub(p.waiting.Since)/2)
		switch p.waiting.Reason {
		case workspace.WaitStoreAway, workspace.WaitBackendAway, workspace.WaitDiskPressure:
			limit = retryMaxAway
		}
		if pendingReasons[p.waiting.Reason] &&
			(n.Operation != workspace.OpNone || n.Wanted() != workspace.DesiredArchived) {
			// This does not apply to a postponed workspace that is only being put away, because each attempt begins an
			// upload.
			limit = retryMaxAway
		}
	}
	p.retry = min(d, limit)
}

// giveWay postpones the operation without an error: it is tried again later, and until then the desired state
// may change (SPEC 3).
func (p *planner) giveWay(reason, message string) Action {
	n := &p.next
	n.Operation, n.OpStartedAt = workspace.OpNone, time.Time{}
	n.HomeCtx.Deferred++
	p.endRevert(message)
	p.clearError()
	n.Phase = p.judgedPhase()
	if n.Deleted() {
		message += p.keptUntil()
	}
	p.wait(reason, message)
	p.retryLater()
	return ActDeleteJobs
}

// resultLost repeats a storage job whose result was lost. That is no failure of the workspace, because the work may be
// done. However, if MaxRetry results in a row are lost, the cause does not pass by itself: the attempts end as after a
// failure.
func (p *planner) resultLost(message string) Action {
	n := &p.next
	if n.HomeCtx.Unread++; n.HomeCtx.Unread < p.policy.MaxRetry {
		return p.giveWay(workspace.WaitEvicted, message)
	}
	n.ErrorCount = n.HomeCtx.Unread - 1 // fail adds the last one
	return p.fail(workspace.ReasonActionFailed, message)
}

// keptUntil describes how long the files of a deleted workspace stay.
func (p *planner) keptUntil() string {
	if p.kept() == workspace.WaitKeptUntilGivenUp {
		return "; they stay until the deletion is undone or an administrator gives it up"
	}
	return fmt.Sprintf("; until %s the deletion can be undone",
		p.next.DeletedAt.Add(p.policy.KeepDeleted).UTC().Format(time.RFC3339))
}

// storeDown reports whether the object store was asked and cannot be used.
func (p *planner) storeDown() bool { return p.o.Store.State > workspace.StoreAnswers }

// waitStore waits until the object store can be used. A refusal does not pass by itself: a workspace without an
// intact volume ends in ERROR after the limit.
func (p *planner) waitStore() Action {
	n := &p.next
	message := p.o.Store.Message
	if n.Deleted() {
		message += p.keptUntil()
	}
	p.wait(waitForStore[p.o.Store.State], message)
	p.retryLater()
	if n.Operation == workspace.OpNone {
		p.endRevert(message)
	}
	waited := p.now.Sub(p.waiting.Since)
	if p.o.Store.State != workspace.StoreRefuses || n.Deleted() || n.Conditions.True(workspace.VolumeReady) ||
		p.policy.WaitLimit <= 0 || waited <= p.policy.WaitLimit {
		return ActNothing
	}
	reason := workspace.ReasonTimeout
	if n.Operation == workspace.OpArchiving {
		reason = workspace.ReasonDataLost // the volume is gone, and its archive may be incomplete
	}
	p.waiting = nil
	return p.fail(reason, fmt.Sprintf("the object store has refused for %s: %s; check the settings of the object "+
		"store, then recover the workspace",
		waited.Round(time.Second), p.o.Store.Message))
}

// givesWay reports whether a failure of the present operation is not an error of the workspace, because its volume is
// intact or it is being deleted.
func (p *planner) givesWay(reason workspace.ErrorReason) bool {
	n := &p.next
	return n.Deleted() ||
		n.Operation == workspace.OpArchiving && n.Conditions.True(workspace.VolumeReady) &&
			reason != workspace.ReasonConflict && reason != workspace.ReasonDataLost
}

// failed decides after an actuator's error.
func (p *planner) failed(err error) Action {
	var store *workspace.StoreError
	if errors.As(err, &store) && operations[p.next.Operation].usesStore {
		return p.giveWay(waitForStore[store.State], store.Error())
	}
	var pending *workspace.PendingError
	if errors.As(err, &pending) && (pending.Pending.Reason == workspace.WaitJobImage ||
		pending.Pending.Reason == workspace.WaitEgressRules) {
		return p.waitFor(pending.Pending.Reason, pending.Pending.Message)
	}
	if errors.As(err, &pending) && pending.Pending.Failure == "" && p.next.Operation != workspace.OpNone {
		p.wait(pending.Pending.Reason, pending.Pending.Message)
		p.retryLater()
		return ActNothing
	}
	if errors.As(err, &pending) {
		return p.fail(cmp.Or(pending.Pending.Failure, workspace.ReasonActionFailed), pending.Pending.Message)
	}
	if workspace.ReasonOf(err) == workspace.ReasonUnreachable && p.next.Operation != workspace.OpNone &&
		!operations[p.next.Operation].usesStore {
		// This is like a sensor that does not answer: no failure of the workspace.
		p.wait(workspace.WaitBackendAway, err.Error())
		p.retryLater()
		return ActNothing
	}
	return p.fail(workspace.ReasonOf(err), err.Error())
}
