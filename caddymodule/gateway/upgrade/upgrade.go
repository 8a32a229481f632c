// Package upgrade counts the messages of upgraded connections as activity: of
// WebSockets over HTTP/1.1, 2 and 3, and of other upgrades every byte (SPEC 6).
//
// It owns the parsing of frames. It must not change, delay or keep what it passes on,
// and does not allocate per message.
package upgrade

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"

	"github.com/codehub/gateway/caddymodule/web"
)

// Toucher records activity; it is an activity slot.
type Toucher interface{ Touch() }

// Count prepares r and w for a connection that outlives HTTP: messages in both
// directions count as activity, and silence does not end it, for which noIdleTimeout
// lifts the server's limit until its result is called. Call the returned function when
// the request is over.
func Count(w http.ResponseWriter, r *http.Request, slot Toucher, noIdleTimeout func(*http.Request) func()) (http.ResponseWriter, func()) {
	counted := &upgradeWriter{ResponseWriter: w, slot: slot, webSocket: web.IsWebSocket(r)}
	if !web.IsExtendedConnect(r) {
		return counted, func() {}
	}
	counted.extended = true
	body := r.Body
	r.Body = &countedBody{ReadCloser: body, counter: counter{slot: slot, webSocket: true}}
	restore := noIdleTimeout(r)
	return counted, func() { restore(); r.Body = body }
}

// counter counts one direction of a connection as activity.
type counter struct {
	slot      Toucher
	webSocket bool
	frames    frames
}

// count records the bytes p as activity, in a WebSocket only if some of them belong to
// a message.
func (c *counter) count(p []byte) {
	if len(p) > 0 && (!c.webSocket || c.frames.scan(p)) {
		c.slot.Touch()
	}
}

// upgradeWriter is the ResponseWriter of a connection that may be upgraded.
type upgradeWriter struct {
	http.ResponseWriter
	slot      Toucher
	webSocket bool
	// extended says that the response itself carries the frames (extended CONNECT),
	// accepted that the workspace has opened the WebSocket.
	extended, accepted bool
	out                counter
}

// Unwrap lets [http.ResponseController] find the server's own ResponseWriter.
func (u *upgradeWriter) Unwrap() http.ResponseWriter { return u.ResponseWriter }

// WriteHeader records whether the workspace has opened the WebSocket.
func (u *upgradeWriter) WriteHeader(status int) {
	u.accepted = u.extended && status == http.StatusOK
	u.out = counter{slot: u.slot, webSocket: true}
	u.ResponseWriter.WriteHeader(status)
}

// Write counts the frames of an open WebSocket.
func (u *upgradeWriter) Write(p []byte) (int, error) {
	if u.accepted {
		u.out.count(p)
	}
	return u.ResponseWriter.Write(p)
}

// ReadFrom goes through Write when there are frames to count.
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
		in:   counter{slot: u.slot, webSocket: u.webSocket},
		out:  counter{slot: u.slot, webSocket: u.webSocket},
	}
	// reverse_proxy uses the buffers too, so they must read and write the counted connection.
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

// closeWriter is a connection that can end one direction.
type closeWriter interface{ CloseWrite() error }

type countedConn struct {
	net.Conn
	in, out counter
}

func (c *countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.in.count(p[:n])
	return n, err
}

func (c *countedConn) Write(p []byte) (int, error) {
	c.out.count(p)
	return c.Conn.Write(p)
}

// countedHalfConn keeps CloseWrite, which reverse_proxy uses only where there is one.
type countedHalfConn struct {
	*countedConn
	half closeWriter
}

func (c *countedHalfConn) CloseWrite() error { return c.half.CloseWrite() }

// countedBody is what the client of an extended CONNECT sends.
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
