package codehub

import (
	"context"
	"fmt"
	"net"
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/codehub/gateway/coordinator/route"
)

// leaseConnections makes the proxy's connections follow the routes' lease (SPEC 8), whatever
// happens between the decision about a request and its connection: a pause of the process,
// a wait in the proxy, a repetition by the transport.
//
// Connections are kept by the key of the container that they were made to, and not by its
// address alone. And whether that container has the address is asked after each
// connection was made: it stays with whoever has the address then.
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

// dialer is the type of a transport's dial functions.
type dialer = func(ctx context.Context, network, address string) (net.Conn, error)

// leasedDial returns dial for keys in place of addresses. Other addresses, such as those of
// a forward proxy, are dialed as they are.
func leasedDial(dial dialer, routes *route.Table) dialer {
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
		return conn, nil
	}
}

// Interface guards: what the proxy looks for in a transport.
var (
	_ http.RoundTripper                      = (*leasedTransport)(nil)
	_ reverseproxy.TLSTransport              = (*leasedTransport)(nil)
	_ reverseproxy.ProxyProtocolTransport    = (*leasedTransport)(nil)
	_ reverseproxy.RequestHeaderOpsTransport = (*leasedTransport)(nil)
)
