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
	"go.uber.org/zap"
)

const (
	// quiet is how long the subscription may be silent before Redis is asked
	// whether it is still there, and how long it may take to answer.
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
		t := time.NewTimer(resubscribe)
		select {
		case <-ctx.Done():
		case <-t.C:
		}
		t.Stop()
	}
	return nil
}

// listen holds one subscription until it breaks.
func (h *Hub) listen(ctx context.Context) error {
	subscription := h.redis.PSubscribe(ctx, h.pattern)
	defer subscription.Close() //nolint:errcheck // it is given up either way
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
				return fmt.Errorf("asking redis for a sign of life: %w", err)
			}
			asked = true
		default:
			return fmt.Errorf("receiving events from redis: %w", err)
		}
	}
}

func (h *Hub) receive(message any) {
	switch m := message.(type) {
	case *redis.Subscription:
		h.subscribed()
	case *redis.Message:
		var event Event
		user, ok := strings.CutPrefix(m.Channel, h.prefix)
		// Other programs may publish here; what is not an event is none of ours.
		if !ok || json.Unmarshal([]byte(m.Payload), &event) != nil {
			return
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		h.send(user, event)
	}
}

// subscribed switches from the process's own notifications to Redis. Between two
// of them something may have been missed.
func (h *Hub) subscribed() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.source == fromRedis {
		return
	}
	h.source = fromRedis
	h.resync()
	h.log.Info("events come from redis")
}

func (h *Hub) lost(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.source == fromDatabase {
		return
	}
	h.source = fromDatabase
	h.resync()
	h.log.Error("redis is away; events come from the database until it is back", zap.Error(err))
}

// escapePattern makes s match itself in a Redis pattern.
func escapePattern(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(s)
}
