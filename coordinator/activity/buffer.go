// Package activity carries the times at which workspaces are used from the
// gateway's hot path to Redis, from where the TTL runner takes them to PostgreSQL
// (SPEC 6).
//
// The stages are memory (at once), Redis (every flush interval) and PostgreSQL
// (every tick of the TTL runner). Nothing is dropped in between: a slot keeps its
// time until Redis has confirmed it, and Redis keeps it until PostgreSQL has it.
//
// The package owns the first two stages. It must not decide what counts as
// activity, which is the gateway's task, or what follows from its absence, which is
// the TTL runner's.
package activity

import (
	"context"
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/periodic"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Defaults of [Options] and [Settings].
const (
	DefaultKey           = "codehub:activity"
	DefaultFlushInterval = 30 * time.Second
	DefaultIdle          = 10 * time.Minute
)

// clockStep is the resolution of the hot path's clock. It is far below every
// sensible TTL, and costs two timer ticks a second.
const clockStep = 500 * time.Millisecond

// flushTimeout bounds one flush, stopFlushTimeout the last one: stopping must not wait
// long for a Redis that does not answer.
const (
	flushTimeout     = 10 * time.Second
	stopFlushTimeout = 3 * time.Second
)

// shards is how many maps the slots are spread over, so that requests for
// different workspaces rarely meet at one lock.
const shards = 64

// Settings can be changed while the buffer runs.
type Settings struct {
	// FlushInterval is the time between two writes to Redis
	// (ACTIVITY_FLUSH_INTERVAL). It must be well below the standby TTL, or a workspace
	// in use looks unused. Default [DefaultFlushInterval].
	FlushInterval time.Duration
}

// DefaultSettings are those of SPEC 6.
func DefaultSettings() Settings { return Settings{FlushInterval: DefaultFlushInterval} }

// Validate reports what is wrong with the settings, under the option's name.
func (s Settings) Validate() error {
	if s.FlushInterval <= 0 {
		return fmt.Errorf("activity_flush_interval: %s; give a duration above zero, such as 30s", s.FlushInterval)
	}
	return nil
}

// orDefault replaces each value that Validate refuses.
func (s Settings) orDefault() Settings {
	if s.FlushInterval <= 0 {
		s.FlushInterval = DefaultFlushInterval
	}
	return s
}

// Options configure a [Buffer]. The zero value takes every default.
type Options struct {
	// Key is the Redis sorted set of the times: member workspace id, score Unix
	// milliseconds. Default [DefaultKey].
	Key string
	// Idle is how long a slot without activity stays in memory after its last time
	// was written. Default [DefaultIdle].
	Idle time.Duration
	// Now is the clock; nil means [time.Now].
	Now func() time.Time
	// Settings hold until [Buffer.Set] changes them; zero fields take the defaults.
	Settings Settings
}

// Buffer holds the newest time of activity per workspace until Redis has it.
// All methods are safe for concurrent use.
type Buffer struct {
	opts  Options
	redis redis.UniversalClient
	loop  *periodic.Loop
	clock atomic.Int64 // Unix milliseconds, renewed every clockStep
	seed  maphash.Seed
	parts [shards]part

	flushing sync.Mutex // one flush at a time; guards every slot's sent
}

// part is one of the maps, with its own lock.
type part struct {
	mu    sync.RWMutex
	slots map[workspace.ID]*Slot
}

// NewBuffer returns an empty buffer that flushes to client. It performs no I/O;
// the caller closes the client after Run has returned.
func NewBuffer(client redis.UniversalClient, opts Options, log *zap.Logger) *Buffer {
	if opts.Key == "" {
		opts.Key = DefaultKey
	}
	if opts.Idle <= 0 {
		opts.Idle = DefaultIdle
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	b := &Buffer{opts: opts, redis: client, seed: maphash.MakeSeed()}
	for i := range b.parts {
		b.parts[i].slots = make(map[workspace.ID]*Slot)
	}
	b.loop = periodic.New("writing activity to redis", opts.Settings.orDefault().FlushInterval, b.Flush, log)
	b.tick()
	return b
}

// Set changes the settings at once. Values that Validate refuses are replaced by
// the defaults.
func (b *Buffer) Set(s Settings) { b.loop.SetInterval(s.orDefault().FlushInterval) }

// Record records that the workspace is being used now. It allocates nothing for a
// workspace that has a slot, and writes to memory only once per clock step.
func (b *Buffer) Record(id workspace.ID) {
	p := b.part(id)
	p.mu.RLock()
	s := p.slots[id]
	p.mu.RUnlock()
	if s == nil {
		s = b.Slot(id)
	}
	s.Touch()
}

// Slot returns the workspace's slot, for a holder that touches it often, such as a
// WebSocket. It need not be released, and works however long it is held. Taking a
// slot is not activity.
func (b *Buffer) Slot(id workspace.ID) *Slot {
	p := b.part(id)
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.slots[id]
	if s == nil {
		s = &Slot{buffer: b, id: id}
		p.slots[id] = s
	}
	return s
}

// Run keeps the clock and flushes every interval until ctx ends; then it flushes
// a last time, within seconds, and returns. What could not be written by then is
// lost with the process.
func (b *Buffer) Run(ctx context.Context) error {
	var clock sync.WaitGroup
	clock.Go(func() {
		t := time.NewTicker(clockStep)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
				b.tick()
			}
		}
	})
	b.loop.Run(ctx)
	clock.Wait()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopFlushTimeout)
	defer cancel()
	if err := b.Flush(last); err != nil {
		return fmt.Errorf("writing the last activity: %w", err)
	}
	return nil
}

