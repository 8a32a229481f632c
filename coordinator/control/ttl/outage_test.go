package ttl_test

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/codehub/gateway/coordinator/dataplane/activity"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/storetest"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// gateway is a process that records activity. Its clock may be wrong.
type gateway struct {
	*activity.Buffer
	t     *testing.T
	store *store.Store
	logs  *observer.ObservedLogs
}

// gateway adds a process with its own connections, including its own Redis client.
func (h *harness) gateway(node string, client *redis.Client, change ...func(*activity.Options)) *gateway {
	h.t.Helper()
	core, logs := observer.New(zap.InfoLevel)
	g := &gateway{t: h.t, store: storetest.Reopen(h.t, h.store), logs: logs}
	o := activity.Options{Fallback: g.store, Node: node}
	for _, f := range change {
		f(&o)
	}
	g.Buffer = activity.NewBuffer(client, o, zap.New(core))
	return g
}

func (g *gateway) flush() {
	g.t.Helper()
	if err := g.Flush(g.t.Context()); err != nil {
		g.t.Fatal(err)
	}
}

// use records a use now and writes it, as a process does with its next flush.
func (g *gateway) use(id workspace.ID) {
	g.t.Helper()
	g.Record(id)
	g.flush()
}

// lines returns the messages that the process has logged.
func (g *gateway) lines() (messages []string) {
	for _, l := range g.logs.All() {
		messages = append(messages, l.Message)
	}
	return messages
}

// config sets a setting of redis.
func (h *harness) config(name, value string) {
	h.t.Helper()
	if err := h.redis.ConfigSet(h.t.Context(), name, value).Err(); err != nil {
		h.t.Fatal(err)
	}
}

// settle does two ticks with a flush of each process in between, because after the first tick the runner waits for one
// more flush of each.
func (h *harness) settle(gateways ...*gateway) {
	h.t.Helper()
	h.tick()
	for _, g := range gateways {
		g.flush()
	}
	h.tick()
}

// refusals are the cases in which Redis answers but accepts no write. Each returns a function that ends it.
var refusals = map[string]func(*harness) (end func()){
	"out of memory": func(h *harness) func() {
		h.config("maxmemory-policy", "noeviction")
		h.config("maxmemory", "1")
		return func() { h.config("maxmemory", "0") }
	},
	"read-only": func(h *harness) func() {
		set := func(host, port string) {
			if err := h.redis.ReplicaOf(h.t.Context(), host, port).Err(); err != nil {
				h.t.Fatal(err)
			}
		}
		set("127.0.0.1", "1")
		return func() { set("NO", "ONE") }
	},
	"cannot save": func(h *harness) func() {
		dir := h.redis.ConfigGet(h.t.Context(), "dir").Val()["dir"]
		obstacle := filepath.Join(dir, "dump.rdb")
		if err := os.Mkdir(obstacle, 0o700); err != nil {
			h.t.Fatal(err)
		}
		h.config("save", "3600 100000")
		failing := func() bool {
			return strings.Contains(h.redis.Info(h.t.Context(), "persistence").Val(), "rdb_last_bgsave_status:err")
		}
		_ = h.redis.BgSave(h.t.Context())
		wait.Until(h.t, "redis has failed to save", failing)
		return func() {
			if err := os.Remove(obstacle); err != nil {
				h.t.Fatal(err)
			}
			_ = h.redis.BgSave(h.t.Context())
			wait.Until(h.t, "redis has saved", func() bool { return !failing() })
		}
	},
}

func TestARedisThatRefusesWritesPutsNobodyToSleepWhoWorks(t *testing.T) {
	for name, refuse := range refusals {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			g := h.gateway("one", h.redis)
			g.flush()
			h.settle(g)
			used := h.insert(row{phase: workspace.PhaseRunning, accessed: time.Hour, changed: time.Hour})
			unused := h.insert(row{phase: workspace.PhaseRunning, accessed: time.Hour, changed: time.Hour})
			end := refuse(h)
			if err := h.redis.ZAdd(t.Context(), "x", redis.Z{Member: "x"}).Err(); err == nil {
				t.Fatal("redis takes writes")
			}
			g.use(used)
			g.use(used)
			h.tick()
			h.wants(used, workspace.DesiredRunning)
			h.wants(unused, workspace.DesiredStandby) // enough is known to judge it
			if lines := g.lines(); len(lines) != 1 || !strings.Contains(lines[0], "redis takes no activity") {
				t.Errorf("logged %q", lines)
			}
			end()
			g.use(used)
			if h.left() == 0 {
				t.Error("redis takes writes again and gets nothing")
			}
			if lines := g.lines(); len(lines) != 2 || !strings.Contains(lines[1], "again") {
				t.Errorf("logged %q", lines)
			}
			h.tick()
			h.wants(used, workspace.DesiredRunning)
		})
	}
}

// cable is a connection to Redis that can be cut without either end noticing.
type cable struct {
	gate sync.RWMutex // held for writing while cut
	addr string
}

func lay(t *testing.T, socket string) *cable {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cable{addr: l.Addr().String()}
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("unix", socket)
			if err != nil {
				near.Close()
				continue
			}
			stop := context.AfterFunc(ctx, func() { near.Close(); far.Close() })
			all.Go(func() { defer stop(); defer far.Close(); c.carry(near, far) })
			all.Go(func() { defer near.Close(); c.carry(far, near) })
		}
	})
	t.Cleanup(func() { cancel(); l.Close(); all.Wait() })
	return c
}

