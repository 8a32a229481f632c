// Package activity carries the times at which workspaces are used from the gateway's hot path to Redis. From there the TTL runner
// takes them to PostgreSQL (SPEC 6). While Redis accepts nothing from a process, that process writes the times to
// PostgreSQL itself (SPEC 5).
//
// The stages are memory (immediately), Redis (every flush interval) and PostgreSQL (every tick of the TTL runner). No
// time is dropped in between. A process keeps sending times that Redis has confirmed as long as they are in its memory,
// because Redis may lose them. They stay in Redis until PostgreSQL has them. With each flush a process also records in
// PostgreSQL the moment up to which it has written everything that it knows.
//
// The package owns the first two stages. It must not decide what counts as activity, which is the gateway's task. Nor
// must it decide what follows from inactivity, which is the TTL runner's task.
package activity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/clock"
	"github.com/codehub/gateway/coordinator/guard"
	"github.com/codehub/gateway/coordinator/internal/periodic"
	"github.com/codehub/gateway/coordinator/metrics"
	"github.com/codehub/gateway/coordinator/outage"
	"github.com/codehub/gateway/coordinator/setting"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Defaults of [Options] and [Settings].
const (
	DefaultKey           = "codehub:activity"
	DefaultFlushInterval = 30 * time.Second
	DefaultIdle          = 10 * time.Minute
)

// clockStep is the resolution of the hot path's clock. It is far shorter than every sensible TTL, and costs only two
// timer ticks a second.
const clockStep = 500 * time.Millisecond

// flushTimeout bounds each of a flush's two writes, to Redis and to PostgreSQL. stopFlushTimeout bounds the writes of
// the last flush, because a process that stops must not wait long for a server that does not answer.
const (
	flushTimeout     = 10 * time.Second
	stopFlushTimeout = 3 * time.Second
)

// dueMargin is added to two flush intervals: a process that has not flushed within the sum counts as late. It covers a
// flush with a Redis that does not answer.
const dueMargin = 30 * time.Second

// shards is the number of maps that hold the slots, so that requests for different workspaces rarely compete for a lock.
const shards = 64

// Settings can be changed while the buffer runs.
type Settings struct {
	// FlushInterval is the time between two writes to Redis (ACTIVITY_FLUSH_INTERVAL). It must be well below the
	// standby TTL, because otherwise a workspace in use would look unused. Default [DefaultFlushInterval].
	FlushInterval time.Duration
	// Mode defines which traffic counts. Default [DefaultMode].
	Mode Mode
}

// DefaultSettings returns the settings of SPEC 6.
func DefaultSettings() Settings {
	return Settings{FlushInterval: DefaultFlushInterval, Mode: DefaultMode}
}

// Validate reports what is wrong with the settings, under the option's name.
func (s Settings) Validate() error {
	var err error
	if s.FlushInterval <= 0 {
		err = setting.Errorf("activity_flush_interval", "%s; give a duration above zero, such as 30s", s.FlushInterval)
	}
	return errors.Join(err, s.Mode.Validate())
}

// orDefault replaces each invalid value with its default.
func (s Settings) orDefault() Settings {
	if s.FlushInterval <= 0 {
		s.FlushInterval = DefaultFlushInterval
	}
	if s.Mode == "" || s.Mode.Validate() != nil {
		s.Mode = DefaultMode
	}
	return s
}

// Fallback is the part of PostgreSQL that the buffer uses. *store.Store implements it.
type Fallback interface {
	// TouchLastAccess moves last_access_at forward to the times that were ages ago, and last_input_at to those that
	// were inputs ago.
	TouchLastAccess(ctx context.Context, ages, inputs map[workspace.ID]time.Duration) error
	// WriterFlushed records that this process has written all use except that of the last age, and that it will write
	// again within due.
	WriterFlushed(ctx context.Context, node string, age, due time.Duration) error
	// WriterGone records that this process has ended.
	WriterGone(ctx context.Context) error
}

// Options configure a [Buffer]. The zero value takes every default.
type Options struct {
	// Fallback receives the activity while Redis does not accept it. With every flush it is also told that everything
	// is written. Without a Fallback, which is the default, everything waits for Redis.
	Fallback Fallback
	// Node is the name of this process. If another process waits for this one, its log shows the name.
	Node string
	// Key is the Redis sorted set of the times. A member is a workspace id, or "input:" and the id. Its score is a time
	// in Unix milliseconds. Default [DefaultKey].
	Key string
	// Idle is how long a slot stays in memory after its last activity. Until then its time is sent again with each
	// flush, in case Redis loses it. Default [DefaultIdle].
	Idle time.Duration
	// Now is the clock, used only for differences; nil means [clock.Steady].
	Now func() time.Time
	// Used is called when a workspace is used, about once per step of the clock. It returns whether the use counts. by
	// is the user, or nil if unknown. Used must neither block nor allocate. Default: every use counts.
	Used func(id workspace.ID, by audit.Asker) (counts bool)
	// Metrics and Cycles count the signals of use and the flushes. Default: nothing is counted.
	Metrics *metrics.Activity
	Cycles  *metrics.Cycles
	// Settings are the initial settings; [Buffer.Set] changes them. Zero fields take the defaults.
	Settings Settings
}

