package peer

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/codehub/gateway/coordinator/wait"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is an engine that answers every request with its id, and counts them.
type fake struct {
	*httptest.Server
	id           string
	infos, calls atomic.Int64
}

// newFake prepares an engine. info, unless nil, answers the question for the id.
func newFake(t *testing.T, id string, info http.HandlerFunc) *fake {
	t.Helper()
	f := &fake{id: id}
	f.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/id" {
			f.calls.Add(1)
			fmt.Fprint(w, f.id)
			return
		}
		f.infos.Add(1)
		if info != nil {
			info(w, r)
			return
		}
		fmt.Fprint(w, f.id)
	}))
	t.Cleanup(func() { f.Server.Close() })
	return f
}

// ask asks such an engine for its id.
func ask(_ context.Context, c net.Conn) (string, error) {
	req, err := http.NewRequest(http.MethodGet, "http://engine/id", nil)
	if err != nil {
		return "", err
	}
	resp, err := RoundTrip(c, req)
	if err != nil {
		return "", err
	}
	id, err := io.ReadAll(resp.Body)
	if err == nil && resp.Close {
		err = errors.New("one request only")
	}
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status)
	}
	return string(id), err
}

// caller is a client whose address leads to a replaceable engine.
type caller struct {
	t     *testing.T
	watch *Watcher
	http  http.Client
	clock atomic.Int64 // seconds
	url   string

	mu sync.Mutex
	to *fake
}

func newCaller(t *testing.T, to *fake) *caller {
	t.Helper()
	c := &caller{t: t, to: to, url: "http://engine/containers"}
	transport := &http.Transport{MaxIdleConnsPerHost: 8, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		c.mu.Lock()
		addr := c.to.Listener.Addr().String()
		c.mu.Unlock()
		return new(net.Dialer).DialContext(ctx, network, addr)
	}}
	if to.TLS != nil {
		pool := x509.NewCertPool()
		pool.AddCert(to.Certificate())
		c.url = "https://example.com/containers" // httptest's certificate is for this name
		transport.TLSClientConfig = &tls.Config{RootCAs: pool}
	}
	c.watch = New("engine", ask)
	c.watch.Attach(transport)
	c.watch.now = func() time.Time { return time.Unix(c.clock.Load(), 0) }
	c.http.Transport = transport
	t.Cleanup(transport.CloseIdleConnections)
	return c
}

// lead makes new connections lead to another engine.
func (c *caller) lead(to *fake) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.to = to
}

// get returns which engine answers a call.
func (c *caller) get() (string, error) {
	resp, err := c.http.Get(c.url)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}

func (c *caller) want(id string) {
	c.t.Helper()
	got, err := c.get()
	known, idErr := c.watch.ID()
	if err != nil || idErr != nil || got != id || known != id {
		c.t.Fatalf("engine %q (%v) answers, known is %q (%v); want %q", got, err, known, idErr, id)
	}
}

// wantChanged fails the test unless calls and ID both fail, with errors that name both engines.
func (c *caller) wantChanged(was, is string) {
	c.t.Helper()
	got, err := c.get()
	known, idErr := c.watch.ID()
	for _, err := range []error{err, idErr} {
		var changed *ChangedError
		if !errors.As(err, &changed) || changed.Was != was || changed.Is != is || !strings.Contains(err.Error(), is) {
			c.t.Fatalf("%v; want that %s was replaced by %s (answered: %q, known: %q)", err, was, is, got, known)
		}
	}
}

func started(f *fake) *fake { f.Start(); return f }

func TestNothingIsKnownBeforeTheFirstCall(t *testing.T) {
	a := started(newFake(t, "A", nil))
	c := newCaller(t, a)
	if id, err := c.watch.ID(); id != "" || err != nil {
		t.Errorf("before any call: %q, %v", id, err)
	}
	c.want("A")
}

