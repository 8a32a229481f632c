package codehub

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/codehub/gateway/coordinator/dataplane/route"
	"github.com/codehub/gateway/coordinator/dialer"
)

// leaseConnections makes the proxy's connections follow the routes' lease (SPEC 8). A lot can
// happen between the decision about a request and its connection. The process may pause, the proxy
// may wait, or the transport may repeat the request.
//
// Connections are kept by the key of the container that they were made to, and not by its
// address alone. And whether that container has the address is asked after each
// connection was made: a connection belongs to the container that has the address then.
//
// It concerns the proxy's standard transport over TCP; HTTP/3 and the transports of other
// modules have the decision alone.
func leaseConnections(proxy caddyhttp.MiddlewareHandler, routes *route.Table) {
	handler, ok := proxy.(*reverseproxy.Handler)
	if !ok {
		return
	}
	standard, ok := handler.Transport.(*reverseproxy.HTTPTransport)
	if !ok || standard.Transport == nil {
		return
	}
	t := standard.Transport
	if t.DialContext != nil {
		t.DialContext = leasedDial(t.DialContext, routes)
	}
	if t.DialTLSContext != nil {
		t.DialTLSContext = leasedDial(t.DialTLSContext, routes)
	}
	handler.Transport = &leasedTransport{standard, routes}
}

// leasedTransport keeps connections by the key of the container.
type leasedTransport struct {
	*reverseproxy.HTTPTransport
	routes *route.Table
}

// RoundTrip implements http.RoundTripper.
func (t *leasedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	st, _ := caddyhttp.GetVar(r.Context(), upstreamVar).(*route.State)
	switch {
	case st == nil:
	case t.ProxyProtocolEnabled(): // keeps connections by client
		if err := t.routes.MayDial(st.Run()); err != nil {
			return nil, err
		}
	default:
		r.URL.Host = st.Key(r.URL.Host) // the request's own Host is another field
	}
	return t.HTTPTransport.RoundTrip(r)
}

// dialFunc is the type of a transport's dial functions.
type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// leasedDial returns dial for keys in place of addresses. Other addresses, such as those of
// a forward proxy, are dialed as they are.
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
		if tcp, ok := conn.(*net.TCPConn); ok {
			return doubtAfter(tcp, routes, run), nil
		}
		return conn, nil
	}
}

// vanished are the limits of a connection to a container that has ended. A container that
// ends closes its connections, unless its network goes before its processes, or its node
// does. Then nothing arrives any more, and a request waits for the operating system's limits,
// which are minutes. One that runs all the same acknowledges, and keeps its connections.
var vanished = dialer.Limits{Idle: time.Second, Interval: time.Second, Count: 3, Unacknowledged: 4 * time.Second}

// doubtedConn is a connection to a container, which need not be there any more once its run
// has ended.
type doubtedConn struct {
	*net.TCPConn
	forget func() bool
}

// doubtAfter makes the connection break soon after the run has ended, if the container does
// not acknowledge any more. The error of a connection that is closed meanwhile does not matter.
func doubtAfter(conn *net.TCPConn, routes *route.Table, run string) net.Conn {
	return &doubtedConn{conn, routes.AfterRun(run, func() { _ = vanished.Set(conn) })}
}

// Close closes the connection.
func (c *doubtedConn) Close() error {
	c.forget()
	return c.TCPConn.Close()
}

// Interface guards: what the proxy looks for in a transport.
var (
	_ http.RoundTripper                      = (*leasedTransport)(nil)
	_ reverseproxy.TLSTransport              = (*leasedTransport)(nil)
	_ reverseproxy.ProxyProtocolTransport    = (*leasedTransport)(nil)
	_ reverseproxy.RequestHeaderOpsTransport = (*leasedTransport)(nil)
)
