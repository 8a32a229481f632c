// Package events carries changes from PostgreSQL to browsers. The leader's
// [Publisher] turns notifications of the database into messages of Redis, for every
// process and for other programs; each process's [Hub] passes them to the event
// streams that are open there.
//
// An event is a hint that carries ids, never state (SPEC 1, contract 2): losing one
// may cost time, never correctness. The package owns the names and payloads of the
// Redis channels. It must not read the database, and must not wake the controller:
// the process's own listener does.
package events

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/outage"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Defaults of [Prefixes].
const (
	DefaultSSEPrefix  = "codehub:sse"
	DefaultWakePrefix = "codehub:wake"
)

// The suffixes of the wake channels, as the source documents name them: the
// observer and the workspace controller. Both get every wake-up.
const (
	wakeObserver   = ":ob"
	wakeController = ":wc"
)

// Prefixes name the Redis channels. Empty fields take the defaults.
type Prefixes struct {
	// SSE is followed by ":" and the user's id (REDIS_CHANNEL_SSE_PREFIX).
	SSE string
	// Wake is followed by ":ob" or ":wc" (REDIS_CHANNEL_WAKE_PREFIX).
	Wake string
}

// orDefault returns the prefixes with the default of each empty field.
func (p Prefixes) orDefault() Prefixes {
	if p.SSE == "" {
		p.SSE = DefaultSSEPrefix
	}
	if p.Wake == "" {
		p.Wake = DefaultWakePrefix
	}
	return p
}

// Type says what happened.
type Type string

// The types. Only the hub sends Resync: events may have been lost, so a page must read
// its list again.
const (
	Updated Type = "updated"
	Deleted Type = "deleted"
	Resync  Type = "resync"
)

// Event is one hint to one user's streams.
type Event struct {
	// Type says what happened to the workspace, or Resync.
	Type Type `json:"type"`
	// ID is the workspace; empty for Resync.
	ID workspace.ID `json:"id"`
}

// fromNotification returns the event for the owner's streams that n stands for. It
// reports false for a notification that does not concern them.
func fromNotification(n store.Notification) (Event, bool) {
	if n.OwnerID == "" || n.WorkspaceID == "" {
		return Event{}, false
	}
	switch n.Channel {
	case store.ChannelSSE, store.ChannelWake:
		// The list also shows the desired state, so a wake-up is an update of it.
		return Event{Type: Updated, ID: n.WorkspaceID}, true
	case store.ChannelDeleted:
		return Event{Type: Deleted, ID: n.WorkspaceID}, true
	}
	return Event{}, false
}

const (
	// publishQueue is how many notifications may wait for Redis, far more than ever
	// wait for a healthy one. When it is full, new ones are dropped: they are hints.
	publishQueue = 4096
	// publishBatch is how many of them one pipeline takes.
	publishBatch = 256
	// publishTimeout bounds one pipeline.
	publishTimeout = 3 * time.Second
)

// Publisher forwards notifications to Redis. The leader runs one.
type Publisher struct {
	redis    redis.UniversalClient
	prefixes Prefixes
	outage   *outage.Reporter
	queue    chan store.Notification
	dropped  atomic.Int64 // since the start, because Redis did not answer or was slow
}

// NewPublisher returns a publisher. The caller closes the client.
func NewPublisher(client redis.UniversalClient, prefixes Prefixes, log *zap.Logger) *Publisher {
	return &Publisher{
		redis: client, prefixes: prefixes.orDefault(),
		outage: outage.New(log, zap.ErrorLevel,
			"events are not published; other processes learn of changes from the database", "events are published again"),
		queue: make(chan store.Notification, publishQueue),
	}
}

// Notify queues a notification. It never blocks, because its caller, the database's
// listener, also wakes the controller.
func (p *Publisher) Notify(n store.Notification) {
	select {
	case p.queue <- n:
	default:
		p.dropped.Add(1)
	}
}

// Run publishes until ctx ends, and returns nil. While Redis does not answer,
// notifications are dropped, and that is logged once.
func (p *Publisher) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case n := <-p.queue:
			err := p.publish(ctx, p.batch(n))
			p.outage.Report(ctx, err, zap.Int64("dropped", p.dropped.Load()))
		}
	}
}

// batch returns first and the notifications that wait behind it, up to
// publishBatch.
func (p *Publisher) batch(first store.Notification) []store.Notification {
	batch := []store.Notification{first}
	for len(batch) < publishBatch {
		select {
		case n := <-p.queue:
			batch = append(batch, n)
		default:
			return batch
		}
	}
	return batch
}

// publish sends the batch in one pipeline. After an error none of it counts as
// published.
func (p *Publisher) publish(ctx context.Context, batch []store.Notification) error {
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	_, err := p.redis.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for _, n := range batch {
			p.add(ctx, pipe, n)
		}
		return nil
	})
	if err != nil {
		p.dropped.Add(int64(len(batch)))
		return fmt.Errorf("publishing %d notifications: %w", len(batch), err)
	}
	return nil
}

// add adds the messages that n becomes: both wake channels for a wake-up, and the
// owner's channel for what the owner sees.
func (p *Publisher) add(ctx context.Context, pipe redis.Pipeliner, n store.Notification) {
	if n.Channel == store.ChannelWake && n.WorkspaceID != "" {
		pipe.Publish(ctx, p.prefixes.Wake+wakeObserver, string(n.WorkspaceID))
		pipe.Publish(ctx, p.prefixes.Wake+wakeController, string(n.WorkspaceID))
	}
	event, ok := fromNotification(n)
	if !ok {
		return
	}
	// Marshalling two strings cannot fail.
	payload, _ := json.Marshal(event)
	pipe.Publish(ctx, p.prefixes.SSE+":"+n.OwnerID, payload)
}
