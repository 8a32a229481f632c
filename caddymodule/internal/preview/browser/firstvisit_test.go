package browser

import (
	"fmt"
	"net"
	"sync"
	"testing"
	"time"
)

// slow is the rate of a slow network, in bytes per second. firstVisit is how long the transfers of a first visit may
// take in such a network.
const (
	slow       = 50_000
	firstVisit = 3 * time.Second // leaves one second for everything but the transfers
)

// network is a listener whose connections can be limited to the rate of a slow network.
type network struct {
	net.Listener
	mu   sync.Mutex
	slow bool
	sent int
}

// Accept implements [net.Listener].
func (n *network) Accept() (net.Conn, error) {
	c, err := n.Listener.Accept()
	return &connection{c, n}, err
}

// begin limits the rate and starts counting.
func (n *network) begin() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.slow, n.sent = true, 0
}

// count returns the number of bytes sent since begin.
func (n *network) count() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.sent
}

// connection is a connection of a network. All of them share its rate.
type connection struct {
	net.Conn
	network *network
}

// Write implements [net.Conn]. It sends one packet at a time.
func (c *connection) Write(b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		packet := b[n:min(len(b), n+1400)]
		var sent int
		sent, err = c.send(packet)
		n += sent
	}
	return n, err
}

func (c *connection) send(packet []byte) (int, error) {
	c.network.mu.Lock()
	defer c.network.mu.Unlock()
	if c.network.slow {
		time.Sleep(time.Duration(len(packet)) * time.Second / slow)
	}
	n, err := c.Conn.Write(packet)
	c.network.sent += n
	return n, err
}

// TestAFirstVisitOnASlowNetwork checks that little has to be loaded before the workspaces appear, with an empty browser
// cache.
func TestAFirstVisitOnASlowNetwork(t *testing.T) {
	b := open(t)
	b.network.begin()
	b.load("/preview/dashboard/tour", "en")
	b.until("the workspaces", `document.querySelector("[data-workspace]")`)
	sent := b.network.count()
	fmt.Printf("figure first_visit_ms %.0f ms\n", js[float64](b, `performance.now()`))
	fmt.Printf("figure first_visit_bytes %d bytes\n", sent)
	if took := time.Duration(sent) * time.Second / slow; took > firstVisit {
		t.Errorf("%d bytes were sent, which takes %s, want at most %s", sent, took, firstVisit)
	}
}
