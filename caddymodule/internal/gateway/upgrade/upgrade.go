// Package upgrade tells which messages pass through upgraded connections (SPEC 6). On WebSockets over HTTP/1.1, 2 and
// 3, data frames are messages and control frames are not; on other upgraded connections, all bytes count as messages.
//
// It owns the parsing of frames. It must not decide whether a message counts as use, must not
// change, delay or keep messages, and must not allocate per message.
package upgrade

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"

	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/coordinator/guard"
)

// Meter counts messages.
type Meter interface {
	// Message is called when a message of size bytes, or part of one, passes. For several in one
	// piece it gets the largest. It must be cheap, because it is called for every piece.
	Message(size uint64)
}

// Count prepares r for an upgrade to another protocol, and returns the ResponseWriter to proxy it with. The meter is
// told of the messages in both directions. While the workspace of r is frozen, according to the function passed as
// still, connections of VS Code's protocol are kept alive for their client. The caller MUST call done when the request
// is over.
func Count(
	w http.ResponseWriter, r *http.Request, meter Meter, still Still,
) (counting http.ResponseWriter, done func()) {
	counted := &upgradeWriter{ResponseWriter: w, meter: meter, webSocket: site.IsWebSocket(r), ended: make(chan struct{})}
	if counted.webSocket && speaksVSCode(r) {
		counted.still = still
	}
	if !site.IsExtendedConnect(r) {
		return counted, counted.end
	}
	counted.extended = true
	body := r.Body
	r.Body = &countedBody{ReadCloser: body, counter: counter{meter: meter, webSocket: true}}
	return counted, func() { counted.end(); r.Body = body }
}

// counter counts one direction of a connection as activity.
type counter struct {
	meter     Meter
	webSocket bool
	frames    frames
}

// count tells the meter about the messages to which the bytes p belong.
func (c *counter) count(p []byte) {
	if !c.webSocket {
		if len(p) > 0 {
			c.meter.Message(uint64(len(p)))
		}
		return
	}
	if data, largest := c.frames.scan(p); data {
		c.meter.Message(largest)
	}
}

// upgradeWriter is the ResponseWriter of a connection that may be upgraded.
type upgradeWriter struct {
	http.ResponseWriter
	meter     Meter
	webSocket bool
	// extended says that the response itself carries the frames (extended CONNECT). accepted says that the workspace
	// has opened such a WebSocket.
	extended, accepted bool
	out                *outlet
	still              Still         // nil for a connection that is not kept
	ended              chan struct{} // with the request
}

// opened begins the direction to the client.
func (u *upgradeWriter) opened(to io.Writer, flush func() error) {
	u.out = &outlet{to: to, flush: flush, counter: counter{meter: u.meter, webSocket: u.webSocket}}
	if u.still != nil {
		go func() { // it only keeps the connection
			guard.Run("keeping a WebSocket open", func() { u.out.keep(u.still, u.ended) })
		}()
	}
}

// end releases the resources of the connection.
func (u *upgradeWriter) end() {
	close(u.ended)
	if u.out != nil {
		u.out.close()
	}
}

// Unwrap lets [http.ResponseController] find the server's own ResponseWriter.
func (u *upgradeWriter) Unwrap() http.ResponseWriter { return u.ResponseWriter }

// WriteHeader records whether the workspace has opened the WebSocket.
func (u *upgradeWriter) WriteHeader(status int) {
	u.accepted = u.extended && status == http.StatusOK
	u.ResponseWriter.WriteHeader(status)
	if u.accepted {
		u.opened(u.ResponseWriter, http.NewResponseController(u.ResponseWriter).Flush)
	}
}

// Write counts the frames of an open WebSocket.
func (u *upgradeWriter) Write(p []byte) (int, error) {
	if u.accepted {
		return u.out.Write(p)
	}
	return u.ResponseWriter.Write(p)
}

// FlushError sends buffered data.
func (u *upgradeWriter) FlushError() error {
	if u.accepted {
		return u.out.Flush()
	}
	return http.NewResponseController(u.ResponseWriter).Flush()
}

// ReadFrom copies through Write if there are frames to count. Otherwise it uses the server's fast path.
func (u *upgradeWriter) ReadFrom(r io.Reader) (int64, error) {
	if u.accepted {
		return io.Copy(struct{ io.Writer }{u}, r)
	}
	return io.Copy(u.ResponseWriter, r)
}

// Hijack returns the connection with its messages counted.
func (u *upgradeWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	//nolint:bodyclose
	conn, brw, err := http.NewResponseController(u.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	counted := &countedConn{
		Conn: conn,
		in:   counter{meter: u.meter, webSocket: u.webSocket},
	}
	u.opened(conn, nil)
	counted.out = u.out
	// reverse_proxy also uses these buffers, so they must read from and write to the counted connection.
	brw.Writer.Reset(counted)
	if n := brw.Reader.Buffered(); n > 0 {
		peeked, _ := brw.Peek(n)
		early := bytes.Clone(peeked)
		counted.in.count(early)
		brw.Reader.Reset(io.MultiReader(bytes.NewReader(early), counted))
		_, _ = brw.Peek(n) // makes them count as buffered again
	} else {
		brw.Reader.Reset(counted)
	}
	if half, ok := conn.(closeWriter); ok {
		return &countedHalfConn{counted, half}, brw, nil
	}
	return counted, brw, nil
}

// closeWriter is a connection that can close its sending direction alone.
type closeWriter interface{ CloseWrite() error }

// countedConn counts what passes through a hijacked connection. Read and Write may
// run at the same time; each has a counter of its own.
type countedConn struct {
	net.Conn
	in  counter
	out *outlet
}

func (c *countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.in.count(p[:n])
	return n, err
}

func (c *countedConn) Write(p []byte) (int, error) {
	return c.out.Write(p)
}

// countedHalfConn keeps CloseWrite, which reverse_proxy uses only where there is one.
type countedHalfConn struct {
	*countedConn
	half closeWriter
}

func (c *countedHalfConn) CloseWrite() error { return c.half.CloseWrite() }

// countedBody is the request body of an extended CONNECT: the client's frames.
type countedBody struct {
	io.ReadCloser
	counter
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.count(p[:n])
	return n, err
}

// Interface guards.
var (
	_ http.Hijacker = (*upgradeWriter)(nil)
	_ io.ReaderFrom = (*upgradeWriter)(nil)
)
