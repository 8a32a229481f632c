package events

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/internal/periodic"
	"github.com/codehub/gateway/coordinator/outage"
	"github.com/codehub/gateway/coordinator/store"
)

// Defaults of [Prefixes].
const (
	DefaultSSEPrefix  = "codehub:sse"
	DefaultWakePrefix = "codehub:wake"
)

// The suffixes of the wake channels, as in the source documents: the observer and the workspace controller. Both receive every
// wake-up.
const (
	wakeObserver   = ":ob"
	wakeController = ":wc"
)

// CursorKey is the Redis key of the revision up to which everything has been published.
const CursorKey = "codehub:events:published_revision"

const (
	// publishQueue is how many changes may wait for Redis. If there are more, they are reread from the database.
	publishQueue = 4096
	// publishBatch is how many changes one query reads and one pipeline publishes.
	publishBatch = 256
	// publishTimeout bounds one pipeline, and queryTimeout one query.
	publishTimeout = 3 * time.Second
	queryTimeout   = 10 * time.Second
	// The first and the longest pause after a failure, ±25 %.
	retryMin = 100 * time.Millisecond
	retryMax = 5 * time.Second
)

// Prefixes name the Redis channels. Empty fields take the defaults.
type Prefixes struct {
	// SSE is followed by ":" and the user's id (REDIS_CHANNEL_SSE_PREFIX).
	SSE string
	// Wake is followed by ":ob" or ":wc" (REDIS_CHANNEL_WAKE_PREFIX).
	Wake string
}

// Source is the part of the database that the publisher reads after a gap. [*store.Store] implements it.
type Source interface {
	// Position returns the database's current position.
	Position(ctx context.Context) (store.Position, error)
	// ChangesSince returns at most limit rows above the revision, lowest first.
	ChangesSince(ctx context.Context, revision int64, limit int) ([]store.Route, error)
}

// Publisher publishes each change in Redis: the event goes to the owner's channel, and if the controller has something to do, the
// workspace's id goes to both wake channels. The leader runs one Publisher.
//
// A cursor in Redis records up to which revision everything is published. A new leader begins there, and so does the
// current one when too much is waiting. So no change is missed permanently, but the changes of about the last minute
// are published twice. If there is no cursor, because Redis is new or was emptied, a leader begins with the present.
type Publisher struct {
	redis    redis.UniversalClient
	prefixes Prefixes
	source   Source
	outage   *outage.Reporter
	keeping  *outage.Reporter

	mu      sync.Mutex // guards the fields below
	running bool
	queue   []store.Route
	gap     bool  // the queue does not hold everything above the cursor
	settled int64 // everything up to this revision is published or in the queue
	cursor  int64 // everything up to this revision is published
	moved   bool  // the cursor in Redis may belong to a former database
	signal  chan struct{}

	reading *catchUp // changes missing in the queue that are being published; owned by Run's goroutine
}

// catchUp is the publishing of changes since the cursor. It continues after a failure.
type catchUp struct{ next, settled int64 } // revisions: read above next; the cursor becomes settled afterwards

// NewPublisher returns a publisher. The caller closes the client.
func NewPublisher(client redis.UniversalClient, source Source, prefixes Prefixes, log *zap.Logger) *Publisher {
	prefixes.SSE = cmp.Or(prefixes.SSE, DefaultSSEPrefix)
	prefixes.Wake = cmp.Or(prefixes.Wake, DefaultWakePrefix)
	return &Publisher{
		redis: client, prefixes: prefixes, source: source,
		outage: outage.New(log, zap.WarnLevel,
			"events for other programs are not published; they are published later", "events are published again"),
		keeping: outage.New(log, zap.WarnLevel,
			"redis does not store which events are published; the next leader repeats some of them",
			"redis stores again which events are published"),
		signal: make(chan struct{}, 1),
	}
}

// Changed queues changes while the publisher runs. The feed calls it. It never blocks.
func (p *Publisher) Changed(rows []store.Route, settled int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settled = settled
	if !p.running {
		return
	}
	if len(p.queue)+len(rows) > publishQueue {
		p.queue, p.gap = nil, true
	} else {
		p.queue = append(p.queue, rows...)
	}
	p.wake()
}

// Reset continues from an earlier revision, because the database is a different or older one. The feed calls it.
func (p *Publisher) Reset(settled int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settled, p.cursor = settled, min(p.cursor, settled)
	p.queue, p.gap, p.moved = nil, true, !p.running
	p.wake()
}

func (p *Publisher) wake() {
	select {
	case p.signal <- struct{}{}:
	default:
	}
}

// Run publishes until ctx ends, and returns nil. It logs a failure once, and publishes all changes since then when Redis answers
// again.
func (p *Publisher) Run(ctx context.Context) error {
	p.mu.Lock()
	p.running, p.gap, p.queue = true, true, nil
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.running, p.queue = false, nil
	}()
	retry := backoff.ExponentialBackOff{
		InitialInterval: retryMin, MaxInterval: retryMax, Multiplier: 2, RandomizationFactor: 0.25,
	}
	for begun := false; ; {
		var err error
		if !begun {
			err = p.begin(ctx)
			begun = err == nil
		}
		if err == nil {
			err = p.work(ctx)
		}
		p.outage.Report(ctx, err)
		if err != nil {
			if !periodic.Pause(ctx, retry.NextBackOff()) {
				return nil
			}
			continue
		}
		retry.Reset()
		select {
		case <-ctx.Done():
			return nil
		case <-p.signal:
		}
	}
}

