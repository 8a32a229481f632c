package activator

import (
	"context"
	"time"

	"github.com/codehub/gateway/coordinator/dataplane/route"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Progress is how a wake-up has gone so far, for the wake page.
type Progress struct {
	// Began is when the wake-up started, in the phase From and while the operation During
	// was in progress.
	Began  time.Time
	From   workspace.Phase
	During workspace.Operation
	// StepBegan is when the present phase and operation began, as the wake-up has seen it.
	StepBegan time.Time
	// Room is the name of the user's workspace that has to stop first, because of a limit;
	// empty when nothing has to.
	Room string

	phase     workspace.Phase // since StepBegan, with operation
	operation workspace.Operation
	stages    stages
}

// start records where the wake-up begins.
func (p *Progress) start(st *route.State, now time.Time) {
	r := &st.Route
	*p = Progress{
		Began: now, From: r.Phase, During: r.Operation, StepBegan: now, phase: r.Phase, operation: r.Operation,
		stages: stages{now: stageOf(st), since: now},
	}
}

// Progress returns how the wake-up has gone so far.
func (w *WakeUp) Progress() Progress {
	w.activator.mu.Lock()
	defer w.activator.mu.Unlock()
	return w.progress
}

// follow records that the workspace is in the state st.
func (w *WakeUp) follow(st *route.State) {
	w.activator.mu.Lock()
	defer w.activator.mu.Unlock()
	p, r := &w.progress, &st.Route
	p.stages.enter(stageOf(st), time.Now())
	if p.phase != r.Phase || p.operation != r.Operation {
		p.phase, p.operation, p.StepBegan = r.Phase, r.Operation, time.Now()
	}
}

// awaitRoom waits until another workspace of the owner changes that a limit counts and that is
// being put to sleep, for at most checkAgain. It reports false when there is none: then a limit that
// refuses the next attempt stands. Which one it is comes from the database, so any process may wait, not only the one that
// was asked to make room.
func (w *WakeUp) awaitRoom(st *route.State) bool {
	ctx, cancel := context.WithTimeout(w.activator.ctx, attemptTimeout)
	defer cancel()
	running, err := w.activator.service.Running(ctx, st.Route.OwnerID)
	if err != nil {
		return false // the limit is known for certain, and is the answer
	}
	var room string
	changed := make(<-chan struct{})
	for i := range running {
		other := &running[i]
		if other.ID == w.id || other.DesiredState == workspace.DesiredRunning {
			continue
		}
		room = other.Name
		if e, known := w.activator.routes.Lookup(other.ID); known {
			changed = e.State().Changed()
		}
		break
	}
	w.setRoom(room)
	if room == "" {
		return false
	}
	timer := time.NewTimer(checkAgain)
	defer timer.Stop()
	select {
	case <-changed:
	case <-st.Changed():
	case <-timer.C:
	case <-w.activator.ctx.Done():
	}
	return true
}

// setRoom records which workspace has to stop first.
func (w *WakeUp) setRoom(name string) {
	w.activator.mu.Lock()
	defer w.activator.mu.Unlock()
	w.progress.Room = name
}
