package reconcile

import (
	"time"

	"github.com/codehub/gateway/coordinator/control/reconcile/internal/observation"
	"github.com/codehub/gateway/coordinator/control/reconcile/internal/pull"
	"github.com/codehub/gateway/coordinator/control/reconcile/internal/readiness"
	"github.com/codehub/gateway/coordinator/control/reconcile/internal/trail"
	"github.com/codehub/gateway/coordinator/workspace"
)

// state is a loop's knowledge of one workspace besides its row. It is lost with the term. Only two things may depend on
// it: the pace, and whether the row is trusted.
type state struct {
	busy      bool                 // an actuator or a probe of it runs
	again     bool                 // it was requested meanwhile
	retry     retry                // when the next attempt is due; zero for no delay
	unsaved   int                  // consecutive saves that failed
	answer    *observation.Answer  // of the object store, used once
	begun     time.Time            // when this leader has begun the operation in progress
	progress  *observation.Tracker // of the operation in progress
	image     *image               // that it waits for
	storeAway bool                 // it waits for an object store that is away
	failed    *failure             // of an actuator, until it is counted
	trail     *trail.Operation     // the operation in progress
	fault     *fault               // a step for it panicked, or its row is unreadable
	watch     *readiness.Watch     // of its container, until that has answered
}

// failure is the error of an actuator's call for an operation.
type failure struct {
	err       error
	operation workspace.Operation
	began     time.Time
}

// retry is when the next attempt for a workspace is due. It applies only to the request that existed when the pause
// began: a different request does not wait.
type retry struct {
	at        time.Time
	desired   workspace.DesiredState
	deleteNow bool
	recovery  string
	revert    string
	image     string
	dozeAt    time.Time
}

// image is an image that a workspace waits for.
type image struct {
	pull  *pull.Pull
	leave func() // stops waiting for it
	jobs  bool   // it is that of storage jobs
	of    string // the image for the workspace's container, according to Launch
	began time.Time
	told  bool // the wait for the pull is recorded
}

// dropImage stops waiting for an image.
func (s *state) dropImage() {
	if s.image != nil {
		s.image.leave()
		s.image = nil
	}
}

// of returns the state of a workspace, creating it if necessary.
func (l *loop) of(id workspace.ID) *state {
	s := l.states[id]
	if s == nil {
		s = new(state)
		l.states[id] = s
	}
	return s
}

// tidy forgets the states that hold nothing.
func (l *loop) tidy(rows []workspace.Workspace) {
	for _, w := range rows {
		if s := l.states[w.ID]; s != nil && *s == (state{}) {
			delete(l.states, w.ID)
		}
	}
}

// actionError returns the error of an actuator that counts against the operation of w. It forgets an error of another
// operation.
func (s *state) actionError(w workspace.Workspace) error {
	if f := s.failed; f != nil && f.operation == w.Operation && f.began.Equal(w.OpStartedAt) {
		return f.err
	}
	s.failed = nil
	return nil
}

// endOperation forgets the operation, which ended with that row. It must be forgotten now, because a workspace without
// an operation may not be observed again for a long time.
func (s *state) endOperation(next workspace.Workspace) {
	s.trail.End(next)
	s.dropImage()
	s.begun, s.progress, s.trail = time.Time{}, nil, nil
}

// trailOf follows the operation of w in logs and traces; it returns nil if there is none.
func (l *loop) trailOf(w workspace.Workspace) *trail.Operation {
	if w.Operation == workspace.OpNone {
		return nil
	}
	s := l.of(w.ID)
	if !s.trail.Of(w) {
		s.trail.End(workspace.Workspace{})
		s.trail = trail.Begin(w, l.clock.Now().Sub(w.OpStartedAt), l.tracer, l.log)
	}
	return s.trail
}

// endTrails leaves the operations in progress to the next leader.
func (l *loop) endTrails() {
	for _, s := range l.states {
		s.trail.End(workspace.Workspace{})
	}
}

// retryIn delays the next attempt.
func (s *state) retryIn(w workspace.Workspace, d time.Duration) {
	s.retry = retry{at: time.Now().Add(d), desired: w.DesiredState, deleteNow: w.DeleteNow, recovery: recoveryID(w),
		revert: w.OpenRevert(), image: w.ImageRef, dozeAt: w.DozeAt}
}

// backingOff reports whether the next attempt for w is not due yet.
func (s *state) backingOff(w workspace.Workspace) bool {
	r := s.retry
	return time.Now().Before(r.at) &&
		r.desired == w.DesiredState && r.deleteNow == w.DeleteNow && r.recovery == recoveryID(w) &&
		r.revert == w.OpenRevert() && r.image == w.ImageRef && r.dozeAt.Equal(w.DozeAt)
}

func recoveryID(w workspace.Workspace) string {
	if w.Recovery == nil {
		return ""
	}
	return w.Recovery.ID
}

// due returns the workspaces whose next attempt is due, and forgets the times of these attempts.
func (l *loop) due(now time.Time) []workspace.ID {
	var ids []workspace.ID
	for id, s := range l.states {
		if !s.retry.at.IsZero() && !now.Before(s.retry.at) {
			s.retry = retry{}
			ids = append(ids, id)
		}
	}
	return ids
}
