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

// of returns the event that tells a workspace's owner about a change. A workspace that
// is deleted stays deleted for its owner, whatever else changes, until the deletion is
// undone.
func of(r store.Route) Event {
	if r.Deleted {
		return Event{Type: Deleted, ID: r.ID}
	}
	return Event{Type: Updated, ID: r.ID}
}
