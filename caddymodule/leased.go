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

// leaseConnections makes the transport's connections follow the routes' lease (SPEC 8). Much time may pass between the
// decision about a request and the connection that carries it: the process may pause, the proxy may wait, or the
// transport may repeat the request.
//
// The transport keeps a connection under the key of its container, and not only under the container's address, which
// may later belong to another container. After it has made a connection, it asks the route table whether the container
// still has the address: the connection leads to the container that had the address at that moment.
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

// leasedDial returns dial for keys instead of addresses. An address that is not a key, such as the address of a forward
// proxy, is dialed unchanged.
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

// vanished are the limits that a connection gets when its container's run has ended. Normally a container closes its
// connections when it ends. It cannot do so if its network disappears before its processes, or if its node disappears.
// Without these limits, a request would then wait for minutes, until the operating system gives up. A container that is
// still running acknowledges, and so keeps its connections.
var vanished = dialer.Limits{Idle: time.Second, Interval: time.Second, Count: 3, Unacknowledged: 4 * time.Second}

// tcpConn is a connection over TCP, with or without the proxy's read_timeout and write_timeout.
type tcpConn interface {
	net.Conn
	dialer.Socket
	CloseWrite() error
}

// containerConn is a connection to a container.
//
// Once its run has ended, the container may be gone. From then on, the connection breaks soon if the container does not
// acknowledge.
//
// An application may answer before it has read the whole request, and then close the connection. Writing then fails
// before the answer has been read. So a write error is reported only when nothing can be read any more; until then,
// written bytes are dropped.
type containerConn struct {
	tcpConn
	forget func() bool
	ended  chan struct{} // closed when nothing can be read any more
	end    func()
}

// newContainerConn returns the connection to the container of the run. If the connection is closed already when its
// limits are set, the error does not matter.
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