// Buffer holds the newest time of activity per workspace until it is written. All methods are safe for concurrent use.
type Buffer struct {
	opts     Options
	redis    redis.UniversalClient
	loop     *periodic.Loop
	clock    atomic.Int64 // Unix milliseconds, renewed every clockStep
	seed     maphash.Seed
	parts    [shards]part
	presence atomic.Bool      // the mode is Presence
	lost     *outage.Reporter // of Redis

	flushing sync.Mutex // one flush at a time; guards every slot's sent and saved
}

// part is one of the maps, with its own lock.
type part struct {
	mu    sync.RWMutex
	slots map[workspace.ID]*Slot
}

// NewBuffer returns an empty buffer that flushes to client. It does no I/O. The caller closes the client after Run has returned.
func NewBuffer(client redis.UniversalClient, opts Options, log *zap.Logger) *Buffer {
	opts.Key = cmp.Or(opts.Key, DefaultKey)
	if opts.Idle <= 0 {
		opts.Idle = DefaultIdle
	}
	if opts.Now == nil {
		opts.Now = clock.Steady()
	}
	if opts.Used == nil {
		opts.Used = func(workspace.ID, audit.Asker) bool { return true }
	}
	b := &Buffer{opts: opts, redis: client, seed: maphash.MakeSeed()}
	for i := range b.parts {
		b.parts[i].slots = make(map[workspace.ID]*Slot)
	}
	b.lost = outage.New(log, zapcore.WarnLevel,
		"redis takes no activity; this process writes it to PostgreSQL instead", "redis takes activity again")
	b.presence.Store(opts.Settings.orDefault().Mode == Presence)
	b.loop = periodic.New("writing activity", opts.Settings.orDefault().FlushInterval, opts.Cycles.Counting("activity", b.Flush), log)
	b.tick()
	return b
}

// Set changes the settings immediately. Invalid values are replaced by the defaults.
func (b *Buffer) Set(s Settings) {
	s = s.orDefault()
	b.presence.Store(s.Mode == Presence)
	if b.loop.Interval() != s.FlushInterval {
		b.loop.SetInterval(s.FlushInterval)
		b.loop.Wake() // the next flush was promised for the old interval
	}
}

// Record records that the workspace is being used now. It does not allocate if the workspace has a slot already. It
// writes to memory only once per clock step.
func (b *Buffer) Record(id workspace.ID) { b.Slot(id).Touch(metrics.ByProgram) }

// Slot returns the workspace's slot, for a holder that touches it often, such as a WebSocket. The slot need not be
// released, and works however long it is held. Calling Slot is not activity. If the slot exists, Slot does not
// allocate, and concurrent calls do not wait for each other.
func (b *Buffer) Slot(id workspace.ID) *Slot {
	p := b.part(id)
	p.mu.RLock()
	s := p.slots[id]
	p.mu.RUnlock()
	if s != nil {
		return s
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if s = p.slots[id]; s == nil {
		s = &Slot{buffer: b, id: id}
		p.slots[id] = s
	}
	return s
}

// UsedWithin reports whether this process has seen a use of the workspace within d. It also returns the last user, or nil if
// unknown.
func (b *Buffer) UsedWithin(id workspace.ID, d time.Duration) (by audit.Asker, used bool) {
	p := b.part(id)
	p.mu.RLock()
	s := p.slots[id]
	p.mu.RUnlock()
	if s == nil || s.last.Load() <= b.clock.Load()-d.Milliseconds() {
		return nil, false
	}
	if user := s.user.Load(); user != nil {
		by = *user
	}
	return by, true
}

// Run keeps the clock running and flushes immediately and then at every interval until ctx ends. Then it flushes a last
// time, within seconds, and returns. Times that this last flush cannot write are lost when the process ends.
func (b *Buffer) Run(ctx context.Context) error {
	var ticks sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	defer ticks.Wait()
	defer cancel() // first: the clock must end even after a panic here
	ticks.Go(func() {
		_ = guard.Keep(ctx, nil, "activity clock", 0, func(ctx context.Context) error { b.keepClock(ctx); return nil })
	})
	b.loop.Wake() // announces this process before the TTL runner relies on its knowledge
	b.loop.Run(ctx)
	ticks.Wait()
	return b.stop(context.WithoutCancel(ctx))
}

// keepClock ticks until ctx ends.
func (b *Buffer) keepClock(ctx context.Context) {
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
}

// stop writes the remaining times. Then, even after an error, it records that this process has stopped writing, because
// the TTL runner must not wait for a process that has ended.
func (b *Buffer) stop(ctx context.Context) error {
	err := b.flush(ctx, stopFlushTimeout)
	if err != nil {
		err = fmt.Errorf("writing the last activity: %w", err)
	}
	if b.opts.Fallback == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, stopFlushTimeout)
	defer cancel()
	return errors.Join(err, b.opts.Fallback.WriterGone(ctx))
}