// Flush writes every time that Redis has not confirmed yet. After an error all
// of them are kept for the next flush: writing one twice changes nothing.
func (b *Buffer) Flush(ctx context.Context) error {
	b.flushing.Lock()
	defer b.flushing.Unlock()
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	b.tick()
	batch := b.unsent()
	if err := b.write(ctx, batch); err != nil {
		return err
	}
	for _, e := range batch {
		e.slot.sent = e.at
	}
	b.retire()
	return nil
}

// entry is a time to be written, in Unix milliseconds of this process's clock.
type entry struct {
	slot *Slot
	at   int64
}

// unsent returns the times that Redis has not confirmed yet.
func (b *Buffer) unsent() []entry {
	var batch []entry
	for i := range b.parts {
		p := &b.parts[i]
		p.mu.RLock()
		for _, s := range p.slots {
			if at := s.last.Load(); at > s.sent {
				batch = append(batch, entry{s, at})
			}
		}
		p.mu.RUnlock()
	}
	return batch
}

// chunk is how many members one ZADD carries: a longer one would delay all other
// commands in Redis.
const chunk = 1000

// write sends the times in one pipeline, converted to the clock of the Redis
// server: the processes' clocks differ, and one that is late would let workspaces
// expire while they are used.
func (b *Buffer) write(ctx context.Context, batch []entry) error {
	if len(batch) == 0 {
		return nil
	}
	before := b.opts.Now()
	server, err := b.redis.Time(ctx).Result()
	if err != nil {
		return fmt.Errorf("reading the time of redis: %w", err)
	}
	after := b.opts.Now()
	offset := server.UnixMilli() - (before.UnixMilli()+after.UnixMilli())/2
	_, err = b.redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		for len(batch) > 0 {
			n := min(chunk, len(batch))
			members := make([]redis.Z, n)
			for i, e := range batch[:n] {
				members[i] = redis.Z{Score: float64(e.at + offset), Member: string(e.slot.id)}
			}
			p.ZAddArgs(ctx, b.opts.Key, redis.ZAddArgs{GT: true, Members: members})
			batch = batch[n:]
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("writing activity to redis: %w", err)
	}
	return nil
}

// retire frees the slots without activity for the idle time. A slot that is still
// held returns when it is touched.
func (b *Buffer) retire() {
	old := b.clock.Load() - b.opts.Idle.Milliseconds()
	for i := range b.parts {
		p := &b.parts[i]
		p.mu.Lock()
		for id, s := range p.slots {
			at := s.last.Load()
			// The swap fails when the slot was touched since; then it stays.
			if at <= old && at == s.sent && s.last.CompareAndSwap(at, retired) {
				delete(p.slots, id)
			}
		}
		p.mu.Unlock()
	}
}

// tick moves the clock of the hot path, in Unix milliseconds.
func (b *Buffer) tick() { b.clock.Store(b.opts.Now().UnixMilli()) }

// part returns the part of a workspace's slot.
func (b *Buffer) part(id workspace.ID) *part {
	return &b.parts[maphash.String(b.seed, string(id))%shards]
}
