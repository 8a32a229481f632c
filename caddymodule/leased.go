package codehub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"github.com/codehub/gateway/coordinator/dataplane/route"
	"github.com/codehub/gateway/coordinator/dialer"
)

// leaseConnections makes the transport's connections follow the routes' lease (SPEC 8). A lot can
// happen between the decision about a request and its connection. The process may pause, the proxy
// may wait, or the transport may repeat the request.
//
// Connections are kept by the key of the container that they were made to, and not by its address alone. After each
// connection is made, the route table is asked whether the container still has the address, because a connection
// belongs to the container that has the address at that moment.
//
// This applies to connections over TCP; over HTTP/3, only the decision about a request checks the lease.
func leaseConnections(t *http.Transport, routes *route.Table) {
	if t.DialContext != nil {
		t.DialContext = leasedDial(t.DialContext, routes)
	}
	if t.DialTLSContext != nil {
		t.DialTLSContext = leasedDial(t.DialTLSContext, routes)
	}
}

// dialFunc is the type of a transport's dial functions.
type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// leasedDial returns dial for keys instead of addresses. Other addresses, such as those of a
// forward proxy, are dialed as they are.
func leasedDial(dial dialFunc, routes *route.Table) dialFunc {
	return func(ctx context.Context, network, key string) (net.Conn, error) {
		address, run, ok := route.AddressOf(key)
		if !ok {
			return dial(ctx, network, key)
		}
		if err := routes.MayDial(run); err != nil {
			return nil, fmt.Errorf("connecting to %s: %w", address, err)
		}
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		// The address may have become another container's while the connection was made.
		if err := routes.MayDial(run); err != nil {
			conn.Close()
			return nil, fmt.Errorf("connecting to %s: %w", address, err)
		}
		if tcp, ok := conn.(tcpConn); ok {
			return newContainerConn(tcp, routes, run), nil
		}
		return conn, nil
	}
}

// vanished are the limits of a connection to a container that has ended. A container that ends closes its connections,
// unless its network goes before its processes, or its node does. Then nothing arrives any more, and a request waits
// for the operating system's limits, which are minutes. A container that is still running acknowledges, and keeps its
// connections.
var vanished = dialer.Limits{Idle: time.Second, Interval: time.Second, Count: 3, Unacknowledged: 4 * time.Second}

// tcpConn is a connection over TCP, with or without the proxy's read_timeout and write_timeout.
type tcpConn interface {
	net.Conn
	dialer.Socket
	CloseWrite() error
}

// containerConn is a connection to a container.
//
// Once its run has ended, the container may be gone: then the connection breaks soon if the container no longer
// acknowledges.
//
// An application that answers before it has read all of a request, and closes the connection, makes writing fail before
// the answer has been read. So a write error counts only when nothing can be read any more: until then, written bytes
// are dropped.
type containerConn struct {
	tcpConn
	forget func() bool
	ended  chan struct{} // closed when nothing can be read any more
	end    func()
}

// newContainerConn returns the connection to the container of the run. The error of a connection that is closed when its
// limits are set does not matter.
func newContainerConn(conn tcpConn, routes *route.Table, run string) net.Conn {
	c := &containerConn{tcpConn: conn, ended: make(chan struct{})}
	c.end = sync.OnceFunc(func() { close(c.ended) })
	c.forget = routes.AfterRun(run, func() { _ = vanished.Set(conn) })
	return c
}

// Read reads from the container.
func (c *containerConn) Read(p []byte) (int, error) {
	n, err := c.tcpConn.Read(p)
	if err != nil {
		c.end()
	}
	return n, err
}

// Write writes to the container.
func (c *containerConn) Write(p []byte) (int, error) {
	n, err := c.tcpConn.Write(p)
	if !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
		return n, err
	}
	select {
	case <-c.ended:
		return n, err
	default:
		return len(p), nil
	}
}

// ReadFrom copies through Write.
func (c *containerConn) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{c}, r)
}

// Close closes the connection.
func (c *containerConn) Close() error {
	c.forget()
	c.end()
	return c.tcpConn.Close()
}
