package engine

import (
	"context"
	"time"

	"github.com/codehub/gateway/coordinator/backend"
)

// While another process changes the same container, a call is retried at this interval and for this long. The engine
// reserves a name before the container can be inspected.
const (
	retryFor   = 15 * time.Second
	retryEvery = 25 * time.Millisecond
)

// RetryChanged calls f until it returns anything but [backend.ErrChanged], for a limited time.
func RetryChanged(ctx context.Context, doing string, f func() error) error {
	return backend.RetryChanged(ctx, doing, retryEvery, retryFor, f)
}
