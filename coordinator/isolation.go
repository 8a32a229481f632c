package coordinator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/outage"
)

const (
	// isolationInterval is how often the rules about what workspaces reach are made again:
	// somebody may have flushed them. It is also made at once after the engine was away.
	isolationInterval = 5 * time.Minute
	// isolationRetry is the same while they cannot be made.
	isolationRetry = time.Minute
)

// isolator is a backend that keeps workspaces from what is private by rules outside them.
type isolator interface {
	// KeepIsolated makes the rules, and reports whether they stood before.
	KeepIsolated(ctx context.Context) (stood bool, err error)
}

// isolate keeps the rules in place, in the process that leads. That they cannot be made is
// logged once; whether workspaces start all the same is a setting of the backend.
func (c *Coordinator) isolate(ctx context.Context) error {
	b, ok := c.backend.(isolator)
	if !ok {
		<-ctx.Done()
		return nil
	}
	report := outage.New(c.log, zapcore.WarnLevel,
		"workspaces may reach private networks and this host: the rules about what they reach cannot be made; see caddy codehub doctor and the setting egress enforce",
		"the rules about what workspaces reach stand")
	for first := true; ; first = false {
		stood, err := c.isolateOnce(ctx, b)
		report.Report(ctx, err)
		if err == nil && !stood && !first {
			c.log.Warn("the rules about what workspaces reach were missing or changed, and have been made again")
		}
		pause := isolationInterval
		if err != nil {
			pause = isolationRetry
		}
		if !sleep(ctx, pause) {
			return nil
		}
	}
}

// isolateOnce makes the rules on the recorded engine, and fetches the image that it takes.
func (c *Coordinator) isolateOnce(ctx context.Context, b isolator) (stood bool, err error) {
	if err := c.identity.Backend(ctx); err != nil {
		return false, fmt.Errorf("making the egress rules: %w", err)
	}
	stood, err = b.KeepIsolated(ctx)
	var missing *backend.MissingImageError
	if errors.As(err, &missing) {
		if err := c.backend.Pull(ctx, missing.Image, func(int64, int64) {}); err != nil {
			return false, err
		}
		stood, err = b.KeepIsolated(ctx)
	}
	if err == nil {
		c.log.Debug("the rules about what workspaces reach stand", zap.Bool("stood_before", stood))
	}
	return stood, err
}
