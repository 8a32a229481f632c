// Package isolation keeps the firewall rules in place that separate workspaces from private networks (SPEC 8). The
// leader applies them at its start and again every minute.
//
// It owns the timing and the reports to the log and to administrators. The backend owns the rules and how they are
// applied.
package isolation

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
	"github.com/codehub/gateway/coordinator/internal/periodic"
	"github.com/codehub/gateway/coordinator/logkey"
	"github.com/codehub/gateway/coordinator/outage"
)

// interval is the time after which the rules are applied again, because another program may have deleted them while
// workspaces run. It is also the pause after a failure.
const interval = time.Minute

// Keeper keeps the rules. It is safe for concurrent use.
type Keeper struct {
	// keep and images are KeepIsolated and Images of [backend.Backend].
	keep   func(ctx context.Context) (stood bool, err error)
	images backend.Images
	// identity returns nil while the backend is the recorded one (SPEC 2).
	identity     func(ctx context.Context) error
	log          *zap.Logger
	open, closed *outage.Reporter
	problem      atomic.Pointer[string]
}

// New returns the keeper of a backend's rules. For a backend without such rules it does nothing. It performs no
// I/O.
func New(b backend.Backend, identity func(ctx context.Context) error, log *zap.Logger) *Keeper {
	return &Keeper{
		keep: b.KeepIsolated, images: b.Images, identity: identity, log: log,
		open: outage.New(log, zapcore.ErrorLevel,
			"workspaces run without firewall rules and may reach private networks, this host and the metadata "+
				"service, because the container engine says that it cannot have them; with egress enforce require "+
				"nothing starts there, with egress enforce open nothing is tried",
			"the container engine can have firewall rules by now; from now on nothing starts without them"),
		closed: outage.New(log, zapcore.ErrorLevel,
			"the rules about what workspaces reach cannot be made; where a container engine is to have them, "+
				"nothing starts before. See caddy codehub doctor and the setting egress enforce",
			"the rules about what workspaces reach can be made again"),
	}
}

// report reports the outcome of an attempt to apply the rules. first is set for the first attempt of this term.
func (k *Keeper) report(ctx context.Context, stood bool, err error, first bool) {
	var unable *egress.UnableError
	problem := ""
	switch {
	case ctx.Err() != nil:
		return
	case errors.As(err, &unable):
		k.closed.Recovered()
		k.open.Failed(err)
		problem = "workspaces run without firewall rules: " + err.Error()
	case err != nil:
		k.closed.Failed(err)
		problem = "the rules about what workspaces reach cannot be made: " + err.Error()
	default:
		k.open.Recovered()
		k.closed.Recovered()
		switch {
		case first:
			k.log.Info("the rules about what workspaces reach stand", zap.Bool(logkey.Stood, stood))
		case !stood:
			k.log.Warn("the rules about what workspaces reach were missing or changed, and have been made again")
		}
	}
	k.problem.Store(&problem)
}

// Problems returns the messages for administrators. There are none unless this process leads.
func (k *Keeper) Problems() []string {
	if p := k.problem.Load(); p != nil && *p != "" {
		return []string{*p}
	}
	return nil
}

// Run keeps the rules in place until ctx ends, and returns nil. The leader runs it.
func (k *Keeper) Run(ctx context.Context) error {
	if k.keep == nil {
		<-ctx.Done()
		return nil
	}
	defer k.problem.Store(nil) // the next leader reports its own
	for first := true; ; first = false {
		stood, err := k.makeRules(ctx)
		k.report(ctx, stood, err, first)
		if !periodic.Pause(ctx, interval) {
			return nil
		}
	}
}

// makeRules applies the rules on the recorded engine, and pulls the image that this needs.
func (k *Keeper) makeRules(ctx context.Context) (stood bool, err error) {
	if err := k.identity(ctx); err != nil {
		return false, fmt.Errorf("making the egress rules: %w", err)
	}
	stood, err = k.keep(ctx)
	var missing *backend.MissingImageError
	if errors.As(err, &missing) {
		if err := k.images.Pull(ctx, missing.Image, func(int64, int64) {}); err != nil {
			return false, err
		}
		stood, err = k.keep(ctx)
	}
	return stood, err
}
