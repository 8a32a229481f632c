package events

import (
	"sync"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/outage"
	"github.com/codehub/gateway/coordinator/store"
)

// subscriberBuffer is how many events a stream may lag behind before it is closed. The
// browser then reconnects and gets the current list, so nothing is lost.
const subscriberBuffer = 64

// Hub passes events to the streams of this process. It has one subscription to Redis
// for all of them. While Redis does not answer, it uses the notifications that this
// process receives from PostgreSQL. Its methods are safe for concurrent use.
type Hub struct {
	redis   redis.UniversalClient
	pattern string
	prefix  string
	outage  *outage.Reporter

	mu        sync.Mutex
	users     map[string]map[*subscriber]struct{}
	fromRedis bool // events come from Redis, not from the process's own listener
	ended     bool
}

// subscriber is one stream. Its channel is closed when it is removed from the hub.
type subscriber struct{ events chan Event }

// NewHub returns a hub. The caller closes the client after Run has returned.
func NewHub(client redis.UniversalClient, prefixes Prefixes, log *zap.Logger) *Hub {
	prefix := prefixes.orDefault().SSE + ":"
	return &Hub{
		redis: client, prefix: prefix, pattern: escapePattern(prefix) + "*",
		outage: outage.New(log, zap.ErrorLevel,
			"redis does not answer; events come from the database until it does", "events come from redis again"),
		users: make(map[string]map[*subscriber]struct{}),
	}
}

// Subscribe returns the user's events from now on. The channel is closed when the hub
// ends, and when the subscriber is too slow: it must then start again with the current
// list. The caller MUST call cancel; it may do so more than once.
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

// Notify accepts a notification from this process's own listener. The hub uses it only
// while Redis does not answer; otherwise the same event arrives from the leader's
// publisher. It never blocks.
func (h *Hub) Notify(n store.Notification) {
	event, ok := fromNotification(n)
	if !ok {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.fromRedis {
		h.send(n.OwnerID, event)
	}
}

// Resync tells every stream that events may have been lost. The process calls it when
// its own listener has reconnected.
func (h *Hub) Resync() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.resync()
}

// resync sends [Resync] to every stream; h.mu is held.
func (h *Hub) resync() {
	for user := range h.users {
		h.send(user, Event{Type: Resync})
	}
}

// send passes the event to the user's streams; h.mu is held. A stream whose buffer is
// full is closed: waiting for it would delay all others.
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
