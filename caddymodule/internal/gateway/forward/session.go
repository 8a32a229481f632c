package forward

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/coordinator/dataplane/auth"
)

// A request ends with the session that admitted it (SPEC 8). While it is held, it learns of the end from
// [auth.Grant.Ended], and the gateway decides about it again without a session. While it is being proxied, the end of
// the session makes its connection unusable. Deadlines in the past end all reads and writes on the client's side, and
// so the proxy ends, too.
//
// This costs a request two short critical sections and no allocation. Only HTTP/3 also needs a context, because over
// HTTP/3 a deadline does not end a proxy that waits for a silent application.

// binding binds a request to its session. It records how far the request has got, and how the end of the session can
// end it.
type binding struct {
	stream  auth.Stream
	ended   <-chan struct{} // closed when the session has ended
	proxied atomic.Bool     // w, r and cancel are set
	// cut is set when the session has ended while the request was being proxied: its
	// connection cannot be used any more.
	cut    atomic.Bool
	w      http.ResponseWriter
	r      *http.Request
	cancel context.CancelFunc // of an HTTP/3 request
}

// Attach binds the request to the session that admits it. It reports false if the session has ended. Without Attach the
// request has no session. The caller MUST call [Exchange.Detach] before the request is over.
func (x *Exchange) Attach(grant auth.Grant) bool {
	x.binding.ended = grant.Ended()
	return grant.Attach(&x.binding.stream, &x.binding)
}

// Detach undoes Attach. It aborts a request whose connection was made unusable, so that no other request uses that
// connection.
func (x *Exchange) Detach() {
	b := &x.binding
	b.stream.Detach()
	if b.cancel != nil {
		b.cancel()
	}
	if b.cut.Load() {
		panic(http.ErrAbortHandler)
	}
}

// End implements [auth.Ender].
func (b *binding) End() {
	if !b.proxied.Load() {
		return // the request checks ended before it is proxied
	}
	b.cut.Store(true)
	expire(http.NewResponseController(b.w))
	if h, ok := b.w.(*hijackable); ok {
		h.expire()
	}
	if b.cancel != nil {
		b.cancel()
	}
}

// past is an expired deadline.
var past = time.Unix(1, 0)

// expire ends reads and writes of a connection, or of one stream of it.
func expire(c interface {
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
}) {
	_ = c.SetReadDeadline(past) // fails only when the connection has ended
	_ = c.SetWriteDeadline(past)
}

// bind is called when the proxy takes over the request. From then on, the end of the session ends the request's
// connection. It reports false if the session has already ended.
func (b *binding) bind(w http.ResponseWriter, r *http.Request) bool {
	if !b.proxied.Load() {
		b.w, b.r = w, r
		switch {
		case r.ProtoMajor == 3:
			ctx, cancel := context.WithCancel(r.Context())
			b.r, b.cancel = r.WithContext(ctx), cancel
		case site.HeaderValue(r.Header, "Upgrade") != "" && !site.IsExtendedConnect(r):
			b.w = &hijackable{ResponseWriter: w}
		}
		b.proxied.Store(true)
	}
	select {
	case <-b.ended:
		return false
	default:
		return true
	}
}

// hijackable remembers the connection when it is taken over for another protocol. The take-over resets the deadlines,
// so they must be set again on the connection itself.
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

// expire ends the connection, whether it has been taken over already or is taken over later.
func (h *hijackable) expire() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over = true; h.conn != nil {
		expire(h.conn)
	}
}
