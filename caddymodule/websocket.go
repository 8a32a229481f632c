package codehub

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// toucher takes note of activity; it is an activity slot.
type toucher interface{ Touch() }

// forever is an idle timeout that never comes.
const forever = 100 * 365 * 24 * time.Hour

// watchUpgrade prepares r and w for a connection that outlives HTTP: messages in
// both directions count as activity, and silence does not end it. The returned
// function is called when the request is over.
func watchUpgrade(w http.ResponseWriter, r *http.Request, slot toucher) (http.ResponseWriter, func()) {
	watched := &upgradeWriter{
		ResponseWriterWrapper: &caddyhttp.ResponseWriterWrapper{ResponseWriter: w},
		slot:                  slot,
		websocket:             isWebSocket(r),
	}
	if !isExtendedConnect(r) {
		return watched, func() {}
	}
	watched.stream = true
	body := r.Body
	r.Body = &watchedBody{ReadCloser: body, watch: watch{slot: slot, websocket: true}}
	restore := func() { r.Body = body }
	// Caddy ends request bodies that are silent for a minute.
	if idle, _ := caddyhttp.IdleTimeoutsFromContext(r.Context()); idle != nil {
		undo := idle.Override(forever, 0)
		return watched, func() { undo(); restore() }
	}
	return watched, restore
}

// watch counts one direction of a connection as activity.
type watch struct {
	slot      toucher
	websocket bool
	frames    frames
}

// saw takes note of bytes that passed. Of a protocol that is not WebSocket, all
// count.
func (s *watch) saw(p []byte) {
	if len(p) > 0 && (!s.websocket || s.frames.scan(p)) {
		s.slot.Touch()
	}
}

// upgradeWriter is the ResponseWriter of a connection that may be upgraded.
type upgradeWriter struct {
	*caddyhttp.ResponseWriterWrapper
	slot      toucher
	websocket bool
	// stream says that the answer itself carries the frames (extended CONNECT), open
	// that it was accepted.
	stream, open bool
	out          watch
}

// WriteHeader notes whether the workspace has accepted the stream.
func (u *upgradeWriter) WriteHeader(status int) {
	u.open = u.stream && status == http.StatusOK
	u.out = watch{slot: u.slot, websocket: true}
	u.ResponseWriterWrapper.WriteHeader(status)
}

// Write counts the frames of an accepted stream.
func (u *upgradeWriter) Write(p []byte) (int, error) {
	if u.open {
		u.out.saw(p)
	}
	return u.ResponseWriterWrapper.Write(p)
}

// ReadFrom passes through Write when there are frames to count.
func (u *upgradeWriter) ReadFrom(r io.Reader) (int64, error) {
	if u.open {
		return io.Copy(struct{ io.Writer }{u}, r)
	}
	return u.ResponseWriterWrapper.ReadFrom(r)
}

// Hijack hands out the connection, watched.
func (u *upgradeWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	//nolint:bodyclose
	conn, brw, err := http.NewResponseController(u.ResponseWriterWrapper).Hijack()
	if err != nil {
		return nil, nil, err
	}
	watched := &watchedConn{
		Conn: conn,
		in:   watch{slot: u.slot, websocket: u.websocket},
		out:  watch{slot: u.slot, websocket: u.websocket},
	}
	// reverse_proxy uses the buffers too, so they must lead to the watched connection.
	brw.Writer.Reset(watched)
	if n := brw.Reader.Buffered(); n > 0 {
		peeked, _ := brw.Peek(n)
		early := bytes.Clone(peeked)
		watched.in.saw(early)
		brw.Reader.Reset(io.MultiReader(bytes.NewReader(early), watched))
		_, _ = brw.Peek(n) // makes them count as buffered again
	} else {
		brw.Reader.Reset(watched)
	}
	if half, ok := conn.(closeWriter); ok {
		return &watchedHalfConn{watched, half}, brw, nil
	}
	return watched, brw, nil
}

// closeWriter is a connection that can end one direction.
type closeWriter interface{ CloseWrite() error }

type watchedConn struct {
	net.Conn
	in, out watch
}

func (c *watchedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.in.saw(p[:n])
	return n, err
}

func (c *watchedConn) Write(p []byte) (int, error) {
	c.out.saw(p)
	return c.Conn.Write(p)
}

// watchedHalfConn keeps CloseWrite, which reverse_proxy uses only where there is one.
type watchedHalfConn struct {
	*watchedConn
	half closeWriter
}

func (c *watchedHalfConn) CloseWrite() error { return c.half.CloseWrite() }

// watchedBody is what the client of an extended CONNECT sends.
type watchedBody struct {
	io.ReadCloser
	watch
}

func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.saw(p[:n])
	return n, err
}

// Interface guards.
var (
	_ http.Hijacker = (*upgradeWriter)(nil)
	_ io.ReaderFrom = (*upgradeWriter)(nil)
)