func TestEachConnectionAsksOnce(t *testing.T) {
	a := started(newFake(t, "A", nil))
	c := newCaller(t, a)
	for range 5 {
		c.want("A")
	}
	if n := a.infos.Load(); n != 1 {
		t.Errorf("%d questions on one connection", n)
	}
	c.http.CloseIdleConnections()
	c.want("A")
	if n := a.infos.Load(); n != 2 {
		t.Errorf("%d questions on two connections", n)
	}
}

func TestTLS(t *testing.T) {
	a := newFake(t, "A", nil)
	a.StartTLS()
	c := newCaller(t, a)
	c.want("A")
	c.want("A")
	if n := a.infos.Load(); n != 1 {
		t.Errorf("%d questions on one connection", n)
	}
	unknown := newFake(t, "B", nil)
	unknown.StartTLS()
	c.http.CloseIdleConnections()
	bad := newCaller(t, unknown)
	bad.http.Transport.(*http.Transport).TLSClientConfig.RootCAs = x509.NewCertPool()
	if _, err := bad.get(); err == nil || unknown.infos.Load() != 0 {
		t.Errorf("an unknown certificate: %v", err)
	}
}

// A restarted engine keeps its id, in its data folder.
func TestTheSameEngineRestarted(t *testing.T) {
	a := started(newFake(t, "A", nil))
	c := newCaller(t, a)
	c.want("A")
	a.CloseClientConnections()
	again := started(newFake(t, "A", nil))
	c.lead(again)
	c.want("A")
	if again.calls.Load() != 1 {
		t.Error("the restarted engine was not asked")
	}
}

// TestAnotherEngineIsHeldOff: another engine gets no requests while a caller may still hold an answer of the previous
// one.
func TestAnotherEngineIsHeldOff(t *testing.T) {
	a, b := started(newFake(t, "A", nil)), started(newFake(t, "B", nil))
	c := newCaller(t, a)
	c.want("A")
	c.lead(b)
	c.want("A") // the connection still leads to A, and all answers come from A
	a.CloseClientConnections()
	c.wantChanged("A", "B")
	c.clock.Store(int64(Settle/time.Second) - 1)
	c.wantChanged("A", "B")
	if n := b.calls.Load(); n != 0 {
		t.Fatalf("the other engine got %d calls", n)
	}
	c.clock.Store(int64(Settle / time.Second))
	c.want("B")
}

// TestConnectionsToTheFormerEngineEnd: the address leads elsewhere, but the previous engine still runs. It answers no
// call from then on.
func TestConnectionsToTheFormerEngineEnd(t *testing.T) {
	hold, holding := make(chan struct{}), make(chan struct{})
	a, b := newFake(t, "A", nil), started(newFake(t, "B", nil))
	a.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/id" {
			fmt.Fprint(w, "A")
			return
		}
		holding <- struct{}{}
		<-hold
		fmt.Fprint(w, "A")
	})
	a.Start()
	c := newCaller(t, a)
	underway := make(chan error, 1)
	go func() { _, err := c.get(); underway <- err }()
	<-holding
	c.lead(b)
	c.wantChanged("A", "B") // its call needs a second connection
	if err := <-underway; err == nil {
		t.Error("the former engine's answer was used")
	}
	close(hold)
	c.clock.Store(int64(Settle / time.Second))
	c.want("B")
}

func TestTheFormerEngineComesBack(t *testing.T) {
	a, b := started(newFake(t, "A", nil)), started(newFake(t, "B", nil))
	c := newCaller(t, a)
	c.want("A")
	c.lead(b)
	a.CloseClientConnections()
	c.wantChanged("A", "B")
	c.lead(a)
	c.want("A")
	// The time after which B is accepted starts again.
	c.clock.Store(int64(Settle / time.Second))
	c.lead(b)
	a.CloseClientConnections()
	c.wantChanged("A", "B")
}

// TestAThirdEngine: an address that alternates between engines settles on none.
func TestAThirdEngine(t *testing.T) {
	a, b, d := started(newFake(t, "A", nil)), started(newFake(t, "B", nil)), started(newFake(t, "D", nil))
	c := newCaller(t, a)
	c.want("A")
	a.CloseClientConnections()
	for i, next := range []*fake{b, d, b, d} {
		c.lead(next)
		c.clock.Store(int64(i) * int64(Settle/time.Second))
		c.wantChanged("A", next.id)
	}
}

