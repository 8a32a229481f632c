package engine

import (
	"context"
	"time"

	"github.com/codehub/gateway/coordinator/backend"
)

// While another process changes the same container, it is tried again at this interval and for this long.
// The engine reserves a name before it can be inspected.
const (
	retryFor   = 15 * time.Second
	retryEvery = 25 * time.Millisecond
)

// RetryChanged calls f until it returns anything but [backend.ErrChanged], and gives up after a while.
func RetryChanged(ctx context.Context, doing string, f func() error) error {
	return backend.RetryChanged(ctx, doing, retryEvery, retryFor, f)
}
