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

// The timing of the subscription.
const (
	// quiet is how long the subscription may be silent before Redis is pinged, and then
	// how long the answer may take.
	quiet = 5 * time.Second
	// resubscribe is the pause between attempts while Redis does not answer.
	resubscribe = time.Second
)

// Run receives events from Redis until ctx ends; then it closes every stream and
// returns nil. It subscribes again whenever the connection is lost.
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

// listen holds one subscription until it breaks, and returns why. A connection that is
// cut without being closed is noticed after two quiet periods.
func (h *Hub) listen(ctx context.Context) error {
	subscription := h.redis.PSubscribe(ctx, h.pattern)
	defer subscription.Close()
	// A blocked read does not end with the context, only with the connection.
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
		// Other programs can publish on these channels. What is not an event is ignored.
		if !ok || json.Unmarshal([]byte(m.Payload), &event) != nil {
			return
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		h.send(user, event)
	}
}

// subscribed switches from the process's own notifications to Redis. Events may have
// been lost in between, so every stream is told to read its list again.
func (h *Hub) subscribed() {
	h.outage.Recovered()
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.fromRedis {
		h.fromRedis = true
		h.resync()
	}
}

// lost switches to the process's own notifications until Redis answers again.
func (h *Hub) lost(err error) {
	h.outage.Failed(err)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fromRedis {
		h.fromRedis = false
		h.resync()
	}
}

// escapePattern returns a Redis pattern that matches exactly s.
func escapePattern(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(s)
}
