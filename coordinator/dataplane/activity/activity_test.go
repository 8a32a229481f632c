package activity_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/dataplane/activity"
	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/metrics"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

func connect(t testing.TB, url string) *redis.Client {
	t.Helper()
	opts, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(opts)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func id(n int) workspace.ID {
	return workspace.ID(fmt.Sprintf("00000000-0000-4000-8000-%012x", n))
}

// clock is a clock that the test moves.
type clock struct{ ms atomic.Int64 }

func newClock(at time.Time) *clock {
	c := &clock{}
	c.ms.Store(at.UnixMilli())
	return c
}
func (c *clock) now() time.Time        { return time.UnixMilli(c.ms.Load()) }
func (c *clock) move(by time.Duration) { c.ms.Add(by.Milliseconds()) }

func flush(t testing.TB, b *activity.Buffer) {
	t.Helper()
	if err := b.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, l *activity.Log) map[workspace.ID]time.Time {
	t.Helper()
	seen, err := l.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return seen.At
}

// near fails the test unless at is about now. It allows for the difference that two clocks may have.
func near(t testing.TB, at time.Time) {
	t.Helper()
	if d := time.Since(at).Abs(); d > 20*time.Second {
		t.Fatalf("time of activity is %s, %s from now", at, d)
	}
}

func TestWhatIsRecordedIsFlushed(t *testing.T) {
	client := connect(t, devenv.Redis(t))
	b := activity.NewBuffer(client, activity.Options{}, zap.NewNop())
	const n = 2500 // more than one ZADD takes
	for i := range n {
		b.Record(id(i))
	}
	b.Slot(id(n)) // held but never touched: no activity
	flush(t, b)
	seen := read(t, activity.NewLog(client, ""))
	if len(seen) != n {
		t.Fatalf("%d workspaces are in redis, want %d", len(seen), n)
	}
	for _, at := range seen {
		near(t, at)
	}
}

// TestInputIsToldFromOtherUse: the last use by a person has a time of its own. It is removed together with the time of
// the last use of any kind.
func TestInputIsToldFromOtherUse(t *testing.T) {
	client := connect(t, devenv.Redis(t))
	c := newClock(time.Now())
	b := activity.NewBuffer(client, activity.Options{Now: c.now}, zap.NewNop())
	b.Slot(id(1)).Touch(metrics.ByInput)
	c.move(time.Minute)
	flush(t, b) // renews the clock
	b.Slot(id(1)).Touch(metrics.ByProgram)
	b.Slot(id(2)).Touch(metrics.ByMessage)
	flush(t, b)
	log := activity.NewLog(client, "")
	got, err := log.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(got.At) != 2 || len(got.Input) != 1 || got.At[id(1)].Sub(got.Input[id(1)]).Round(time.Second) != time.Minute {
		t.Errorf("%+v", got)
	}
	if err := log.Remove(t.Context(), got.At, got.Input); err != nil {
		t.Fatal(err)
	}
	if left, err := log.Read(t.Context()); err != nil || len(left.At)+len(left.Input) != 0 {
		t.Errorf("%+v are left, %v", left, err)
	}
}

func TestOlderActivityNeverReplacesNewer(t *testing.T) {
	client := connect(t, devenv.Redis(t))
	log := activity.NewLog(client, "")
	b := activity.NewBuffer(client, activity.Options{}, zap.NewNop())
	b.Record(id(1))
	newer := time.Now().Add(time.Hour).UnixMilli()
	if err := client.ZAdd(t.Context(), activity.DefaultKey, redis.Z{Score: float64(newer), Member: string(id(1))}).Err(); err != nil {
		t.Fatal(err)
	}
	flush(t, b)
	if at := read(t, log)[id(1)]; at.UnixMilli() != newer {
		t.Fatalf("time of activity went back to %s", at)
	}
}

func TestAClockThatIsWrongDoesNotMatter(t *testing.T) {
	for _, skew := range []time.Duration{-3 * time.Hour, 3 * time.Hour} {
		client := connect(t, devenv.Redis(t))
		b := activity.NewBuffer(client, activity.Options{
			Now: func() time.Time { return time.Now().Add(skew) },
		}, zap.NewNop())
		b.Record(id(1))
		flush(t, b)
		near(t, read(t, activity.NewLog(client, ""))[id(1)])
	}
}

func TestTheTimeOfActivityIsKeptNotTheTimeOfTheFlush(t *testing.T) {
	client := connect(t, devenv.Redis(t))
	c := newClock(time.Now().Add(-time.Hour))
	b := activity.NewBuffer(client, activity.Options{Now: c.now}, zap.NewNop())
	b.Record(id(1))
	c.move(time.Hour)
	flush(t, b)
	at := read(t, activity.NewLog(client, ""))[id(1)]
	near(t, at.Add(time.Hour))
}

func TestNothingIsDroppedWhileRedisIsAway(t *testing.T) {
	url, stop, start := devenv.RestartableRedis(t)
	client := connect(t, url)
	log := activity.NewLog(client, "")
	c := newClock(time.Now())
	b := activity.NewBuffer(client, activity.Options{Now: c.now, Idle: time.Millisecond}, zap.NewNop())
	b.Record(id(1))
	stop()
	for i := 2; i <= 4; i++ {
		b.Record(id(i))
		if err := b.Flush(t.Context()); err == nil {
			t.Fatal("flushing to a server that does not answer succeeds")
		}
		c.move(time.Minute)
	}
	if _, err := log.Read(t.Context()); err == nil {
		t.Fatal("reading from a server that does not answer succeeds")
	}
	start()
	// After it has failed to dial as often as it may have connections, the client dials only once a second.
	wait.For(t, "redis is used again", func() error { return b.Flush(t.Context()) })
	if seen := read(t, log); len(seen) != 4 {
		t.Fatalf("redis has %v, want all four workspaces", seen)
	}
}

func TestIdleSlotsAreFreedAndReturnWhenTouched(t *testing.T) {
	client := connect(t, devenv.Redis(t))
	log := activity.NewLog(client, "")
	c := newClock(time.Now())
	b := activity.NewBuffer(client, activity.Options{Now: c.now, Idle: time.Minute}, zap.NewNop())
	held, other := b.Slot(id(1)), b.Slot(id(1))
	held.Touch(metrics.ByMessage)
	b.Record(id(2))
	flush(t, b)
	c.move(30 * time.Second)
	flush(t, b)
	if n := b.Len(); n != 2 {
		t.Fatalf("%d slots before their time, want 2", n)
	}
	c.move(31 * time.Second)
	flush(t, b)
	if n := b.Len(); n != 0 {
		t.Fatalf("%d slots after a minute of silence, want none", n)
	}
	if err := log.Remove(t.Context(), read(t, log), nil); err != nil {
		t.Fatal(err)
	}
	// Both holders touch the slot that they hold, and before that a request records activity through the buffer.
	b.Record(id(1))
	flush(t, b)
	for _, s := range []*activity.Slot{held, other} {
		if err := log.Remove(t.Context(), read(t, log), nil); err != nil {
			t.Fatal(err)
		}
		c.move(time.Second)
		flush(t, b) // renews the clock
		s.Touch(metrics.ByMessage)
		flush(t, b)
		if seen := read(t, log); len(seen) != 1 {
			t.Fatalf("after a holder's touch redis has %v", seen)
		}
	}
	if n := b.Len(); n != 1 {
		t.Fatalf("%d slots of one workspace", n)
	}
}

func TestStoppingFlushes(t *testing.T) {
	client := connect(t, devenv.Redis(t))
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	ignore := goleak.IgnoreCurrent()
	b := activity.NewBuffer(client, activity.Options{Settings: activity.Settings{FlushInterval: time.Hour}}, zap.NewNop())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	b.Record(id(1))
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	near(t, read(t, activity.NewLog(client, ""))[id(1)])
	wait.NoGoroutines(t, ignore)
}

func TestRunFlushesByItself(t *testing.T) {
	client := connect(t, devenv.Redis(t))
	b := activity.NewBuffer(client, activity.Options{Settings: activity.Settings{FlushInterval: time.Hour}}, zap.NewNop())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	b.Record(id(1))
	b.Set(activity.Settings{FlushInterval: time.Millisecond})
	for len(read(t, activity.NewLog(client, ""))) == 0 {
		if t.Context().Err() != nil {
			t.Fatal("the buffer does not flush")
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestStoppingDoesNotWaitForARedisThatIsAway(t *testing.T) {
	url, stop, _ := devenv.RestartableRedis(t)
	stop()
	b := activity.NewBuffer(connect(t, url), activity.Options{}, zap.NewNop())
	b.Record(id(1))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Run(ctx); err == nil || !strings.Contains(err.Error(), "last activity") {
		t.Fatalf("Run returns %v, and so does not say that activity was lost", err)
	}
}

func TestOnlyWhatHasNotMovedIsRemoved(t *testing.T) {
	client := connect(t, devenv.Redis(t))
	log := activity.NewLog(client, "")
	base := time.Now().UnixMilli()
	for i := range 2500 {
		if err := client.ZAdd(t.Context(), activity.DefaultKey,
			redis.Z{Score: float64(base + int64(i)), Member: string(id(i))}).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if err := client.ZAdd(t.Context(), activity.DefaultKey, redis.Z{Score: 1, Member: "not an id"}).Err(); err != nil {
		t.Fatal(err)
	}
	seen := read(t, log)
	if len(seen) != 2500 {
		t.Fatalf("read %d entries", len(seen))
	}
	// After Read and before Remove, one time changes, one is added and one is removed.
	moved, added, gone := id(7), id(9000), id(8)
	client.ZAdd(t.Context(), activity.DefaultKey, redis.Z{Score: float64(base + 60_000), Member: string(moved)})
	client.ZAdd(t.Context(), activity.DefaultKey, redis.Z{Score: float64(base), Member: string(added)})
	client.ZRem(t.Context(), activity.DefaultKey, string(gone))
	if err := log.Remove(t.Context(), seen, nil); err != nil {
		t.Fatal(err)
	}
	left := read(t, log)
	if len(left) != 2 || left[moved].UnixMilli() != base+60_000 || left[added].UnixMilli() != base {
		t.Fatalf("left in redis: %v", left)
	}
}

func TestSettingsAreValidatedUnderTheirOptionsName(t *testing.T) {
	if err := activity.DefaultSettings().Validate(); err != nil {
		t.Error(err)
	}
	for _, d := range []time.Duration{0, -time.Second} {
		if err := (activity.Settings{FlushInterval: d}).Validate(); err == nil || !strings.HasPrefix(err.Error(), "activity_flush_interval: ") {
			t.Errorf("%s: %v", d, err)
		}
	}
}

func TestRecordingAllocatesNothing(t *testing.T) {
	b := activity.NewBuffer(nil, activity.Options{}, zap.NewNop())
	b.Record(id(1))
	slot, ws := b.Slot(id(1)), id(1)
	if n := testing.AllocsPerRun(1000, func() { b.Record(ws); slot.Touch(metrics.ByMessage) }); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

func BenchmarkRecord(b *testing.B) {
	buffer := activity.NewBuffer(nil, activity.Options{}, zap.NewNop())
	ids := make([]workspace.ID, 1024)
	for i := range ids {
		ids[i] = id(i)
	}
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		for i := 0; p.Next(); i++ {
			buffer.Record(ids[i%len(ids)])
		}
	})
}

func BenchmarkTouch(b *testing.B) {
	slot := activity.NewBuffer(nil, activity.Options{}, zap.NewNop()).Slot(id(1))
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			slot.Touch(metrics.ByMessage)
		}
	})
}
