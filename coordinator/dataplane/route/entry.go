package route

import (
	"sync"
	"sync/atomic"

	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
)

// State is what is known about one workspace at one moment. It is immutable: a newer state replaces it, which closes
// the channel that Changed returns.
type State struct {
	// Route is the part of the workspace's row that routing needs.
	Route store.Route
	// Answered says that the application at Route.Endpoint has given a good HTTP answer since the workspace became RUNNING
	// (DESIGN 7).
	Answered bool
	// Gone says that the workspace has left the table. This is an entry's last state.
	Gone bool

	run, key string // of the container while the workspace runs; see [runs]
	changed  chan struct{}
}

// Changed is closed when a newer state has replaced this one.
func (s *State) Changed() <-chan struct{} { return s.changed }

// Running reports whether the workspace runs at a known address.
func (s *State) Running() bool {
	return s.Route.Phase == workspace.PhaseRunning && s.Route.Endpoint != ""
}

// Dozes reports whether the workspace runs but is frozen, or about to be: anything sent to it waits until the workspace
// is requested again.
func (s *State) Dozes() bool { return s.Running() && !s.Route.DozeAt.IsZero() }

// Ready reports whether requests can be proxied immediately: the workspace runs, does not doze, and its application has answered.
// A dozing workspace that has just been requested may stay frozen for a moment; anything sent to it waits until it
// resumes.
func (s *State) Ready() bool { return s.Answered && s.Running() && !s.Dozes() }

// Failed reports whether the workspace stays in ERROR until an administrator recovers it. If it has no error reason, it was
// recovered and is about to start.
func (s *State) Failed() bool {
	return s.Route.Phase == workspace.PhaseError && s.Route.ErrorReason != ""
}

// Exists reports whether the workspace exists for its owner: a deleted one does not, even while its container and volume are
// still being removed.
func (s *State) Exists() bool {
	return !s.Gone && !s.Route.Deleted &&
		s.Route.Phase != workspace.PhaseDeleting && s.Route.Phase != workspace.PhaseDeleted
}

// Awake reports whether the table keeps the workspace even without requests for it: it runs, should run, or is
// about to change.
func (s *State) Awake() bool {
	return s.Exists() && (s.Route.InTransition || s.Route.Phase == workspace.PhaseRunning ||
		s.Route.Desired == workspace.DesiredRunning && s.Route.Phase != workspace.PhaseError)
}

// Entry holds the newest state of one workspace. A workspace keeps the same entry as long as it is in the table.
type Entry struct {
	state atomic.Pointer[State]
	mu    sync.Mutex // serialises replacing the state
	// generation is the generation of the database from which the state's row comes; see [Table.Reset].
	generation uint64

	table *Table
	used  atomic.Int64 // the clock when the entry was last requested, 0 for never
	pins  atomic.Int64
	// PageRequests counts the requests over HTTP/1.1 that the workspace's pages have in progress in this process. The gateway
	// maintains it.
	PageRequests atomic.Int64
}

// newEntry returns an entry whose application has not answered yet.
func newEntry(r store.Route, generation uint64, t *Table) *Entry {
	e := &Entry{generation: generation, table: t}
	first := &State{Route: r, changed: make(chan struct{})}
	e.begin(first)
	e.state.Store(first)
	return e
}

// begin begins a run if the workspace runs in the state s.
func (e *Entry) begin(s *State) {
	if s.Running() {
		s.run = e.table.runs.begin()
		s.key = keyOf(s.Route.Endpoint, s.run)
	}
}

// Pin keeps the entry in the table until [Entry.Unpin], so that changes reach the waiting callers. If the workspace
// ceases to exist, its entry leaves the table nevertheless; its last state then says that the workspace is gone.
func (e *Entry) Pin() { e.pins.Add(1) }

// Unpin ends an [Entry.Pin].
func (e *Entry) Unpin() {
	e.touch()
	e.pins.Add(-1)
}

// touch records that the entry was requested. It rarely writes, because all requests of a workspace share the variable.
func (e *Entry) touch() {
	if now := e.table.clock.Load(); e.used.Load() != now {
		e.used.Store(now)
	}
}

// State returns the newest state. It is never nil.
func (e *Entry) State() *State { return e.state.Load() }

// SetAnswered records whether the application answers. The caller observed this while the entry was in the state seen.
// If another container runs by now, SetAnswered does nothing: a late answer of an earlier container says nothing about
// the current one.
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

// update replaces the state with one for the row r if r is newer. A row is newer if it comes from a later generation of
// the database, or from the same generation and has a higher revision. It reports whether it did.
func (e *Entry) update(r store.Route, generation uint64) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.state.Load()
	if generation < e.generation || generation == e.generation && r.Revision <= now.Route.Revision {
		return false
	}
	e.generation = generation
	next := &State{Route: r}
	if sameRun(now, r) {
		next.Answered, next.run, next.key = now.Answered, now.run, now.key
	} else {
		e.table.runs.end(now.run)
		e.begin(next)
	}
	e.replace(now, next)
	return true
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

// replace swaps the state and wakes everything that waits for a change; mu must be held.
func (e *Entry) replace(now, next *State) {
	next.changed = make(chan struct{})
	e.state.Store(next)
	close(now.changed)
}

// sameRun reports whether r describes the same container as s. The next container may get the same address, so sameRun also
// compares the time of the phase change.
func sameRun(s *State, r store.Route) bool {
	return s.Running() && r.Phase == workspace.PhaseRunning &&
		s.Route.Endpoint == r.Endpoint && s.Route.PhaseChangedAt.Equal(r.PhaseChangedAt)
}
