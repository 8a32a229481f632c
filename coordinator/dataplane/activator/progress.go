package activator

import (
	"context"
	"time"

	"github.com/codehub/gateway/coordinator/dataplane/route"
	"github.com/codehub/gateway/coordinator/workspace"
)

// WakeProgress is the progress of a wake-up so far, for the wake page.
type WakeProgress struct {
	// Began is when the wake-up started. The workspace was then in the phase From, and During was the operation in progress.
	Began  time.Time
	From   workspace.Phase
	During workspace.Operation
	// StepBegan is when the current phase and operation began, as observed by the wake-up.
	StepBegan time.Time
	// Room is the name of another workspace of the user that must stop first because of a limit. It is empty if there
	// is none.
	Room string

	phase     workspace.Phase // since StepBegan, with operation
	operation workspace.Operation
	stages    stages
}

// start records the state in which the wake-up begins.
func (p *WakeProgress) start(st *route.State, now time.Time) {
	r := &st.Route
	*p = WakeProgress{
		Began: now, From: r.Phase, During: r.Operation, StepBegan: now, phase: r.Phase, operation: r.Operation,
		stages: stages{now: stageOf(st), since: now},
	}
}

// Progress returns the wake-up's progress.
func (w *WakeUp) Progress() WakeProgress {
	w.activator.mu.Lock()
	defer w.activator.mu.Unlock()
	return w.progress
}

// follow records that the workspace is now in the state st.
func (w *WakeUp) follow(st *route.State) {
	w.activator.mu.Lock()
	defer w.activator.mu.Unlock()
	p, r := &w.progress, &st.Route
	p.stages.enter(stageOf(st), time.Now())
	if p.phase != r.Phase || p.operation != r.Operation {
		p.phase, p.operation, p.StepBegan = r.Phase, r.Operation, time.Now()
	}
}

// awaitRoom looks for another workspace of the owner that counts against a limit and is being put to sleep. It waits
// until that workspace changes, for at most checkAgain. It reports false if there is no such workspace: if the limit
// then refuses the next attempt, too, that is final. It finds the workspace in the database, so any process may wait,
// and not only the one that was asked to make room.
func (w *WakeUp) awaitRoom(st *route.State) bool {
	ctx, cancel := context.WithTimeout(w.activator.ctx, attemptTimeout)
	defer cancel()
	running, err := w.activator.service.Running(ctx, st.Route.OwnerID)
	if err != nil {
		return false // the limit is certain, and is the answer
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

// setRoom records which workspace must stop first.
func (w *WakeUp) setRoom(name string) {
	w.activator.mu.Lock()
	defer w.activator.mu.Unlock()
	w.progress.Room = name
}
