package workspace

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

// Waiting is why a workspace does not get on, for programs and people.
type Waiting struct {
	// Reason is a CamelCase word, Message a sentence that says for what and what to do.
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Since is when the wait for this reason began.
	Since time.Time `json:"since"`
}

// The reasons for waiting.
const (
	WaitStoreAway       = "StoreAway"
	WaitStoreRefuses    = "StoreRefuses"
	WaitBucketMismatch  = "BucketMismatch"
	WaitBackendAway     = "BackendAway"
	WaitBackendMismatch = "BackendMismatch"
	// WaitArchiveFailed and WaitDeletionFailed: the last attempt failed, the next one
	// follows.
	WaitArchiveFailed  = "ArchiveFailed"
	WaitDeletionFailed = "DeletionFailed"
	// WaitKeptUntilDeleted: the volume of a deleted workspace is the only copy of its
	// files and stays for the delay.
	WaitKeptUntilDeleted = "KeptUntilDeleted"
	WaitPullingImage     = "PullingImage"
	WaitUnhealthy        = "Unhealthy"
	// WaitUnschedulable: the cluster has no node for it. WaitVolume: its volume is not bound or
	// attached. WaitQuota: a quota of the namespace is used up. WaitNodeLost: its node does not
	// report. WaitTerminating: it was told to end and does not.
	WaitUnschedulable = "Unschedulable"
	WaitVolume        = "WaitingForVolume"
	WaitQuota         = "QuotaExceeded"
	WaitNodeLost      = "NodeLost"
	WaitTerminating   = "Terminating"
	// WaitContainer: the node cannot make the container yet.
	WaitContainer = "ContainerNotCreated"
	WaitPaused    = "Paused"
	// WaitDiskPressure: there is no room on the disk of the homes for another one.
	WaitDiskPressure = "DiskPressure"
	// WaitArchiveLocked: the archive is encrypted to keys that are not in the settings.
	WaitArchiveLocked = "ArchiveLocked"
	// WaitConflict: the container runs on a volume that the row does not know.
	WaitConflict = "Conflict"
)

// Unlimited reports whether an operation waits for this however long it takes: until a
// machine is back, or an administrator says that it is off. Nothing counts as a failure
// meanwhile.
func (w *Waiting) Unlimited() bool {
	return w != nil && (w.Reason == WaitNodeLost || w.Reason == WaitTerminating)
}

// resume lets the limits of the operation begin anew, if a wait that does not count against
// them has ended: also for one that counts, such as for a cluster that does not answer.
func (p *planner) resume() {
	if p.was.Waiting.Unlimited() && !p.waiting.Unlimited() && p.next.Operation != OpNone && p.next.Operation == p.was.Operation {
		p.next.HomeCtx.ResumedAt = p.now
	}
}

// LimitsBegin is when the limits of the operation in progress began to count: with the
// operation, or with the end of the last wait that has none. It is zero without an operation.
func (w *Workspace) LimitsBegin() time.Time {
	if w.OpStartedAt.IsZero() || w.HomeCtx.ResumedAt.Before(w.OpStartedAt) {
		return w.OpStartedAt
	}
	return w.HomeCtx.ResumedAt
}

// waitForStore maps the states of the object store that must pass first.
var waitForStore = map[StoreState]string{
	StoreAway: WaitStoreAway, StoreRefuses: WaitStoreRefuses, StoreMismatch: WaitBucketMismatch,
}

// StoreError is why an actuator was not called: the object store cannot be used. It
// ends the operation without counting as its failure.
type StoreError struct {
	State StoreState
	Err   error
}

// Error implements error.
func (e *StoreError) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error.
func (e *StoreError) Unwrap() error { return e.Err }

// The bounds of the pause before the next attempt. Asking a store that is away costs
// one small request, and asking for room on the disk nothing, so that is done more often.
const (
	retryMin     = time.Second
	retryMax     = 10 * time.Minute
	retryMaxAway = 30 * time.Second
)

// wait records what the workspace waits for. The time of a wait for the same reason
// goes on.
func (p *planner) wait(reason, message string) {
	p.waiting = &Waiting{Reason: reason, Message: message, Since: p.now}
	if w := p.was.Waiting; w != nil && w.Reason == reason {
		p.waiting.Since = w.Since
	}
}

