package activity_test

import (
	"context"
	"errors"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/dataplane/activity"
	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// database records what a buffer writes to PostgreSQL. Package ttl tests the real one.
type database struct {
	mu    sync.Mutex
	err   error
	ages  map[workspace.ID]time.Duration
	input int // number of input ages received
	calls int // of TouchLastAccess
	due   time.Duration
	wrote int // calls of WriterFlushed
	gone  bool
}

func (d *database) TouchLastAccess(_ context.Context, ages, inputs map[workspace.ID]time.Duration) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls++
	if d.err == nil {
		if d.ages == nil {
			d.ages = make(map[workspace.ID]time.Duration)
		}
		maps.Copy(d.ages, ages)
		d.input += len(inputs)
	}
	return d.err
}

func (d *database) WriterFlushed(_ context.Context, node string, _, due time.Duration) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if node != "node" {
		return errors.New("another node")
	}
	d.due = due
	d.wrote++
	return d.err
}

func (d *database) WriterGone(context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gone = true
	return nil
}

func (d *database) written() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.wrote
}

// away returns a client of a Redis that does not exist.
func away(t *testing.T) *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func TestWhatRedisDoesNotTakeIsSavedOnceAndAsAges(t *testing.T) {
	c, d := newClock(time.Now()), new(database)
	b := activity.NewBuffer(away(t), activity.Options{Fallback: d, Node: "node", Now: c.now, Idle: time.Minute}, zap.NewNop())
	const n = 1500 // more than one statement takes
	for i := range n {
		b.Record(id(i))
	}
	c.move(5 * time.Second)
	flush(t, b)
	if len(d.ages) != n || d.ages[id(7)] != 5*time.Second || d.calls != 2 {
		t.Fatalf("%d ages in %d statements, the first %s old", len(d.ages), d.calls, d.ages[id(7)])
	}
	flush(t, b)
	if d.calls != 2 || d.written() != 2 {
		t.Errorf("%d statements and %d flushes: what is saved was saved again", d.calls, d.written())
	}
	c.move(2 * time.Minute)
	flush(t, b)
	if b.Len() != 0 {
		t.Errorf("%d slots stay in memory after their time", b.Len())
	}
}

func TestWhatNobodyTakesStaysAndIsNotReportedAsWritten(t *testing.T) {
	c, d := newClock(time.Now()), &database{err: errors.New("the disk is full")}
	b := activity.NewBuffer(away(t), activity.Options{Fallback: d, Node: "node", Now: c.now, Idle: time.Minute}, zap.NewNop())
	b.Record(id(1))
	c.move(time.Hour)
	if err := b.Flush(t.Context()); !errors.Is(err, d.err) {
		t.Fatalf("Flush returns %v", err)
	}
	if b.Len() != 1 || d.written() != 0 {
		t.Fatalf("%d slots, reported as written %d times", b.Len(), d.written())
	}
	d.err = nil
	flush(t, b)
	if d.ages[id(1)] != time.Hour || d.written() != 1 {
		t.Errorf("saved %v, reported %d times", d.ages, d.written())
	}
}

func TestAFlushPromisesTheNextOne(t *testing.T) {
	d := new(database)
	b := activity.NewBuffer(connect(t, devenv.Redis(t)), activity.Options{
		Fallback: d, Node: "node", Settings: activity.Settings{FlushInterval: time.Hour},
	}, zap.NewNop())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	wait.Until(t, "it reports before the first interval is over", func() bool { return d.written() == 1 })
	b.Set(activity.Settings{FlushInterval: 2 * time.Hour})
	wait.Until(t, "a new interval is promised at once", func() bool { return d.written() == 2 })
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if d.due < 4*time.Hour || d.due > 5*time.Hour || !d.gone || d.calls != 0 {
		t.Errorf("promised within %s, gone %v, %d statements", d.due, d.gone, d.calls)
	}
}
