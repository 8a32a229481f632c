package events_test

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/codehub/gateway/coordinator/dataplane/changes"
	"github.com/codehub/gateway/coordinator/dataplane/events"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/storetest"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// installation is a database and a Redis, with a program that listens to everything published.
type installation struct {
	*testing.T
	store *store.Store
	redis *redis.Client
	owner string
	logs  *observer.ObservedLogs
	log   *zap.Logger

	mu       sync.Mutex
	messages map[string]int // by "channel payload"
}

func newInstallation(t *testing.T, redisURL string) *installation {
	t.Helper()
	core, logs := observer.New(zap.InfoLevel)
	in := &installation{T: t, store: storetest.Open(t), redis: connect(t, redisURL), messages: map[string]int{}, logs: logs, log: zap.New(core)}
	in.owner = storetest.AddUser(t, in.store)
	in.listen()
	return in
}

func connect(t *testing.T, url string) *redis.Client {
	t.Helper()
	opts, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(opts)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// listen starts a program that counts messages, and waits until it has subscribed.
func (in *installation) listen() {
	in.Helper()
	sub := in.redis.PSubscribe(in.Context(), "codehub:*")
	wait.For(in, "the program is subscribed", func() error { _, err := sub.Receive(in.Context()); return err })
	messages := sub.Channel(redis.WithChannelSize(10_000))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for m := range messages {
			in.mu.Lock()
			in.messages[m.Channel+" "+m.Payload]++
			in.mu.Unlock()
		}
	}()
	in.Cleanup(func() { _ = sub.Close(); <-done })
}

// create adds a sleeping workspace of the owner.
func (in *installation) create() workspace.ID {
	in.Helper()
	id := workspace.ID(uuid.NewString())
	if _, _, err := in.store.Create(in.Context(), workspace.Workspace{
		ID: id, OwnerID: in.owner, Name: "one", InstanceBackend: "docker", StorageBackend: "docker",
	}, "test", store.Limits{}); err != nil {
		in.Fatal(err)
	}
	storetest.Set(in, in.store, id, "phase = 'ARCHIVED', desired_state = 'ARCHIVED'")
	return id
}

// updates returns how often the update of a workspace was published.
func (in *installation) updates(id workspace.ID) int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.messages[in.update(id)]
}

func (in *installation) update(id workspace.ID) string {
	return "codehub:sse:" + in.owner + ` {"type":"updated","id":"` + string(id) + `"}`
}

func (in *installation) awaitUpdate(id workspace.ID) {
	in.Helper()
	wait.Until(in, "the update of "+string(id)+" is published", func() bool { return in.updates(id) > 0 })
}

// process is a process with a feed, and a publisher that runs while the process leads.
type process struct {
	*events.Publisher
	feed *changes.Feed
	stop func()
}

func (in *installation) process(o changes.Options) *process {
	in.Helper()
	p := &process{Publisher: events.NewPublisher(in.redis, in.store, events.Prefixes{}, in.log)}
	p.feed = changes.New(in.store, o, zap.NewNop())
	p.feed.Subscribe(p.Publisher)
	p.stop = run(in.T, p.feed.Run)
	return p
}

// quick finds changes by polling, and soon forgets that it has passed them on. The window must cover the time that a busy machine
// needs for a commit, or changes would be lost.
var quick = changes.Options{Poll: 5 * time.Millisecond, Window: time.Second}

// lead runs the publisher, and returns when it has read its cursor.
func (in *installation) lead(p *process) (resign func()) {
	in.Helper()
	resign = run(in.T, p.Run)
	wait.Until(in, "the publisher has its cursor", func() bool { return p.Cursor() > 0 })
	return resign
}

// awaitSettled waits until the process has passed on everything.
func (in *installation) awaitSettled(p *process) {
	in.Helper()
	wait.For(in, "the feed has passed on everything", func() error {
		position, err := in.store.Position(in.Context())
		if err == nil && p.Settled() < position.Revision {
			err = fmt.Errorf("settled up to %d of %d", p.Settled(), position.Revision)
		}
		return err
	})
}

// wire makes pipelines fail, and counts what was published anyway.
type wire struct {
	mu        sync.Mutex
	fail      func(n int) (before, after error) // for the n-th pipeline
	pipelines int
	published map[string]int // by "channel payload"
}

func (w *wire) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (w *wire) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (w *wire) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		w.mu.Lock()
		w.pipelines++
		var before, after error
		if w.fail != nil {
			before, after = w.fail(w.pipelines)
		}
		w.mu.Unlock()
		err := before
		if err == nil {
			err = next(ctx, commands)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, c := range commands {
			if err == nil && c.Err() == nil && c.Name() == "publish" {
				w.published[fmt.Sprintf("%s %s", c.Args()[1], c.Args()[2])]++
			}
			if e := cmp.Or(before, after); e != nil {
				c.SetErr(e)
			}
		}
		return cmp.Or(err, after)
	}
}

// wired puts a wire between the publishers and Redis. The listening program keeps its own client.
func (in *installation) wired(url string) *wire {
	w := &wire{published: map[string]int{}}
	in.redis = connect(in.T, url)
	in.redis.AddHook(w)
	return w
}

func (w *wire) set(fail func(int) (before, after error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fail = fail
}

// run runs a component until the test ends. It returns a function that stops the component earlier.
func run(t *testing.T, f func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f(ctx); close(done) }()
	stop = func() {
		t.Helper()
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("Run returns %v", err)
			}
		case <-time.After(wait.Timeout):
			t.Fatal("Run does not return")
		}
	}
	t.Cleanup(stop)
	return stop
}

func next(t *testing.T, c <-chan events.Change) events.Change {
	t.Helper()
	select {
	case e, ok := <-c:
		if !ok {
			t.Fatal("the stream has ended")
		}
		return e
	case <-time.After(wait.Timeout):
		t.Fatal("no event arrives")
	}
	panic("unreachable")
}
