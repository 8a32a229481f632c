package coordinator

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/control/leader"
	"github.com/codehub/gateway/coordinator/control/reconcile"
	"github.com/codehub/gateway/coordinator/guard"
	"github.com/codehub/gateway/coordinator/identity"
	"github.com/codehub/gateway/coordinator/internal/periodic"
	"github.com/codehub/gateway/coordinator/logkey"
	"github.com/codehub/gateway/coordinator/metrics"
	"github.com/codehub/gateway/coordinator/outage"
	"github.com/codehub/gateway/coordinator/store/postgres"
)

// awaitServers logs an outage of Redis or the object store at the start. As soon as the object store answers, the
// bucket is tested. If this installation has no bucket yet, it is created and marked before that. Every other retry
// belongs to the component that needs the server.
func (c *Coordinator) awaitServers(ctx context.Context) error {
	err := within(ctx, func(ctx context.Context) error { return c.redis.Ping(ctx).Err() })
	if err != nil && ctx.Err() == nil {
		c.log.Warn("redis cannot be reached: this process keeps to PostgreSQL until it can", zap.Error(err))
	}
	const pause = 2 * time.Second
	bucket := outage.New(c.log, zapcore.ErrorLevel,
		"the object store cannot be used: nothing is archived or restored until it can", "the object store can be used")
	for {
		err := within(ctx, c.Identity.Bucket)
		var mismatch *identity.MismatchError
		if errors.As(err, &mismatch) {
			return nil // it answers, and the guard has logged what is wrong
		}
		if bucket.Report(ctx, err); err == nil {
			c.checkArchives(ctx)
			return nil
		}
		if !periodic.Pause(ctx, pause) {
			return nil
		}
	}
}

// checkArchives tries everything that archives need from the object store once. It logs each failure with the setting
// and the remedy. Each process tries for itself, because it has its own network, clock and certificates. Nothing
// depends on the result: a feature that fails now may work when it is needed.
func (c *Coordinator) checkArchives(ctx context.Context) {
	var found []archive.Defect
	_ = within(ctx, func(ctx context.Context) error {
		found = c.archives.Check(ctx)
		return nil
	})
	if ctx.Err() != nil {
		return // the process ends
	}
	for _, f := range found {
		c.log.Warn("the object store does not do all that archives need",
			zap.String(logkey.Problem, f.Text), zap.String(logkey.Remedy, f.Remedy))
	}
}

// within calls f with a context that ends after startTimeout.
func within(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return f(ctx)
}

// listen passes the database's notifications on. Notifications are only hints: every recipient also polls, and after
// each reconnection it reads the changes that it has missed.
func (c *Coordinator) listen(ctx context.Context) error {
	const pause = time.Second
	connection := outage.New(c.log, zapcore.WarnLevel,
		"no notifications from the database; changes are found by polling until it is back",
		"notifications from the database are back")
	for ctx.Err() == nil {
		connection.Report(ctx, c.store.Listen(ctx, func() {
			connection.Recovered()
			c.Auth.Resync()
			c.feed.RefreshAll()
			c.controller.WakeAll()
		}, c.notified))
		periodic.Pause(ctx, pause)
	}
	return nil
}

// notified passes one notification to the components of this process. The controller
// gets it only in a process that leads. It must not block, because the next notification
// waits for it.
func (c *Coordinator) notified(n postgres.Notification) {
	switch n.Channel {
	case postgres.ChannelRevoked:
		c.Auth.Revoked(n.SessionID)
		return
	case postgres.ChannelWake, postgres.ChannelDeleted:
		if c.terms.count() > 0 {
			c.controller.Wake(n.WorkspaceID)
		}
	}
	c.feed.Refresh(n.WorkspaceID)
}

// component is a part of the coordinator that runs by itself. After a panic it is started again
// (SPEC 5, Failures).
type component struct {
	name string
	run  func(context.Context) error
}

