package events

import (
	"sync"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/store"
)

// subscriberBuffer is how many events a stream may be behind before it is
// dropped. A browser that reconnects gets the present list, so nothing is lost.
const subscriberBuffer = 64

// Hub hands events to the streams of this process. It listens to Redis once, for
// all of them. While Redis is away it takes the notifications that this process
// hears from PostgreSQL itself.
//
// All methods are safe for concurrent use.
type Hub struct {
	redis   redis.UniversalClient
	pattern string
	prefix  string
	log     *zap.Logger

	mu     sync.Mutex
	users  map[string]map[*subscriber]struct{}
	source source
	ended  bool
}

// source is where events come from at present.
type source int

// The sources. Until the first attempt to reach Redis has ended either way, they
// come from the database, too.
const (
	undecided source = iota
	fromDatabase
	fromRedis
)

type subscriber struct{ events chan Event }

// NewHub returns a hub. The caller closes the client after Run has returned.
func NewHub(client redis.UniversalClient, prefixes Prefixes, log *zap.Logger) *Hub {
	prefix := prefixes.orDefault().SSE + ":"
	return &Hub{
		redis: client, prefix: prefix, pattern: escapePattern(prefix) + "*", log: log,
		users: make(map[string]map[*subscriber]struct{}),
	}
}

// Subscribe returns the user's events from now on. The channel is closed when the
// hub ends, and when the subscriber is too slow: it must then begin anew, with the
// present list. The caller MUST call cancel, at any time and as often as it likes.
func (h *Hub) Subscribe(userID string) (events <-chan Event, cancel func()) {
	s := &subscriber{events: make(chan Event, subscriberBuffer)}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		close(s.events)
		return s.events, func() {}
	}
	if h.users[userID] == nil {
		h.users[userID] = make(map[*subscriber]struct{})
	}
	h.users[userID][s] = struct{}{}
	return s.events, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.remove(userID, s)
	}
}

// Subscribers returns how many streams are open.
func (h *Hub) Subscribers() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, streams := range h.users {
		n += len(streams)
	}
	return n
}

// Notify takes a notification from this process's own listener. It counts only
// while Redis is away; otherwise the leader's publisher brings the same. It never
// blocks.
func (h *Hub) Notify(n store.Notification) {
	event, ok := fromNotification(n)
	if !ok {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.source != fromRedis {
		h.send(n.OwnerID, event)
	}
}

// Resync tells every stream that events may have been lost. The process calls it
// when its own listener has come back.
func (h *Hub) Resync() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.resync()
}

func (h *Hub) resync() {
	for user := range h.users {
		h.send(user, Event{Type: Resync})
	}
}

// send offers the event to the user's streams; h.mu is held. A stream whose
// buffer is full ends: waiting for it would hold up everybody else's.
func (h *Hub) send(userID string, event Event) {
	for s := range h.users[userID] {
		select {
		case s.events <- event:
		default:
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
	close(s.events)
}

// end closes every stream and refuses new ones.
func (h *Hub) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended = true
	for user, streams := range h.users {
		for s := range streams {
			h.remove(user, s)
		}
	}
}
