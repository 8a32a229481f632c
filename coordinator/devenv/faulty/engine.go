package faulty

import (
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Engine is a proxy in front of a container engine, or of another server. It passes connections on, and can behave
// like an engine that restarts, hangs or is replaced.
type Engine struct {
	// Host is the proxy's address in the form of DOCKER_HOST.
	Host string

	mu    sync.Mutex
	flow  sync.Cond // signals changes of hung
	to    string
	hung  bool
	conns map[net.Conn]struct{}
	wg    sync.WaitGroup
}

// NewEngine puts a proxy in front of the engine at to, which has the form of DOCKER_HOST.
func NewEngine(t testing.TB, to string) *Engine {
	t.Helper()
	return Listen(t, "unix", filepath.Join(t.TempDir(), "p.sock"), to)
}

// Listen is [NewEngine] with the address at which the proxy listens.
func Listen(t testing.TB, network, address, to string) *Engine {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	p := &Engine{Host: network + "://" + l.Addr().String(), to: to, conns: make(map[net.Conn]struct{})}
	p.flow.L = &p.mu
	p.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.wg.Go(func() { p.serve(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		p.Hang(false)
		p.Cut()
		p.wg.Wait()
	})
	return p
}

// Address is the proxy's address without its network.
func (p *Engine) Address() string { _, address, _ := strings.Cut(p.Host, "://"); return address }

// serve passes one connection on.
func (p *Engine) serve(in net.Conn) {
	defer in.Close()
	p.mu.Lock()
	network, addr, _ := strings.Cut(p.to, "://")
	p.mu.Unlock()
	out, err := net.Dial(network, addr)
	if err != nil {
		return // the engine is away: the connection ends at once
	}
	defer out.Close()
	p.mu.Lock()
	p.conns[in], p.conns[out] = struct{}{}, struct{}{}
	p.mu.Unlock()
	var wg sync.WaitGroup
	for from, to := range map[net.Conn]net.Conn{in: out, out: in} {
		wg.Go(func() {
			_, _ = io.Copy(to, waiting{p, from})
			in.Close()
			out.Close()
		})
	}
	wg.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, in)
	delete(p.conns, out)
}

// waiting reads from a connection unless the proxy hangs.
type waiting struct {
	p *Engine
	net.Conn
}

func (w waiting) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	w.p.mu.Lock()
	defer w.p.mu.Unlock()
	for w.p.hung {
		w.p.flow.Wait()
	}
	return n, err
}

// Hang makes the engine silent: connections are accepted, and nothing comes back.
func (p *Engine) Hang(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hung = on
	p.flow.Broadcast()
}

// Cut ends all connections, as a stopping engine does.
func (p *Engine) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
}

// Lead makes new connections lead to another engine.
func (p *Engine) Lead(to string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.to = to
}
