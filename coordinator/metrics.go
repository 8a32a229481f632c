package coordinator

import (
	"sync"

	"github.com/codehub/gateway/coordinator/metrics"
)

// terms are the terms of this process.
type terms struct {
	mu     sync.Mutex // guards the following
	epochs map[int]int64
}

// begin records a term until end is called.
func (t *terms) begin(shard int, epoch int64) (end func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.epochs == nil {
		t.epochs = make(map[int]int64)
	}
	t.epochs[shard] = epoch
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.epochs, shard)
	}
}

// leads reports whether this process leads the shard.
func (t *terms) leads(shard int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, leads := t.epochs[shard]
	return leads
}

// count returns how many shards this process leads.
func (t *terms) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.epochs)
}

func (t *terms) all() (all []metrics.Term) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for shard, epoch := range t.epochs {
		all = append(all, metrics.Term{Shard: shard, Epoch: epoch})
	}
	return all
}

// state returns what the parts of the coordinator know about themselves. It performs no I/O.
func (c *Coordinator) state() *metrics.State {
	database, redis := c.store.Pool().Stat(), c.redis.PoolStats()
	s := &metrics.State{
		Held: c.Activator.Held(), HeldLimit: c.Activator.MaxHeld(), WakeUps: c.Activator.WakeUps(),
		Streams: c.Hub.Streams(), Routes: c.Routes.Len(), Confirmed: c.Routes.Fresh(),
		Led: c.terms.all(), Shards: c.opts.Shards,
		Database: metrics.Pool{
			InUse: int(database.AcquiredConns()), Idle: int(database.IdleConns()), Limit: int(database.MaxConns()),
			Acquired: database.AcquireCount(), Waited: database.EmptyAcquireCount(), GivenUp: database.CanceledAcquireCount(),
			Wait: database.EmptyAcquireWaitTime(),
		},
		Redis: metrics.Pool{
			InUse: int(redis.TotalConns) - int(redis.IdleConns), Idle: int(redis.IdleConns),
			Limit: c.redis.Options().PoolSize, GivenUp: int64(redis.Timeouts),
		},
	}
	if len(s.Led) > 0 {
		s.Leader = c.leaderState()
	}
	return s
}

// leaderState returns what only the leader knows. The components of shard 0 know nothing in the other processes.
func (c *Coordinator) leaderState() *metrics.LeaderState {
	queues, maxJobs := c.controller.Queues()
	l := &metrics.LeaderState{
		JobsRunning: queues.Jobs.Running, JobsWaiting: queues.Jobs.Waiting, JobsLimit: maxJobs,
		Calls: metrics.Queue(queues.Calls), Removals: metrics.Queue(queues.Removals),
		SetAside: len(c.controller.Faults()),
	}
	for _, part := range c.leaders {
		if part.show != nil {
			part.show(l)
		}
	}
	return l
}
