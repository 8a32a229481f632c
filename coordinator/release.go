package coordinator

import (
	"context"
	"time"

	"go.uber.org/zap/zapcore"

	"github.com/codehub/gateway/coordinator/outage"
	"github.com/codehub/gateway/coordinator/workspace"
)

const (
	// releaseInterval is how often it is looked for all that others wait to be let go: events
	// may be lost, and an attempt may have failed.
	releaseInterval = time.Minute
	// releaseRetry is the pause after the events have ended.
	releaseRetry = time.Second
)

// releaser is a backend whose containers stay in its listings, also when somebody else has
// deleted them, until it lets them go.
type releaser interface {
	// Release lets go of what has ended, of those workspaces or of all without ids. It changes
	// nothing before may has returned nil.
	Release(ctx context.Context, may func(context.Context) error, ids ...workspace.ID) error
}

// release lets go of containers that have ended, in the process that leads: also of those that
// belong to no workspace, for which the controller does nothing. Whoever has deleted one,
// such as the drain of a node, waits for it.
func (c *Coordinator) release(ctx context.Context) error {
	b, ok := c.backend.(releaser)
	if !ok {
		<-ctx.Done()
		return nil
	}
	report := outage.New(c.log, zapcore.WarnLevel,
		"containers that have ended cannot be let go; who has deleted them waits", "containers that have ended are let go again")
	for ctx.Err() == nil {
		events, stop := c.releaseEvents(ctx)
		report.Report(ctx, b.Release(ctx, c.identity.Backend))
		tick := time.NewTicker(releaseInterval)
		for open := events != nil; open; {
			var id workspace.ID
			select {
			case id, open = <-events:
				if open {
					// That one goes, or has nothing to let go, says nothing about the others.
					if err := b.Release(ctx, c.identity.Backend, id); err != nil {
						report.Report(ctx, err)
					}
				}
			case <-tick.C:
				report.Report(ctx, b.Release(ctx, c.identity.Backend))
			}
		}
		tick.Stop()
		stop()
		sleep(ctx, releaseRetry)
	}
	return nil
}

// releaseEvents returns the backend's events, nil while there are none, and what ends them.
func (c *Coordinator) releaseEvents(ctx context.Context) (<-chan workspace.ID, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	events, err := c.backend.Events(ctx)
	if err != nil {
		return nil, cancel // the controller has said so
	}
	return events, cancel
}