// Flush writes the times that are in memory and not in PostgreSQL to Redis or, if Redis does not accept them, to
// PostgreSQL. It records that it has done so. After an error it keeps all of them for the next flush. That is correct
// because writing a time twice changes nothing.
func (b *Buffer) Flush(ctx context.Context) error { return b.flush(ctx, flushTimeout) }

// flush is Flush with a time limit for each server.
func (b *Buffer) flush(ctx context.Context, timeout time.Duration) error {
	b.flushing.Lock()
	defer b.flushing.Unlock()
	b.tick()
	began := b.opts.Now()
	batch := b.unsaved()
	if err := b.write(ctx, timeout, batch); err != nil {
		return err
	}
	b.retire()
	if b.opts.Fallback == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	due := 2*b.loop.Interval() + dueMargin
	return b.opts.Fallback.WriterFlushed(ctx, b.opts.Node, b.opts.Now().Sub(began), due)
}

// write writes the times to Redis, or else to PostgreSQL. The next flush also sends the times that Redis has confirmed.
// Until the TTL runner has taken them, Redis may lose them when it is emptied, restarted or replaced.
func (b *Buffer) write(ctx context.Context, timeout time.Duration, batch []entry) error {
	if len(batch) == 0 {
		return nil
	}
	redis, cancel := context.WithTimeout(ctx, timeout)
	err := b.toRedis(redis, batch)
	cancel()
	b.lost.Report(ctx, err)
	if err == nil {
		for _, e := range batch {
			e.slot.sent = e.at
		}
		return nil
	}
	if b.opts.Fallback == nil {
		return err
	}
	ctx, cancel = context.WithTimeout(ctx, timeout)
	defer cancel()
	if saveErr := b.toPostgreSQL(ctx, batch); saveErr != nil {
		return errors.Join(err, saveErr)
	}
	return nil
}

// entry has the times to be written for a workspace: its last use, and its last use by a person (0 if there was none).
// Both are in Unix milliseconds by this process's clock.
type entry struct {
	slot      *Slot
	at, input int64
}

// unsaved returns the times that PostgreSQL may not have yet.
func (b *Buffer) unsaved() []entry {
	var batch []entry
	for i := range b.parts {
		p := &b.parts[i]
		p.mu.RLock()
		for _, s := range p.slots {
			if at := s.last.Load(); at > s.saved {
				batch = append(batch, entry{s, at, min(s.input.Load(), at)})
			}
		}
		p.mu.RUnlock()
	}
	return batch
}

// chunk is how many workspaces one Redis command or one statement contains at most, because a longer one would delay
// all others.
const chunk = 1000

// toRedis sends the times in one pipeline, converted to the clock of the Redis server. The clocks of the processes
// differ. If one is slow and its times were not converted, workspaces would expire while they are in use.
func (b *Buffer) toRedis(ctx context.Context, batch []entry) error {
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
			members := make([]redis.Z, 0, 2*n)
			for _, e := range batch[:n] {
				members = append(members, redis.Z{Score: float64(e.at + offset), Member: string(e.slot.id)})
				if e.input > 0 {
					members = append(members, redis.Z{Score: float64(e.input + offset), Member: inputMember(e.slot.id)})
				}
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

// toPostgreSQL saves the times as ages, because only the database's clock decides what has expired, and this process's
// clock may differ from it.
func (b *Buffer) toPostgreSQL(ctx context.Context, batch []entry) error {
	for part := range slices.Chunk(batch, chunk) {
		now := b.opts.Now().UnixMilli()
		ages, inputs := make(map[workspace.ID]time.Duration, len(part)), make(map[workspace.ID]time.Duration)
		for _, e := range part {
			ages[e.slot.id] = time.Duration(now-e.at) * time.Millisecond
			if e.input > 0 {
				inputs[e.slot.id] = time.Duration(now-e.input) * time.Millisecond
			}
		}
		if err := b.opts.Fallback.TouchLastAccess(ctx, ages, inputs); err != nil {
			return fmt.Errorf("writing activity to PostgreSQL instead: %w", err)
		}
		for _, e := range part {
			e.slot.sent, e.slot.saved = e.at, e.at
		}
	}
	return nil
}

// retire frees the slots that have had no activity for [Options].Idle. A slot that is still held returns when it is
// touched.
func (b *Buffer) retire() {
	old := b.clock.Load() - b.opts.Idle.Milliseconds()
	for i := range b.parts {
		p := &b.parts[i]
		p.mu.Lock()
		for id, s := range p.slots {
			at := s.last.Load()
			// If the slot was touched in the meantime, the swap fails and the slot is kept.
			if at <= old && at == s.sent && s.last.CompareAndSwap(at, retired) {
				delete(p.slots, id)
			}
		}
		p.mu.Unlock()
	}
}

// tick updates the clock of the hot path, in Unix milliseconds.
func (b *Buffer) tick() { b.clock.Store(b.opts.Now().UnixMilli()) }

// part returns the part of a workspace's slot.
func (b *Buffer) part(id workspace.ID) *part {
	return &b.parts[maphash.String(b.seed, string(id))%shards]
}
