// Package events carries changes of workspaces to browsers and to other programs. In
// every process a [Hub] passes them to the event streams that are open there. In the
// leading process a [Publisher] publishes them in Redis for programs outside; no
// process of ours reads them there.
//
// Both get the changes from their process's feed (package changes). An event is a hint that
// carries ids, never state (SPEC 1, contract 2). It may come twice, and what it is about is read
// from the database. The package owns the names and payloads of the Redis channels. It must not
// wake the controller: the process's own listener does.
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

// The types. Only the hub sends Resync: events may have been lost, so a page must read
// its list again.
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

// Change is an event, and the workspace that it is about, which the streams share. Of [Resync] and
// [Deleted] there is none.
type Change struct {
	Event
	// Revision is that of the change. Of [Resync] there is none.
	Revision int64
	*Row
}

// Row is a workspace that has changed. All streams that it concerns share what one of them reads and
// makes of it. Its methods are safe for concurrent use.
type Row struct {
	id      workspace.ID
	reading *reading

	// Of the reading.
	workspace workspace.Workspace
	found     bool

	mu   sync.Mutex
	made map[any]func() ([]byte, error)
}

// reading is what the feed has passed on together, and streams read together.
type reading struct {
	once sync.Once
	rows []*Row // nil once they were read
	err  error
}

// Workspace returns the workspace as it was some time after the change; found is false if there is none
// any more. The first call for what has changed at the same time reads all of that with load, the others
// wait for it.
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

// Once returns what the first call for the key has made.
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

// of returns the event that tells a workspace's owner about a change. A workspace that
// is deleted stays deleted for its owner, whatever else changes, until the deletion is
// undone.
func of(r store.Route) Event {
	if r.Deleted {
		return Event{Type: Deleted, ID: r.ID}
	}
	return Event{Type: Updated, ID: r.ID}
}
