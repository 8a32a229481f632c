package reconcile

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/guard"
	"github.com/codehub/gateway/coordinator/logkey"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/coordinator/workspace/planner"
)

// fault is the reason why a workspace is set aside: its row cannot be read, or a step of the program panicked while it
// handled the workspace. That affects this workspace only (SPEC 5, Failures). The program handles the workspace again
// after a pause, which grows with each fault, or immediately when its row changes.
type fault struct {
	err error
	// unreadable means that the row could not be read. It may become readable without a new revision.
	unreadable bool
	inRow      int       // consecutive faults
	revision   int64     // of the row at the time
	until      time.Time // the end of the pause
}

// isolate runs a step for the workspace w, unless it is still in the pause after a fault. After a panic it adds
// the plan that records it.
func (l *loop) isolate(w workspace.Workspace, plans *[]plan, step func()) {
	f := l.of(w.ID).fault
	if f == nil || f.revision != w.Revision || f.unreadable != (w.Unreadable != nil) || !time.Now().Before(f.until) {
		err := w.Unreadable
		if err == nil {
			err = guard.Call(guard.Workspace, func() error { step(); return nil })
		}
		if err == nil {
			return
		}
		f = l.setAside(w, err)
	}
	if p, ok := l.tell(w, f.err); ok {
		*plans = append(*plans, p)
	}
}

// safely runs a step for the workspace w after a decision.
func (l *loop) safely(w workspace.Workspace, step func()) {
	if err := guard.Call(guard.Workspace, func() error { step(); return nil }); err != nil {
		l.setAside(w, err)
	}
}

// setAside records a fault, and logs it once.
func (l *loop) setAside(w workspace.Workspace, err error) *fault {
	s := l.of(w.ID)
	level := zap.DebugLevel
	if s.fault == nil || s.fault.err.Error() != err.Error() {
		level = zap.ErrorLevel
	}
	if s.fault == nil {
		s.fault = new(fault)
	}
	f := s.fault
	f.err, f.revision, f.unreadable = err, w.Revision, w.Unreadable != nil
	f.inRow++
	pause := backoff(f.inRow)
	f.until = time.Now().Add(pause)
	s.retryIn(w, pause)
	l.jobs.Leave(w.ID)
	l.faults.add(w.ID, err.Error())
	l.log.Log(level, "the program fails with a workspace and leaves it as it is; it is tried again",
		zap.String(logkey.Workspace, string(w.ID)), zap.Duration(logkey.Interval, pause), zap.Error(err), guard.Stack(err))
	return f
}

// works forgets the fault of a workspace whose step succeeded.
func (l *loop) works(id workspace.ID) {
	if s := l.states[id]; s != nil && s.fault != nil {
		s.fault = nil
		l.faults.remove(id)
		l.log.Info("the program gets on with a workspace again", zap.String(logkey.Workspace, string(id)))
	}
}

// tell returns the plan that records in the row of w why nothing happens. It returns none in three cases: an unreadable
// row must not be written, a row may record the reason already, and a sleeping workspace may not be observed again for
// a long time, so the reason would stay in its row.
func (l *loop) tell(w workspace.Workspace, err error) (plan, bool) {
	asleep := w.Operation == workspace.OpNone && !w.Deleted() && string(w.Phase) == string(w.DesiredState) &&
		w.Phase != workspace.PhaseRunning
	next := w
	next.Waiting = workspace.InternalError(err, l.clock.Now())
	if was := w.Waiting; was != nil && was.Reason == next.Waiting.Reason {
		next.Waiting.Since = was.Since
		if was.Message == storable(next.Waiting.Message) {
			return plan{}, false
		}
	}
	if w.Unreadable != nil || asleep || w.Phase == workspace.PhaseDeleted {
		return plan{}, false
	}
	return plan{row: w, decision: planner.Decision{Next: next, Changed: true}, fault: true}, true
}

// faults are the faults of all loops, for administrators.
type faults struct {
	mu  sync.Mutex
	all map[workspace.ID]string
}

func (f *faults) add(id workspace.ID, text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.all == nil {
		f.all = make(map[workspace.ID]string)
	}
	f.all[id] = text
}

func (f *faults) remove(id workspace.ID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.all, id)
}

// Fault is a workspace that was set aside, and why.
type Fault struct {
	ID    workspace.ID
	Cause string
}

// Faults returns the workspaces that are set aside because of a fault, in the shards of this process and in the order
// of their ids.
func (c *Controller) Faults() []Fault {
	c.faults.mu.Lock()
	defer c.faults.mu.Unlock()
	out := make([]Fault, 0, len(c.faults.all))
	for _, id := range slices.SortedFunc(maps.Keys(c.faults.all), func(a, b workspace.ID) int {
		return strings.Compare(string(a), string(b))
	}) {
		out = append(out, Fault{id, c.faults.all[id]})
	}
	return out
}
