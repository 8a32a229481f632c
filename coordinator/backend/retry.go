package backend

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrChanged means that an actuator conflicts with a change by another process and can be repeated.
var ErrChanged = errors.New("another process changed it at the same time")

// RetryChanged calls f at that interval until it returns anything but ErrChanged, for at most atMost.
func RetryChanged(ctx context.Context, doing string, every, atMost time.Duration, f func() error) error {
	limit := time.NewTimer(atMost)
	defer limit.Stop()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		err := f()
		if !errors.Is(err, ErrChanged) {
			return err
		}
		select {
		case <-tick.C:
		case <-limit.C:
			return fmt.Errorf("%s: %w", doing, err)
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", doing, ctx.Err())
		}
	}
}
