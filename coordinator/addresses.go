package coordinator

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/dataplane/changes"
	"github.com/codehub/gateway/coordinator/dataplane/route"
	"github.com/codehub/gateway/coordinator/identity"
	"github.com/codehub/gateway/coordinator/internal/periodic"
	"github.com/codehub/gateway/coordinator/logkey"
)

// applyLease gives the routes their lease. If the engine chooses the addresses, the lease lasts only seconds, because
// the engine may soon give an address to another container.
func (c *Coordinator) applyLease(d time.Duration) {
	if c.backend.Addresses == nil {
		d = min(d, route.EngineLease)
	}
	c.Routes.SetLease(d)
	c.feed.SetPoll(c.Routes.Poll(changes.DefaultPoll))
}

// checkAddresses repeats the check until the engine that this process uses is the one whose addresses are in the
// database. On another engine, the addresses belong to other containers. While the engine is away and cannot be
// identified, the addresses are used. If another engine replaces it after it has been identified, this does not
// interrupt people who work.
func (c *Coordinator) checkAddresses(ctx context.Context) error {
	const pause = 5 * time.Second
	if c.opts.Kubernetes == nil && c.backend.Addresses == nil {
		c.log.Warn("the engine chooses the addresses of workspaces in the network that docker network names, "+
			"and may give one to another "+
			"container at once; routes are therefore used for seconds only while the database is away. "+
			"Set docker subnet to a part of the network that nothing else uses",
			zap.Duration(logkey.RouteLease, route.EngineLease))
	}
	for ctx.Err() == nil {
		err := within(ctx, c.Identity.Backend)
		var mismatch *identity.MismatchError
		c.Routes.Distrust(errors.As(err, &mismatch))
		if err == nil {
			return nil
		}
		periodic.Pause(ctx, pause)
	}
	return nil
}