// components are those that every process runs from [Coordinator.Start] until [Coordinator.Stop].
func (c *Coordinator) components() []component {
	return []component{
		{"listen", c.listen}, {"changes", c.feed.Run}, {"routes", func(ctx context.Context) error { c.Routes.Run(ctx); return nil }}, {"activator", c.Activator.Run},
		{"activity", c.Activity.Run}, {"events", c.Hub.Run}, {"identity", c.Identity.Run}, {"leader", c.lead},
		{"servers", c.awaitServers}, {"addresses", c.checkAddresses}, {"pressure", c.pressure.Run},
		{"serving", c.watchServing},
	}
}

// run runs the components in goroutines, which c.done counts, until ctx ends.
func (c *Coordinator) run(ctx context.Context, components []component) {
	for _, part := range components {
		c.done.Go(func() {
			if err := guard.Keep(ctx, c.log, part.name, 0, part.run); err != nil && ctx.Err() == nil {
				c.log.Error("a component of the coordinator ended with an error; it stays down until the "+
					"process restarts", zap.String(logkey.Component, part.name), zap.Error(err))
			}
		})
	}
}

// leaderComponent is what the coordinator has to know about a component that runs only in the leader. It runs during
// each term for shard 0.
type leaderComponent struct {
	name string
	// run runs until its context ends.
	run func(context.Context, leader.Term) error
	// apply passes the component its part of the settings; nil if it has no settings.
	apply func(Settings)
	// show adds the component's numbers to the metrics; nil if it has none.
	show func(*metrics.LeaderState)
	// problems returns the problems that administrators have to know; nil if the component never has any.
	problems func() []string
}

// everyTerm adapts a component that does not need the term, because it writes nothing under the term's fence.
func everyTerm(run func(context.Context) error) func(context.Context, leader.Term) error {
	return func(ctx context.Context, _ leader.Term) error { return run(ctx) }
}

// rounds returns a component that does one round when a term begins, and then one at every interval. doing, a gerund,
// names the rounds in the log. All terms share one loop. So a fault that outlasts a term is logged only once, and its
// end is logged, too.
func (c *Coordinator) rounds(name, doing string, interval time.Duration, round func(context.Context) error) func(context.Context, leader.Term) error {
	return everyTerm(periodic.New(doing, interval, round, c.log.Named(name)).RunNow)
}

// ofTerm returns the components of a term as the leader of a shard. The controller runs for each shard, all other
// components only with shard 0.
func (c *Coordinator) ofTerm(t leader.Term) []component {
	all := []component{{"controller", func(ctx context.Context) error { return c.controller.Run(ctx, reconcile.Term(t)) }}}
	if t.Shard != 0 {
		return all
	}
	for _, part := range c.leaders {
		all = append(all, component{part.name, func(ctx context.Context) error { return part.run(ctx, t) }})
	}
	return all
}

// lead takes part in the election of each shard until [Coordinator.Resign], and runs the leader's
// components during each term.
func (c *Coordinator) lead(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.leading, cancel)()
	return c.elector.Run(ctx, func(ctx context.Context, t leader.Term) error {
		defer c.terms.begin(t.Shard, t.Fence.Epoch)()
		c.Metrics.Leader.Began()
		return together(ctx, c.log, c.ofTerm(t))
	})
}

// Resign gives up the leadership permanently, because the process is about to end. Another process leads while this
// one finishes its requests. Resign does not wait for the end of the terms.
func (c *Coordinator) Resign() { c.resign() }

// maxPanics is the number of consecutive panics of one component after which this process resigns as the leader.
const maxPanics = 5

// together runs the components until ctx ends or one of them returns, and then cancels the others. It returns once all
// have returned, so that no component outlives the term. Its error is that of the component that returned first.
func together(ctx context.Context, log *zap.Logger, components []component) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for _, part := range components {
		wg.Go(func() { cancel(guard.Keep(ctx, log, part.name, maxPanics, part.run)) })
	}
	wg.Wait()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
