package codehub

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unsafe"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/codehub/gateway/coordinator/dataplane/route"
)

// Limits of the requests to applications, unless the block `transport http` sets others (SPEC 8).
const (
	// idleConnection is how long a connection is kept for the next request. Applications close idle connections after
	// 200 ms or more. If the application closes a connection just as a request is sent on it, the request fails unless it
	// is repeated.
	idleConnection = 50 * time.Millisecond
	// caddysIdleConnection is Caddy's own default for it.
	caddysIdleConnection = 2 * time.Minute
	// continueWait is how long an application may take to respond to `Expect: 100-continue` before the body is sent
	// anyway: some applications ignore that header.
	continueWait = 3 * time.Second
	// answerLimit is how long an application may take from the end of a request to the end of its answer's header.
	answerLimit = time.Hour
)

// prepareTransport makes the proxy pass on messages unchanged, and lets it use a connection only as long as the lease
// of the routes allows. It changes the proxy's standard transport, and leaves the transports of other modules alone.
func prepareTransport(ctx caddy.Context, proxy caddyhttp.MiddlewareHandler, routes *route.Table) error {
	handler, ok := proxy.(*reverseproxy.Handler)
	if !ok {
		return nil
	}
	standard, ok := handler.Transport.(*reverseproxy.HTTPTransport)
	if !ok || standard.Transport == nil {
		return nil
	}
	grpc := *standard
	grpc.Versions = []string{"h2c"}
	h2c, err := grpc.NewTransport(ctx)
	if err != nil {
		return fmt.Errorf("codehub: making the transport for gRPC: %w", err)
	}
	h2c.Proxy = standard.Transport.Proxy
	for _, t := range []*http.Transport{standard.Transport, h2c} {
		t.DisableCompression = standard.Compression == nil || !*standard.Compression
		if t.IdleConnTimeout == caddysIdleConnection {
			t.IdleConnTimeout = idleConnection
		}
		if t.ExpectContinueTimeout == 0 {
			t.ExpectContinueTimeout = continueWait
		}
		if t.ResponseHeaderTimeout == 0 {
			t.ResponseHeaderTimeout = answerLimit
		}
		leaseConnections(t, routes)
	}
	handler.Transport = &transport{standard, h2c, routes}
	return nil
}

// transport sends requests to applications. It keeps connections by the key of the container.
type transport struct {
	*reverseproxy.HTTPTransport
	h2c    *http.Transport // for gRPC
	routes *route.Table
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
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
	dropAdded(r.Header)
	if _, ok := r.Header["Expect"]; ok {
		if r.ProtoAtLeast(1, 1) {
			r.Close = true // an answer before the body leaves it unsent: nothing else can follow
		} else {
			delete(r.Header, "Expect") // HTTP/1.0 does not know it
		}
	}
	resp, err := t.send(r)
	if err != nil {
		return nil, err
	}
	trimNames(resp.Header)
	dropAdded(resp.Header)
	return resp, nil
}

// send sends the request in the version of HTTP that its application speaks.
func (t *transport) send(r *http.Request) (*http.Response, error) {
	if t.TLS == nil && r.ProtoMajor >= 2 && isGRPC(r.Header) {
		t.SetScheme(r)
		return t.h2c.RoundTrip(r)
	}
	return t.HTTPTransport.RoundTrip(r)
}

// isGRPC reports whether the header is that of a gRPC call, which needs HTTP/2 all the way. A gRPC-Web call does not.
func isGRPC(h http.Header) bool {
	if values := h["Content-Type"]; len(values) == 1 {
		rest, ok := strings.CutPrefix(values[0], "application/grpc")
		return ok && (rest == "" || rest[0] == '+' || rest[0] == ';')
	}
	return false
}

// trimNames removes the spaces between the names of header fields and the colon, as RFC 9112 section 5.1 requires of a
// proxy: Go keeps them in the name, and does not send a field with such a name. It drops fields that frame the body,
// which no longer apply.
func trimNames(h http.Header) {
	for name, values := range h {
		if !strings.HasSuffix(name, " ") {
			continue
		}
		delete(h, name)
		switch name = http.CanonicalHeaderKey(strings.TrimRight(name, " ")); name {
		case "Content-Length", "Transfer-Encoding":
		default:
			h[name] = append(h[name], values...)
		}
	}
}

// dropAdded removes the field Cache-Control that Go adds to messages that have only `Pragma:
// no-cache`.
func dropAdded(h http.Header) {
	if _, ok := h["Pragma"]; !ok {
		return
	}
	if v := h["Cache-Control"]; len(v) == 1 && unsafe.StringData(v[0]) == unsafe.StringData(addedCacheControl) {
		delete(h, "Cache-Control")
	}
}

// addedCacheControl is the value that Go adds. Go always adds the same string, whose address in memory distinguishes it
// from an equal text in a message.
var addedCacheControl = func() string {
	resp, err := http.ReadResponse(bufio.NewReader(strings.NewReader("HTTP/1.1 204 No Content\r\nPragma: no-cache\r\n\r\n")), nil)
	if err != nil {
		return ""
	}
	return resp.Header.Get("Cache-Control")
}()

// Interface guards: what the proxy looks for in a transport.
var (
	_ http.RoundTripper                      = (*transport)(nil)
	_ reverseproxy.TLSTransport              = (*transport)(nil)
	_ reverseproxy.ProxyProtocolTransport    = (*transport)(nil)
	_ reverseproxy.RequestHeaderOpsTransport = (*transport)(nil)
)
