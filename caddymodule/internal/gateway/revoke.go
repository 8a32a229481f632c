package gateway

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/codehub/gateway/caddymodule/internal/gateway/decision"
	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/coordinator/dataplane/auth"
)

// A request ends with the session that let it in (SPEC 8). While it is held, it sees
// [auth.Grant.Ended] and is decided again, as one without a session. Once it is being proxied,
// its connection is made unusable from outside. Deadlines in the past end reads and writes on
// the client's side, and with them the proxy's.
//
// This costs a request two short critical sections and no allocation. HTTP/3 alone needs
// a context: a deadline there does not end a proxy that waits for a silent application.

// binding says how far a request has got, and how to end it from outside.
type binding struct {
	stream auth.Stream
	// cut is set when the session has ended while the request was being proxied: its
	// connection cannot be used any more.
	cut     atomic.Bool
	proxied atomic.Bool
	cancel  context.CancelFunc // of an HTTP/3 request
}

// attach binds the request to the session that it came with, and reports false when that
// has ended.
func (req *request) attach() bool { return req.grant.Attach(&req.binding.stream, req) }

// detach ends that. It aborts a request whose connection was made unusable, so that no
// other request gets it.
func (req *request) detach() {
	req.binding.stream.Detach()
	if req.binding.cancel != nil {
		req.binding.cancel()
	}
	if req.binding.cut.Load() {
		panic(http.ErrAbortHandler)
	}
}

// End implements [auth.Ender].
func (req *request) End() {
	if !req.binding.proxied.Load() {
		return // it looks at Ended before it is proxied
	}
	req.binding.cut.Store(true)
	expire(http.NewResponseController(req.w))
	if h, ok := req.w.(*hijackable); ok {
		h.expire()
	}
	if req.binding.cancel != nil {
		req.binding.cancel()
	}
}

// past is a deadline that is over.
var past = time.Unix(1, 0)

// expire ends reads and writes of a connection, or of one stream of it.
func expire(c interface {
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
}) {
	_ = c.SetReadDeadline(past) // fails only when the connection has ended
	_ = c.SetWriteDeadline(past)
}

// bind lets the end of the session end the request from now on, while it is being proxied.
func (req *request) bind() {
	if req.binding.proxied.Load() {
		return
	}
	switch {
	case req.r.ProtoMajor == 3:
		ctx, cancel := context.WithCancel(req.r.Context())
		req.r, req.binding.cancel = req.r.WithContext(ctx), cancel
	case req.r.Header.Get("Upgrade") != "" && !site.IsExtendedConnect(req.r):
		req.w = &hijackable{ResponseWriter: req.w}
	}
	req.binding.proxied.Store(true)
}

// signOut makes the request one without a session.
func (req *request) signOut(s *decision.State) {
	s.Identity, s.Visible = decision.Anonymous, false
	req.user, req.entry = "", nil
}

// hijackable remembers the connection that is taken over for another protocol: its
// deadlines are reset then.
type hijackable struct {
	http.ResponseWriter
	mu   sync.Mutex
	conn net.Conn
	over bool
}

// Unwrap lets [http.ResponseController] find the server's own ResponseWriter.
func (h *hijackable) Unwrap() http.ResponseWriter { return h.ResponseWriter }

// Hijack implements [http.Hijacker].
func (h *hijackable) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, brw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.conn = conn; h.over {
		expire(conn)
	}
	return conn, brw, nil
}

// expire ends the connection that was taken over, or that will be.
func (h *hijackable) expire() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over = true; h.conn != nil {
		expire(h.conn)
	}
}
