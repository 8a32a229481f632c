package events

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// quiet is how long the subscription may be silent before Redis is pinged, and how
	// long the answer may take.
	quiet = 5 * time.Second
	// resubscribe is the wait between attempts while Redis is away.
	resubscribe = time.Second
)

// Run listens to Redis until ctx ends; then it closes every stream and returns
// nil. It survives Redis going away and coming back.
func (h *Hub) Run(ctx context.Context) error {
	defer h.end()
	for ctx.Err() == nil {
		err := h.listen(ctx)
		if ctx.Err() != nil {
			break
		}
		h.lost(err)
		select {
		case <-ctx.Done():
		case <-time.After(resubscribe):
		}
	}
	return nil
}

// listen holds one subscription until it breaks.
func (h *Hub) listen(ctx context.Context) error {
	subscription := h.redis.PSubscribe(ctx, h.pattern)
	defer subscription.Close()
	// Reading does not end with the context, only with the connection.
	stop := context.AfterFunc(ctx, func() { _ = subscription.Close() })
	defer stop()
	asked := false
	for {
		message, err := subscription.ReceiveTimeout(ctx, quiet)
		var timeout net.Error
		switch {
		case err == nil:
			asked = false
			h.receive(message)
		case errors.As(err, &timeout) && timeout.Timeout() && !asked:
			if err := subscription.Ping(ctx); err != nil {
				return fmt.Errorf("pinging redis: %w", err)
			}
			asked = true
		default:
			return fmt.Errorf("receiving events from redis: %w", err)
		}
	}
}

// receive handles one message of the subscription: its confirmation, or an event.
func (h *Hub) receive(message any) {
	switch m := message.(type) {
	case *redis.Subscription:
		h.subscribed()
	case *redis.Message:
		var event Event
		user, ok := strings.CutPrefix(m.Channel, h.prefix)
		// Other programs may publish here, too: anything that is not an event is ignored.
		if !ok || json.Unmarshal([]byte(m.Payload), &event) != nil {
			return
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		h.send(user, event)
	}
}

// subscribed switches from the process's own notifications to Redis. In between,
// events may have been missed.
func (h *Hub) subscribed() {
	h.outage.Recovered()
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.fromRedis {
		h.fromRedis = true
		h.resync()
	}
}

// lost switches to the process's own notifications.
func (h *Hub) lost(err error) {
	h.outage.Failed(err)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fromRedis {
		h.fromRedis = false
		h.resync()
	}
}

// escapePattern makes s match itself in a Redis pattern.
func escapePattern(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(s)
}
