package gc

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
)

// TestFirstCycleDoesNotWaitAnInterval: terms shorter than the interval collect as
// well. A cycle begins by asking Redis, which does not answer here.
func TestFirstCycleDoesNotWaitAnInterval(t *testing.T) {
	asked := make(chan struct{}, 1)
	client := redis.NewClient(&redis.Options{MaxRetries: -1, DialerRetries: 1, Dialer: func(context.Context, string, string) (net.Conn, error) {
		select {
		case asked <- struct{}{}:
		default:
		}
		return nil, errors.New("away")
	}})
	defer client.Close()
	r := New(Options{Orphans: NewOrphanTracker(client, "")}, zap.NewNop())
	r.first = time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	select {
	case <-asked:
	case <-time.After(30 * time.Second):
		t.Errorf("no cycle begins, although the first is due after %s, not after %s", r.first, DefaultInterval)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
