// Package events carries changes of workspaces to browsers and other programs. In every process a [Hub] passes them to the event
// streams that are open there. In the leader a [Publisher] publishes them in Redis for external programs; none of our processes
// reads them there.
//
// Both receive the changes from their process's feed (package changes). An event is a hint that carries ids, never
// state (SPEC 1, contract 2). The same event may come twice. Whoever receives it reads the state from the database. The
// package owns the names and payloads of the Redis channels. The package must not wake the controller: the process's
// own listener does that.
package events

import (
	"maps"
	"slices"
	"sync"

	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Type says what happened.
type Type string

// The types. Only the hub sends Resync: events may have been lost, so a page must reread its list.
const (
	Updated Type = "updated"
	Deleted Type = "deleted"
	Resync  Type = "resync"
)

// Event is one hint to one user's streams.
type Event struct {
	// Type says what happened to the workspace, or Resync.
	Type Type `json:"type"`
	// ID is the workspace; empty for Resync.
	ID workspace.ID `json:"id"`
}

// Change is an event and the workspace that the event is about. All streams share that workspace. [Resync] and
// [Deleted] have no workspace.
type Change struct {
	Event
	// Revision is the change's revision. [Resync] has none.
	Revision int64
	*Row
}

// Row is a workspace that has changed. All its streams share one read of the row and one rendering of it. Its methods are safe
// for concurrent use.
type Row struct {
	id      workspace.ID
	reading *reading

	// The result of the reading.
	workspace workspace.Workspace
	found     bool

	mu   sync.Mutex
	made map[any]func() ([]byte, error)
}

// reading is a set of rows that the feed has passed on together, and that streams read together.
type reading struct {
	once sync.Once
	rows []*Row // nil once they were read
	err  error
}

// Workspace returns the workspace in a state that contains the change, and perhaps later ones; found is false if the
// workspace no longer exists. The first call for rows that changed together reads all of them with load; the other
// calls wait for it.
func (r *Row) Workspace(load func(ids []workspace.ID) ([]workspace.Workspace, error)) (
	w workspace.Workspace, found bool, err error,
) {
	r.reading.once.Do(func() {
		rows := make(map[workspace.ID]*Row, len(r.reading.rows))
		for _, row := range r.reading.rows {
			rows[row.id] = row
		}
		r.reading.rows = nil
		var present []workspace.Workspace
		present, r.reading.err = load(slices.Collect(maps.Keys(rows)))
		for _, w := range present {
			rows[w.ID].workspace, rows[w.ID].found = w, true
		}
	})
	return r.workspace, r.found, r.reading.err
}

// Once returns the result of the first call for the key.
func (r *Row) Once(key any, make func() ([]byte, error)) ([]byte, error) {
	r.mu.Lock()
	made, ok := r.made[key]
	if !ok {
		made = sync.OnceValues(make)
		r.made[key] = made
	}
	r.mu.Unlock()
	return made()
}

// of returns the event that tells a workspace's owner about a change. A deleted workspace stays deleted for its owner until the
// deletion is undone, regardless of other changes.
func of(r store.Route) Event {
	if r.Deleted {
		return Event{Type: Deleted, ID: r.ID}
	}
	return Event{Type: Updated, ID: r.ID}
}