// keepWaiting leaves the reason of the wait as it is: nothing new is known.
func (p *planner) keepWaiting() { p.waiting = p.was.Waiting }

// retryLater asks for another attempt after a pause, which grows with the length of
// the wait and the number of attempts.
func (p *planner) retryLater() {
	d := retryMin << min(p.next.HomeCtx.Deferred, 10)
	most := retryMax
	if p.waiting != nil {
		d = max(d, p.now.Sub(p.waiting.Since)/2)
		switch p.waiting.Reason {
		case WaitStoreAway, WaitBackendAway, WaitDiskPressure:
			most = retryMaxAway
		}
		if pendingReasons[p.waiting.Reason] {
			most = retryMaxAway
		}
	}
	p.retry = min(d, most)
}

// giveWay ends the operation without an error: it is tried again later, and until
// then the desired state may change (SPEC 3).
func (p *planner) giveWay(reason, message string) Action {
	n := &p.next
	n.Operation, n.OpStartedAt = OpNone, time.Time{}
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

// keptUntil says how long the files of a deleted workspace stay.
func (p *planner) keptUntil() string {
	if p.policy.KeepDeleted <= 0 {
		return ""
	}
	return fmt.Sprintf("; until %s the deletion can be undone",
		p.next.DeletedAt.Add(p.policy.KeepDeleted).UTC().Format(time.RFC3339))
}

// storeDown reports whether the object store was asked and cannot be used.
func (p *planner) storeDown() bool { return p.o.Store.State > StoreAnswers }

// waitStore waits until the object store can be used. A refusal does not pass by
// itself: a workspace without an intact volume ends in ERROR after the limit.
func (p *planner) waitStore() Action {
	n := &p.next
	message := p.o.Store.Message
	if n.Deleted() {
		message += p.keptUntil()
	}
	p.wait(waitForStore[p.o.Store.State], message)
	p.retryLater()
	if n.Operation == OpNone {
		p.endRevert(message)
	}
	waited := p.now.Sub(p.waiting.Since)
	if p.o.Store.State != StoreRefuses || n.Deleted() || n.Conditions.True(VolumeReady) ||
		p.policy.WaitLimit <= 0 || waited <= p.policy.WaitLimit {
		return ActNothing
	}
	reason := ReasonTimeout
	if n.Operation == OpArchiving {
		reason = ReasonDataLost // the volume is gone, and nobody knows whether its archive is complete
	}
	p.waiting = nil
	return p.fail(reason, fmt.Sprintf("the object store has refused for %s: %s; check the settings of the object store, then recover the workspace",
		waited.Round(time.Second), p.o.Store.Message))
}

// givesWay reports whether a failure of the present operation is no error of the
// workspace: its volume is intact, or it is being deleted.
func (p *planner) givesWay(reason ErrorReason) bool {
	n := &p.next
	return n.Deleted() ||
		n.Operation == OpArchiving && n.Conditions.True(VolumeReady) && reason != ReasonConflict && reason != ReasonDataLost
}

// usesStore are the operations that are not begun before the object store answers.
var usesStore = map[Operation]bool{OpArchiving: true, OpCreateEmptyArchive: true, OpRestoring: true}

// failed decides after an actuator's error.
func (p *planner) failed(err error) Action {
	var store *StoreError
	if errors.As(err, &store) && usesStore[p.next.Operation] {
		return p.giveWay(waitForStore[store.State], store.Error())
	}
	var pending *PendingError
	if errors.As(err, &pending) && pending.Pending.Failure == "" && p.next.Operation != OpNone {
		p.wait(pending.Pending.Reason, pending.Pending.Message)
		p.retryLater()
		return ActNothing
	}
	if errors.As(err, &pending) {
		return p.fail(cmp.Or(pending.Pending.Failure, ReasonActionFailed), pending.Pending.Message)
	}
	if ReasonOf(err) == ReasonUnreachable && p.next.Operation != OpNone && !usesStore[p.next.Operation] {
		// As when its sensors do not answer: that is no failure of the workspace's.
		p.wait(WaitBackendAway, err.Error())
		p.retryLater()
		return ActNothing
	}
	return p.fail(ReasonOf(err), err.Error())
}
