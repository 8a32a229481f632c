package events_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/devenv/server"
	"github.com/codehub/gateway/coordinator/events"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

const (
	ws    = workspace.ID("00000000-0000-4000-8000-000000000001")
	other = workspace.ID("00000000-0000-4000-8000-000000000002")
	ann   = "00000000-0000-4000-8000-00000000a001"
	ben   = "00000000-0000-4000-8000-00000000b002"
)

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

// run runs a component until the test ends, and returns a function that stops it
// earlier.
func run(t *testing.T, f func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
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

func next(t *testing.T, c <-chan events.Event) events.Event {
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

func TestANotificationReachesTheStreamsOfItsOwnerOnly(t *testing.T) {
	client := connect(t, devenv.Redis(t))
	h := events.NewHub(client, events.Prefixes{}, zap.NewNop())
	c1, cancel := h.Subscribe(ann)
	defer cancel()
	run(t, h.Run)
	if e := next(t, c1); e.Type != events.Resync {
		t.Fatalf("the first event is %+v", e)
	}
	c2, cancel2 := h.Subscribe(ann)
	defer cancel2()
	b, cancel3 := h.Subscribe(ben)
	defer cancel3()
	p := events.NewPublisher(client, events.Prefixes{}, zap.NewNop())
	run(t, p.Run)

	p.Notify(store.Notification{Channel: store.ChannelSSE, WorkspaceID: ws, OwnerID: ann})
	p.Notify(store.Notification{Channel: store.ChannelRevoked, SessionID: "s"})
	p.Notify(store.Notification{Channel: store.ChannelDeleted, WorkspaceID: ws, OwnerID: ann})
	p.Notify(store.Notification{Channel: store.ChannelSSE, WorkspaceID: other, OwnerID: ben})
	for _, c := range []<-chan events.Event{c1, c2} {
		for _, want := range []events.Event{{Type: events.Updated, ID: ws}, {Type: events.Deleted, ID: ws}} {
			if e := next(t, c); e != want {
				t.Fatalf("got %+v, want %+v", e, want)
			}
		}
	}
	if e := next(t, b); e != (events.Event{Type: events.Updated, ID: other}) {
		t.Fatalf("the other user got %+v", e)
	}
	if p.Dropped() != 0 {
		t.Fatalf("%d dropped", p.Dropped())
	}
}

// What other programs read is a contract: channel names and payloads.
func TestWhatIsPublished(t *testing.T) {
	client := connect(t, devenv.Redis(t))
	sub := client.PSubscribe(t.Context(), "*")
	defer sub.Close()
	if _, err := sub.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	p := events.NewPublisher(client, events.Prefixes{Wake: "x:wake"}, zap.NewNop())
	run(t, p.Run)
	p.Notify(store.Notification{Channel: store.ChannelWake, WorkspaceID: ws, OwnerID: ann})
	p.Notify(store.Notification{Channel: store.ChannelSSE, WorkspaceID: ws, OwnerID: ann})
	p.Notify(store.Notification{Channel: store.ChannelDeleted, WorkspaceID: ws, OwnerID: ann})
	for _, want := range [][2]string{
		{"x:wake:ob", string(ws)},
		{"x:wake:wc", string(ws)},
		{"codehub:sse:" + ann, `{"type":"updated","id":"` + string(ws) + `"}`},
		{"codehub:sse:" + ann, `{"type":"updated","id":"` + string(ws) + `"}`},
		{"codehub:sse:" + ann, `{"type":"deleted","id":"` + string(ws) + `"}`},
	} {
		select {
		case m := <-sub.Channel():
			if m.Channel != want[0] || m.Payload != want[1] {
				t.Fatalf("published %s %s, want %s", m.Channel, m.Payload, want)
			}
		case <-time.After(wait.Timeout):
			t.Fatalf("%s is not published", want)
		}
	}
}

func TestWithoutRedisTheOwnListenerServes(t *testing.T) {
	dir, err := os.MkdirTemp("", "redis")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	start := func() *server.Redis {
		t.Helper()
		s, err := server.StartRedis(server.Storage{Dir: dir + "/data", Sockets: dir + "/run"})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := start()
	defer func() { _ = s.Stop() }()
	client := connect(t, s.URL())
	h := events.NewHub(client, events.Prefixes{}, zap.NewNop())
	c, cancel := h.Subscribe(ann)
	defer cancel()
	own := store.Notification{Channel: store.ChannelSSE, WorkspaceID: ws, OwnerID: ann}
	h.Notify(own) // before anything is known of Redis
	if e := next(t, c); e != (events.Event{Type: events.Updated, ID: ws}) {
		t.Fatalf("got %+v", e)
	}

	run(t, h.Run)
	next(t, c)    // Resync: Redis is there
	h.Notify(own) // Redis brings the same: not twice
	client.Publish(t.Context(), "codehub:sse:"+ann, "not an event")
	client.Publish(t.Context(), "codehub:sse:"+ann, `{"type":"deleted","id":"`+string(other)+`"}`)
	if e := next(t, c); e != (events.Event{Type: events.Deleted, ID: other}) {
		t.Fatalf("got %+v", e)
	}

	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if e := next(t, c); e.Type != events.Resync {
		t.Fatalf("when Redis stopped: %+v", e)
	}
	h.Notify(own)
	if e := next(t, c); e != (events.Event{Type: events.Updated, ID: ws}) {
		t.Fatalf("while Redis does not answer: %+v", e)
	}

	s = start()
	if e := next(t, c); e.Type != events.Resync {
		t.Fatalf("when Redis came back: %+v", e)
	}
	client.Publish(t.Context(), "codehub:sse:"+ann, `{"type":"deleted","id":"`+string(ws)+`"}`)
	if e := next(t, c); e != (events.Event{Type: events.Deleted, ID: ws}) {
		t.Fatalf("after Redis came back: %+v", e)
	}
}

func TestAStreamThatIsTooSlowEndsAndTheOthersContinue(t *testing.T) {
	h := events.NewHub(nil, events.Prefixes{}, zap.NewNop())
	slow, cancelSlow := h.Subscribe(ann)
	defer cancelSlow()
	quick, cancelQuick := h.Subscribe(ann)
	defer cancelQuick()
	n := store.Notification{Channel: store.ChannelSSE, WorkspaceID: ws, OwnerID: ann}
	for range 1000 {
		h.Notify(n)
		next(t, quick)
	}
	behind := 0
	for range slow {
		behind++
	}
	if behind == 0 || behind >= 1000 {
		t.Fatalf("the slow stream got %d events before it ended", behind)
	}
	if h.Subscribers() != 1 {
		t.Fatalf("%d streams are open", h.Subscribers())
	}
	cancelSlow()
	cancelSlow()
	cancelQuick()
	if _, ok := <-quick; ok || h.Subscribers() != 0 {
		t.Fatal("a cancelled stream is still open")
	}
}

func TestAReconnectedListenerResyncs(t *testing.T) {
	h := events.NewHub(nil, events.Prefixes{}, zap.NewNop())
	c, cancel := h.Subscribe(ann)
	defer cancel()
	h.Resync()
	if e := next(t, c); e.Type != events.Resync {
		t.Fatalf("got %+v", e)
	}
}

func TestStoppingEndsEveryStream(t *testing.T) {
	client := connect(t, devenv.Redis(t))
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	ignore := goleak.IgnoreCurrent()
	h := events.NewHub(client, events.Prefixes{}, zap.NewNop())
	c, cancel := h.Subscribe(ann)
	stop := run(t, h.Run)
	next(t, c) // Resync: now it waits for messages
	began := time.Now()
	stop()
	if d := time.Since(began); d > 3*time.Second {
		t.Errorf("stopping took %s: it waited for the silence to end", d)
	}
	for range c {
	}
	cancel()
	late, cancelLate := h.Subscribe(ann)
	if _, ok := <-late; ok {
		t.Fatal("a stream opens after the end")
	}
	cancelLate()
	goleak.VerifyNone(t, ignore)
}

func TestPublishingNeverBlocksAndLogsAnOutageOnce(t *testing.T) {
	dir, err := os.MkdirTemp("", "redis")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	s, err := server.StartRedis(server.Storage{Dir: dir + "/data", Sockets: dir + "/run"})
	if err != nil {
		t.Fatal(err)
	}
	client := connect(t, s.URL())
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan observer.LoggedEntry, 10)
	core, logs := observer.New(zap.InfoLevel)
	p := events.NewPublisher(client, events.Prefixes{}, zap.New(core, zap.Hooks(func(zapcore.Entry) error {
		for _, line := range logs.TakeAll() {
			lines <- line
		}
		return nil
	})))
	line := func() observer.LoggedEntry {
		t.Helper()
		select {
		case l := <-lines:
			return l
		case <-time.After(wait.Timeout):
			t.Fatal("nothing is logged")
		}
		panic("unreachable")
	}
	n := store.Notification{Channel: store.ChannelSSE, WorkspaceID: ws, OwnerID: ann}
	for range 10_000 { // nothing takes them yet
		p.Notify(n)
	}
	full := p.Dropped()
	if full == 0 || full >= 10_000 {
		t.Fatalf("%d dropped", full)
	}
	run(t, p.Run)
	first := line()
	if dropped := first.ContextMap()["dropped"].(int64); first.Level != zap.ErrorLevel || dropped <= full {
		t.Fatalf("the outage is logged as %v, after %d were dropped", first, full)
	}
	if s, err = server.StartRedis(server.Storage{Dir: dir + "/data", Sockets: dir + "/run"}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Stop() }()
	for len(lines) == 0 {
		p.Notify(n) // until one finds the server back
		if t.Context().Err() != nil {
			t.Fatal("nothing is published after the outage")
		}
	}
	if last := line(); last.Message != "events are published again" || last.ContextMap()["dropped"].(int64) <= full {
		t.Fatalf("the end of the outage is logged as %v", last)
	}
}
