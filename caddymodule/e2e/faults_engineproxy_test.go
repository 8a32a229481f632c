package e2e

import (
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// proxy passes connections on to an engine, and does to them what happens to an engine
// that restarts, hangs or is replaced.
type engineProxy struct {
	listener net.Listener
	host     string // in the form of DOCKER_HOST

	mu    sync.Mutex
	flow  sync.Cond // signals changes of hung
	to    string
	hung  bool
	conns map[net.Conn]struct{}
	wg    sync.WaitGroup
}

func inFrontOfEngine(t *testing.T, to string) *engineProxy {
	t.Helper()
	path := filepath.Join(t.TempDir(), "p.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	p := &engineProxy{listener: l, host: "unix://" + path, to: to, conns: make(map[net.Conn]struct{})}
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
		p.hang(false)
		p.cut()
		p.wg.Wait()
	})
	return p
}

// serve passes one connection on.
func (p *engineProxy) serve(in net.Conn) {
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
			_, _ = io.Copy(to, held{p, from})
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

// held reads from a connection unless the proxy hangs.
type held struct {
	p *engineProxy
	net.Conn
}

func (w held) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	w.p.mu.Lock()
	defer w.p.mu.Unlock()
	for w.p.hung {
		w.p.flow.Wait()
	}
	return n, err
}

// hang makes the engine silent: connections are accepted, and nothing comes back.
func (p *engineProxy) hang(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hung = on
	p.flow.Broadcast()
}

// cut ends all connections, as an engine does that stops.
func (p *engineProxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
}
