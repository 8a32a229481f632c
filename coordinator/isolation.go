package coordinator

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/egress"
	"github.com/codehub/gateway/coordinator/outage"
)

// isolationInterval is how often the rules about what workspaces reach are made again: somebody
// may have flushed them under workspaces that run. It is also the pause after a failure.
const isolationInterval = time.Minute

// isolator is a backend that keeps workspaces from what is private by rules outside them.
type isolator interface {
	// KeepIsolated makes the rules, and reports whether they stood before. An
	// [egress.UnableError] says that workspaces run without; after any other error none starts
	// before they stand, as far as the backend can keep one from it.
	KeepIsolated(ctx context.Context) (stood bool, err error)
}

// isolation tells how it stands with the rules about what workspaces reach: in the log, each
// state once, and in what [Coordinator.Health] says.
type isolation struct {
	log          *zap.Logger
	open, closed *outage.Reporter
	problem      atomic.Pointer[string]
}

func newIsolation(log *zap.Logger) *isolation {
	return &isolation{
		log: log,
		open: outage.New(log, zapcore.ErrorLevel,
			"workspaces run without firewall rules and may reach private networks, this host and the metadata service, because the container engine says that it cannot have them; "+
				"with egress enforce require nothing starts there, with egress enforce open nothing is tried",
			"the container engine can have firewall rules by now; from now on nothing starts without them"),
		closed: outage.New(log, zapcore.ErrorLevel,
			"the rules about what workspaces reach cannot be made; where a container engine is to have them, nothing starts before. See caddy codehub doctor and the setting egress enforce",
			"the rules about what workspaces reach can be made again"),
	}
}

// report takes the outcome of an attempt to make the rules. first says that it is the first one
// of this term.
func (i *isolation) report(ctx context.Context, stood bool, err error, first bool) {
	var unable *egress.UnableError
	problem := ""
	switch {
	case ctx.Err() != nil:
		return
	case errors.As(err, &unable):
		i.closed.Recovered()
		i.open.Failed(err)
		problem = "workspaces run without firewall rules: " + err.Error()
	case err != nil:
		i.closed.Failed(err)
		problem = "the rules about what workspaces reach cannot be made: " + err.Error()
	default:
		i.open.Recovered()
		i.closed.Recovered()
		switch {
		case first:
			i.log.Info("the rules about what workspaces reach stand", zap.Bool("stood_before", stood))
		case !stood:
			i.log.Warn("the rules about what workspaces reach were missing or changed, and have been made again")
		}
	}
	i.problem.Store(&problem)
}

// problems are what an administrator is told, as [Health.Problems].
func (i *isolation) problems() []string {
	if p := i.problem.Load(); p != nil && *p != "" {
		return []string{*p}
	}
	return nil
}

// isolate keeps the rules in place, in the process that leads.
func (c *Coordinator) isolate(ctx context.Context) error {
	b, ok := c.backend.(isolator)
	if !ok {
		<-ctx.Done()
		return nil
	}
	defer c.isolation.problem.Store(nil) // another process leads, and knows
	for first := true; ; first = false {
		stood, err := c.isolateOnce(ctx, b)
		c.isolation.report(ctx, stood, err, first)
		if !sleep(ctx, isolationInterval) {
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
	return stood, err
}
