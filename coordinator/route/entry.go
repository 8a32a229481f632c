package route

import (
	"sync"
	"sync/atomic"

	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
)

// State is what is known about one workspace at one moment. It is immutable: a newer
// state replaces it, which closes the channel that Changed returns.
type State struct {
	// Route is the workspace's row, as far as routing needs it.
	Route store.Route
	// Answered says that the application behind Route.Endpoint has given a good HTTP
	// answer since the workspace became RUNNING (DESIGN 7).
	Answered bool
	// Gone says that the workspace is no longer in the table. This is an entry's last
	// state.
	Gone bool

	changed chan struct{}
}

// Changed is closed when a newer state has replaced this one.
func (s *State) Changed() <-chan struct{} { return s.changed }

// Running reports whether the workspace runs at a known address.
func (s *State) Running() bool {
	return s.Route.Phase == workspace.PhaseRunning && s.Route.Endpoint != ""
}

// Ready reports whether requests can be proxied at once: the workspace runs, and its
// application has answered.
func (s *State) Ready() bool { return s.Answered && s.Running() }

// Failed reports whether the workspace stays in ERROR until an administrator recovers
// it. Without an error reason it has been recovered and is about to start.
func (s *State) Failed() bool {
	return s.Route.Phase == workspace.PhaseError && s.Route.ErrorReason != ""
}

// Exists reports whether the workspace exists for its owner: a deleted one does
// not, even while its container and volume are still being removed.
func (s *State) Exists() bool {
	return !s.Gone && !s.Route.Deleted &&
		s.Route.Phase != workspace.PhaseDeleting && s.Route.Phase != workspace.PhaseDeleted
}

// Entry holds the newest state of one workspace. A workspace has the same entry for
// as long as it is in the table.
type Entry struct {
	state atomic.Pointer[State]
	mu    sync.Mutex // serialises replacing the state
}

// newEntry returns an entry whose application has not answered yet.
func newEntry(r store.Route) *Entry {
	e := new(Entry)
	e.state.Store(&State{Route: r, changed: make(chan struct{})})
	return e
}

// State returns the newest state. It is never nil.
func (e *Entry) State() *State { return e.state.Load() }

// SetAnswered records whether the application answers, as observed while the entry
// was in the state seen. It does nothing when another container has taken over
// since: a late answer of an earlier one says nothing about the present one.
func (e *Entry) SetAnswered(seen *State, answered bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.state.Load()
	if !sameRun(now, seen.Route) || now.Answered == answered {
		return
	}
	next := *now
	next.Answered = answered
	e.replace(now, &next)
}

// update replaces the state by one with the row r, unless r brings nothing new.
func (e *Entry) update(r store.Route) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.state.Load()
	if same(now.Route, r) {
		return
	}
	e.replace(now, &State{Route: r, Answered: now.Answered && sameRun(now, r)})
}

// end puts the entry into its last state.
func (e *Entry) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.state.Load()
	next := *now
	next.Gone, next.Answered = true, false
	e.replace(now, &next)
}

// replace swaps the state and wakes those who wait for a change; mu must be held.
func (e *Entry) replace(now, next *State) {
	next.changed = make(chan struct{})
	e.state.Store(next)
	close(now.changed)
}

// sameRun reports whether r is about the same container as s. The next container
// may get the same address, so the time of the phase change is compared as well.
func sameRun(s *State, r store.Route) bool {
	return s.Running() && r.Phase == workspace.PhaseRunning &&
		s.Route.Endpoint == r.Endpoint && s.Route.PhaseChangedAt.Equal(r.PhaseChangedAt)
}

// same compares two rows. Times are compared as instants, because the same time read
// twice may differ in its location. The time of the last access is left out: nothing
// here depends on it, and it changes every minute.
func same(a, b store.Route) bool {
	if !a.PhaseChangedAt.Equal(b.PhaseChangedAt) {
		return false
	}
	if (a.Waiting == nil) != (b.Waiting == nil) || a.Waiting != nil && (a.Waiting.Reason != b.Waiting.Reason || a.Waiting.Message != b.Waiting.Message) {
		return false
	}
	a.PhaseChangedAt, a.LastAccessAt, a.Waiting = b.PhaseChangedAt, b.LastAccessAt, b.Waiting
	return a == b
}
