package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// balancer is a TCP proxy that gives several processes one address, as real installations do. It regularly asks each
// process whether it serves, and passes connections to the serving processes in turn. A suspended process keeps its
// connections.
type balancer struct {
	listener net.Listener
	backends []*balanced
	next     atomic.Uint64
	open     sync.WaitGroup
}

type balanced struct {
	address string
	up      atomic.Bool
}

const (
	// healthEvery is the time between two health checks of a process, and healthLimit bounds one check. Both are
	// shorter than in usual load balancers.
	healthEvery = 500 * time.Millisecond
	healthLimit = time.Second
)

// balance gives the processes at these ports one address. It ends with the test.
func balance(t *testing.T, ports []int) *balancer {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &balancer{listener: ln}
	ended := make(chan struct{})
	for _, port := range ports {
		one := &balanced{address: fmt.Sprintf("127.0.0.1:%d", port)}
		b.backends = append(b.backends, one)
		b.open.Go(func() { one.watch(ended) })
	}
	b.open.Go(b.serve)
	t.Cleanup(func() { close(ended); _ = ln.Close(); b.open.Wait() })
	return b
}

func (b *balancer) port() int { return b.listener.Addr().(*net.TCPAddr).Port }

// watch asks a process whether it serves, until ended is closed.
func (o *balanced) watch(ended <-chan struct{}) {
	client := http.Client{Timeout: healthLimit, Transport: &http.Transport{DisableKeepAlives: true}}
	tick := time.NewTicker(healthEvery)
	defer tick.Stop()
	for {
		res, err := client.Get("http://" + o.address + "/health")
		o.up.Store(err == nil && res.StatusCode == http.StatusOK)
		if err == nil {
			_ = res.Body.Close()
		}
		select {
		case <-tick.C:
		case <-ended:
			return
		}
	}
}

// serve takes connections until the listener is closed.
func (b *balancer) serve() {
	for {
		conn, err := b.listener.Accept()
		if err != nil {
			return
		}
		b.open.Go(func() { b.forward(conn) })
	}
}

// forward copies a connection to one of the processes and back.
func (b *balancer) forward(from net.Conn) {
	defer from.Close()
	to := b.dial()
	if to == nil {
		return
	}
	defer to.Close()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{to, from}, {from, to}} {
		both.Go(func() {
			_, err := io.Copy(way[0], way[1])
			if err != nil { // the other way ends, too
				_, _ = from.Close(), to.Close()
			}
			_ = way[0].(*net.TCPConn).CloseWrite() // fails if it is closed
		})
	}
	both.Wait()
}

// dial connects to the next process that serves, and returns nil if no process serves.
func (b *balancer) dial() net.Conn {
	for range b.backends {
		one := b.backends[b.next.Add(1)%uint64(len(b.backends))]
		if !one.up.Load() {
			continue
		}
		if conn, err := net.DialTimeout("tcp", one.address, healthLimit); err == nil {
			return conn
		}
		one.up.Store(false)
	}
	return nil
}
