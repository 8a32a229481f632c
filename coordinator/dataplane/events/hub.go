package events

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/codehub/gateway/coordinator/metrics"
	"github.com/codehub/gateway/coordinator/store"
)

// DefaultHeartbeat is how often an idle stream sends a heartbeat (SPEC 9).
const DefaultHeartbeat = 30 * time.Second

// subscriberBuffer is how many events a stream may lag behind before it is closed. The client then reconnects and gets what it
// missed, so nothing is lost.
const subscriberBuffer = 64

// Hub passes events to the streams of this process. It follows the process's feed. Its methods are safe for concurrent use, and
// only Run blocks.
type Hub struct {
	// Metrics counts streams that are too slow. It is nil, or set before the first stream.
	Metrics *metrics.Events

	mu    sync.Mutex
	users map[string]map[*subscriber]struct{}
	ended bool

	position atomic.Pointer[store.Position]
}

// subscriber is one stream. Its channel is closed when it is removed from the hub.
type subscriber struct {
	changes chan Change
	slow    func()
}

// NewHub returns a hub without streams.
func NewHub() *Hub { return &Hub{users: make(map[string]map[*subscriber]struct{})} }

// Run closes every stream when ctx ends, and returns nil.
func (h *Hub) Run(ctx context.Context) error {
	<-ctx.Done()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended = true
	for user, streams := range h.users {
		for s := range streams {
			h.remove(user, s)
		}
	}
	return nil
}

// Subscribe returns the user's changes from now on. The channel is closed when the hub ends, and when the subscriber is
// too slow. A subscriber that was too slow must then read what it missed. Before that, the hub calls slow, which must
// not block. The caller MUST call cancel, at least once.
func (h *Hub) Subscribe(userID string, slow func()) (changes <-chan Change, cancel func()) {
	s := &subscriber{changes: make(chan Change, subscriberBuffer), slow: slow}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		close(s.changes)
		return s.changes, func() {}
	}
	if h.users[userID] == nil {
		h.users[userID] = make(map[*subscriber]struct{})
	}
	h.users[userID][s] = struct{}{}
	return s.changes, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.remove(userID, s)
	}
}

// Streams returns how many streams are open.
func (h *Hub) Streams() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, streams := range h.users {
		n += len(streams)
	}
	return n
}

// Changed tells the owners' streams which of their workspaces have changed. The feed calls it.
func (h *Hub) Changed(rows []store.Route, _ int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	together := new(reading)
	for _, r := range rows {
		if len(h.users[r.OwnerID]) == 0 {
			continue
		}
		c := Change{Event: of(r), Revision: r.Revision}
		if c.Type == Updated {
			c.Row = &Row{id: r.ID, reading: together, made: make(map[any]func() ([]byte, error))}
			together.rows = append(together.rows, c.Row)
		}
		h.send(r.OwnerID, c)
	}
}

// Passed tells the hub that everything committed by the transactions before [store.Position.Oldest] has been passed to
// Changed. The feed calls it.
func (h *Hub) Passed(p store.Position) { h.position.Store(&p) }

// Position returns the last position given to Passed, or the zero position. If a stream calls Position and then finds
// its channel empty, it has received everything up to that position.
func (h *Hub) Position() store.Position {
	if p := h.position.Load(); p != nil {
		return *p
	}
	return store.Position{}
}

// Reset tells every stream to reread its list: the database is a different or older one, so any workspace may have changed. The
// feed calls it.
func (h *Hub) Reset(int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for user := range h.users {
		h.send(user, Change{Event: Event{Type: Resync}})
	}
}

// send passes the event to the user's streams; h.mu is held. It closes a stream whose buffer is full: waiting for it would delay
// all others.
func (h *Hub) send(userID string, change Change) {
	for s := range h.users[userID] {
		select {
		case s.changes <- change:
		default:
			s.slow()
			h.Metrics.TooSlow()
			h.remove(userID, s)
		}
	}
}

// remove closes the stream once; h.mu is held.
func (h *Hub) remove(userID string, s *subscriber) {
	streams := h.users[userID]
	if _, ok := streams[s]; !ok {
		return
	}
	delete(streams, s)
	if len(streams) == 0 {
		delete(h.users, userID)
	}
	close(s.changes)
}