// carry copies in one direction while the cable is not cut.
func (c *cable) carry(from io.Reader, to io.Writer) {
	buf := make([]byte, 4096)
	for {
		n, err := from.Read(buf)
		c.gate.RLock()
		if n > 0 {
			_, _ = to.Write(buf[:n])
		}
		c.gate.RUnlock()
		if err != nil {
			return
		}
	}
}

func TestOneOfTwoGatewaysIsCutOffFromRedis(t *testing.T) {
	h := newHarness(t)
	socket := h.redis.Options().Addr
	c := lay(t, socket)
	behind := redis.NewClient(&redis.Options{Addr: c.addr, ReadTimeout: time.Second, MaxRetries: -1}) // even a busy machine answers within that time
	t.Cleanup(func() { _ = behind.Close() })
	cut, whole := h.gateway("cut", behind), h.gateway("whole", h.redis)
	cut.flush()
	whole.flush()
	h.settle(cut, whole)
	one := h.insert(row{phase: workspace.PhaseRunning, accessed: time.Hour, changed: time.Hour})
	two := h.insert(row{phase: workspace.PhaseRunning, accessed: time.Hour, changed: time.Hour})
	unused := h.insert(row{phase: workspace.PhaseRunning, accessed: time.Hour, changed: time.Hour})
	c.gate.Lock()
	cut.use(one)
	whole.use(two)
	h.tick()
	c.gate.Unlock()
	h.wants(one, workspace.DesiredRunning)
	h.wants(two, workspace.DesiredRunning)
	h.wants(unused, workspace.DesiredStandby)
	if lines := cut.lines(); len(lines) != 1 {
		t.Errorf("the one that is cut off logged %q", lines)
	}
	if lines := whole.lines(); len(lines) != 0 {
		t.Errorf("the other one logged %q", lines)
	}
}

// cutOff is PostgreSQL, which one process may not reach.
type cutOff struct {
	activity.Fallback
	away atomic.Bool
}

func (c *cutOff) TouchLastAccess(ctx context.Context, ages, inputs map[workspace.ID]time.Duration) error {
	if c.away.Load() {
		return os.ErrDeadlineExceeded
	}
	return c.Fallback.TouchLastAccess(ctx, ages, inputs)
}

func (c *cutOff) WriterFlushed(ctx context.Context, node string, age, due time.Duration) error {
	if c.away.Load() {
		return os.ErrDeadlineExceeded
	}
	return c.Fallback.WriterFlushed(ctx, node, age, due)
}

// restartable replaces the harness's Redis with one that can be stopped and started again.
func (h *harness) restartable() (stop, start func()) {
	h.t.Helper()
	url, stop, start := devenv.RestartableRedis(h.t)
	options, err := redis.ParseURL(url)
	if err != nil {
		h.t.Fatal(err)
	}
	options.MaxRetries = -1
	h.redis = redis.NewClient(options)
	h.t.Cleanup(func() { _ = h.redis.Close() })
	h.Runner = h.runner(service.New(h.store, service.Options{Logger: zap.NewNop()}))
	return stop, start
}

// Redis was down for longer than the TTL, and one process could not reach PostgreSQL either. When both are back, the
// TTL runner does a tick before any process has flushed.
func TestAfterAnOutageNothingIsJudgedBeforeEveryProcessHasFlushed(t *testing.T) {
	h := newHarness(t)
	stop, start := h.restartable()
	database := &cutOff{}
	g := h.gateway("slow", h.redis, func(o *activity.Options) { database.Fallback = o.Fallback; o.Fallback = database })
	other := h.gateway("other", h.redis)
	g.flush()
	other.flush()
	h.settle(g, other)
	id := h.insert(row{phase: workspace.PhaseRunning, accessed: time.Hour, changed: time.Hour})
	stop()
	database.away.Store(true)
	g.Record(id)
	if err := g.Flush(t.Context()); err == nil {
		t.Fatal("a process that reaches no server says that it has written")
	}
	if err := h.Tick(t.Context()); err == nil {
		t.Fatal("the runner does not notice that redis is away")
	}
	start()
	database.away.Store(false)
	h.tick()
	h.wants(id, workspace.DesiredRunning)
	other.flush()
	h.tick()
	h.wants(id, workspace.DesiredRunning)
	g.flush()
	h.tick()
	h.wants(id, workspace.DesiredRunning)
	if d := h.idle(id); d > time.Minute {
		t.Errorf("it was used %s ago, according to the database", d)
	}
}

func TestARedisThatWasEmptiedGetsEverythingAgainBeforeAnybodyIsJudged(t *testing.T) {
	for name, empty := range map[string]func(*harness) error{
		"emptied":     func(h *harness) error { return h.redis.FlushAll(h.t.Context()).Err() },
		"key gone":    func(h *harness) error { return h.redis.Del(h.t.Context(), activity.DefaultKey).Err() },
		"another one": func(h *harness) error { return h.redis.Do(h.t.Context(), "SWAPDB", 0, 1).Err() },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			g := h.gateway("one", h.redis)
			g.flush()
			h.settle(g)
			id := h.insert(row{phase: workspace.PhaseRunning, accessed: time.Hour, changed: time.Hour})
			unused := h.insert(row{phase: workspace.PhaseRunning, accessed: time.Hour, changed: time.Hour})
			g.use(id)
			if err := empty(h); err != nil {
				t.Fatal(err)
			}
			h.tick()
			h.wants(id, workspace.DesiredRunning)
			h.tick()
			h.wants(id, workspace.DesiredRunning)
			g.flush() // it was not used since
			h.tick()
			h.wants(id, workspace.DesiredRunning)
			h.wants(unused, workspace.DesiredStandby)
		})
	}
}