func TestAnEngineWhoseIDCannotBeHad(t *testing.T) {
	for name, info := range map[string]http.HandlerFunc{
		"a proxy forbids it": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "not you", http.StatusForbidden) },
		"it hangs up":        func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"one request only": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Connection", "close")
			fmt.Fprint(w, "A")
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := started(newFake(t, "A", info))
			c := newCaller(t, a)
			if _, err := c.get(); err == nil {
				t.Error("a call was answered")
			}
			if id, err := c.watch.ID(); id != "" || err != nil {
				t.Errorf("ID: %q, %v", id, err)
			}
			if a.calls.Load() != 0 {
				t.Error("an unknown engine got a call")
			}
		})
	}
}

// TestReconnects: the number grows with each connection that is made while there is no other one.
func TestReconnects(t *testing.T) {
	a := started(newFake(t, "A", nil))
	c := newCaller(t, a)
	for want := range uint64(3) {
		if got := c.watch.Reconnects(); got != want {
			t.Errorf("%d reconnects, want %d", got, want)
		}
		c.want("A")
		c.want("A")
		c.http.CloseIdleConnections()
		wait.Until(t, "no connection is left", func() bool {
			c.watch.mu.Lock()
			defer c.watch.mu.Unlock()
			return len(c.watch.conns) == 0
		})
	}
}

// TestAHungEngine: when the call that needs a connection is given up, the question on that connection is given up, too.
func TestAHungEngine(t *testing.T) {
	hung, end := make(chan struct{}), make(chan struct{})
	a := started(newFake(t, "A", func(_ http.ResponseWriter, r *http.Request) { hung <- struct{}{}; <-end }))
	c := newCaller(t, a)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		req, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://engine/x", nil)
		resp, err := c.http.Do(req)
		if err == nil {
			resp.Body.Close()
		}
		done <- err
	}()
	<-hung
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want %v", err, context.Canceled)
	}
	close(end)
}

// TestOneQuestionAtATime: all simultaneous connections become usable, and the engine never has two questions at once.
func TestOneQuestionAtATime(t *testing.T) {
	a := started(newFake(t, "A", nil))
	var asked, together atomic.Int64
	w := New("engine", func(ctx context.Context, c net.Conn) (string, error) {
		if asked.Add(1) > 1 {
			together.Add(1)
		}
		defer asked.Add(-1)
		return ask(ctx, c)
	})
	dial := w.Wrap(func(_ context.Context, network, _ string) (net.Conn, error) {
		return net.Dial(network, a.Listener.Addr().String())
	})
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			c, err := dial(t.Context(), "tcp", "")
			if err != nil {
				t.Error(err)
				return
			}
			c.Close()
		})
	}
	wg.Wait()
	if n := together.Load(); n != 0 || a.infos.Load() != 32 {
		t.Errorf("%d of %d questions were asked while another one was", n, a.infos.Load())
	}
	w.turn <- struct{}{} // like a question without an answer
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := dial(ended, "tcp", ""); !errors.Is(err, context.Canceled) {
		t.Errorf("while another question has no answer: %v", err)
	}
}

// TestManyAtOnce: after an engine has answered a call, ID never returns the id of another engine before Settle has
// passed.
func TestManyAtOnce(t *testing.T) {
	a, b := started(newFake(t, "A", nil)), started(newFake(t, "B", nil))
	c := newCaller(t, a)
	c.want("A")
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for range 50 {
				got, err := c.get()
				known, idErr := c.watch.ID()
				if err == nil && idErr == nil && got != known {
					t.Errorf("%s has answered, and %s is known", got, known)
				}
				if i == 0 {
					c.lead(b)
					c.http.CloseIdleConnections()
				}
			}
		})
	}
	wg.Wait()
	if b.calls.Load() != 0 {
		t.Error("the other engine got a call before its time")
	}
}