// begin reads the cursor at the beginning of a term. For the rest of the term the publisher uses the cursor in memory,
// so that emptying Redis has no effect.
func (p *Publisher) begin(ctx context.Context) error {
	asking, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	now, err := p.source.Position(asking)
	if err != nil {
		return err
	}
	writing, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	cursor := now.Revision
	switch text, err := p.redis.Get(writing, CursorKey).Result(); {
	case errors.Is(err, redis.Nil):
		p.keeping.Report(ctx, p.redis.Set(writing, CursorKey, cursor, 0).Err())
	case err != nil:
		return fmt.Errorf("reading which events are published: %w", err)
	default:
		// A cursor that is not a number, or is ahead of the database, belongs to another database.
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			cursor = min(cursor, n)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.moved {
		cursor, p.moved = min(cursor, p.settled), false
	}
	p.cursor = cursor
	return nil
}

// work publishes until nothing is left: first the changes that are missing in the queue, then those in the queue. After
// an error it is called again, and continues.
func (p *Publisher) work(ctx context.Context) error {
	for {
		p.mu.Lock()
		if p.gap {
			// Empty the queue before reading the first row: the rows may lack the changes that are queued from then on.
			p.queue, p.gap = nil, false
			p.reading = &catchUp{next: p.cursor, settled: p.settled}
		}
		p.mu.Unlock()
		if p.reading != nil {
			if err := p.publishPage(ctx); err != nil {
				return err
			}
			continue
		}
		rows, settled := p.first()
		if len(rows) == 0 && settled == 0 {
			return nil
		}
		if err := p.publish(ctx, rows, settled); err != nil {
			return err
		}
		p.mu.Lock()
		if !p.gap { // otherwise there is a new queue by now
			p.queue = p.queue[len(rows):]
		}
		p.mu.Unlock()
	}
}

// first returns the first changes of the queue. settled is the cursor to set once they are published; 0 leaves the
// cursor as it is.
func (p *Publisher) first() (rows []store.Route, settled int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.queue) == 0 {
		p.queue = nil // free the array
	}
	rows = p.queue[:min(len(p.queue), publishBatch)]
	if len(rows) == len(p.queue) && p.settled > p.cursor {
		settled = p.settled
	}
	return rows, settled
}

// publishPage reads and publishes one page of the changes missing in the queue.
func (p *Publisher) publishPage(ctx context.Context) error {
	reading, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	rows, err := p.source.ChangesSince(reading, p.reading.next, publishBatch)
	if err != nil {
		return fmt.Errorf("reading the changes to publish: %w", err)
	}
	if len(rows) < publishBatch {
		if err := p.publish(ctx, rows, p.reading.settled); err != nil {
			return err
		}
		p.reading = nil
		return nil
	}
	if err := p.publish(ctx, rows, 0); err != nil {
		return err
	}
	p.reading.next = rows[len(rows)-1].Revision
	return nil
}

// publish publishes the rows, and then moves the cursor forward to settled, in one pipeline. After an error all rows must be
// published again.
func (p *Publisher) publish(ctx context.Context, rows []store.Route, settled int64) error {
	p.mu.Lock()
	forward := settled > p.cursor
	p.mu.Unlock()
	if len(rows) == 0 && !forward {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	pipe := p.redis.Pipeline()
	for _, r := range rows {
		p.add(ctx, pipe, r)
	}
	var kept *redis.StatusCmd
	if forward {
		kept = pipe.Set(ctx, CursorKey, settled, 0)
	}
	commands, err := pipe.Exec(ctx)
	if kept != nil {
		commands = commands[:len(commands)-1]
	}
	for _, c := range commands {
		if c.Err() != nil {
			return fmt.Errorf("publishing %d changes: %w", len(rows), err)
		}
	}
	if kept == nil {
		return nil
	}
	// A Redis server that is out of memory or is a replica publishes messages, but refuses to write. The cursor in
	// memory is still correct.
	p.keeping.Report(ctx, kept.Err())
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.gap { // otherwise a reset may have moved it back
		p.cursor = settled
	}
	return nil
}

// add adds the messages for a change.
func (p *Publisher) add(ctx context.Context, pipe redis.Pipeliner, r store.Route) {
	if r.InTransition {
		pipe.Publish(ctx, p.prefixes.Wake+wakeObserver, string(r.ID))
		pipe.Publish(ctx, p.prefixes.Wake+wakeController, string(r.ID))
	}
	// Marshalling two strings cannot fail.
	payload, _ := json.Marshal(of(r))
	pipe.Publish(ctx, p.prefixes.SSE+":"+r.OwnerID, payload)
}
