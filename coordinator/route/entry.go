package route

import (
	"sync"
	"sync/atomic"

	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
)

// State is what is known of one workspace at one moment. It never changes: a
// newer one takes its place, and Changed tells.
type State struct {
	// Route is the workspace's row, as far as routing needs it.
	Route store.Route
	// Answered says that the application behind Route.Endpoint has given a good HTTP
	// answer since the workspace became RUNNING (DESIGN 7).
	Answered bool
	// Gone says that the workspace is no longer in the table. It is the last state
	// of an entry.
	Gone bool

	changed chan struct{}
}

// Changed is closed when a newer state has taken this one's place.
func (s *State) Changed() <-chan struct{} { return s.changed }

// Running reports whether requests have somewhere to go.
func (s *State) Running() bool {
	return s.Route.Phase == workspace.PhaseRunning && s.Route.Endpoint != ""
}

// Ready reports whether requests can be passed on at once.
func (s *State) Ready() bool { return s.Answered && s.Running() }

// Failed reports whether the workspace is in ERROR until an administrator recovers
// it. One whose error was reset is on its way up.
func (s *State) Failed() bool {
	return s.Route.Phase == workspace.PhaseError && s.Route.ErrorReason != ""
}

// Exists reports whether there is a workspace, as far as its owner is concerned:
// a deleted one is none, even while its remains are being removed.
func (s *State) Exists() bool {
	return !s.Gone && !s.Route.Deleted &&
		s.Route.Phase != workspace.PhaseDeleting && s.Route.Phase != workspace.PhaseDeleted
}

// Entry is one workspace's place in the table. It stays the same for as long as
// the workspace is in the table.
type Entry struct {
	state atomic.Pointer[State]
	mu    sync.Mutex // serialises replacing the state
}

func newEntry(r store.Route) *Entry {
	e := new(Entry)
	e.state.Store(&State{Route: r, changed: make(chan struct{})})
	return e
}

// State returns the newest state. It is never nil.
func (e *Entry) State() *State { return e.state.Load() }

// SetAnswered notes that the application has answered, or that it does no longer,
// as was seen while the entry was in the state seen. It does nothing when the
// workspace has moved on since: a late answer of an earlier container says
// nothing about the present one.
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

// update puts the row r in place, unless nothing about it is new.
func (e *Entry) update(r store.Route) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.state.Load()
	if same(now.Route, r) {
		return
	}
	e.replace(now, &State{Route: r, Answered: now.Answered && sameRun(now, r)})
}

// end makes the entry's last state.
func (e *Entry) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.state.Load()
	next := *now
	next.Gone, next.Answered = true, false
	e.replace(now, &next)
}

// replace is called with mu held.
func (e *Entry) replace(now, next *State) {
	next.changed = make(chan struct{})
	e.state.Store(next)
	close(now.changed)
}

// sameRun reports whether r is about the container that s is about. Addresses are
// used again by the next container, so the time of the phase is part of it.
func sameRun(s *State, r store.Route) bool {
	return s.Running() && r.Phase == workspace.PhaseRunning &&
		s.Route.Endpoint == r.Endpoint && s.Route.PhaseChangedAt.Equal(r.PhaseChangedAt)
}

// same compares two rows. Times are compared as instants: the same one, read
// twice, may differ in its location. The time of the last access is left out:
// nobody waits for it, and it changes every minute.
func same(a, b store.Route) bool {
	if !a.PhaseChangedAt.Equal(b.PhaseChangedAt) {
		return false
	}
	a.PhaseChangedAt, a.LastAccessAt = b.PhaseChangedAt, b.LastAccessAt
	return a == b
}
