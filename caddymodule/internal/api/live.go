package api

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/codehub/gateway/coordinator/dataplane/auth"
	recovery "github.com/codehub/gateway/coordinator/guard"
)

// liveOutput is an answer that streams output as it is printed. One goroutine uses it.
type liveOutput struct {
	w       http.ResponseWriter
	control *http.ResponseController
	media   string
	ended   <-chan struct{} // of the session
	begun   bool
}

// live begins an answer of that media type. It also returns a context that ends when the client, the session or this
// configuration ends. The caller MUST call done.
func (c *call) live(media string) (ctx context.Context, out *liveOutput, done func(), err error) {
	out = &liveOutput{w: c.w, control: http.NewResponseController(c.w), media: media, ended: c.grant.Ended()}
	ctx, done, err = c.bind(c.Stopping, func() { _ = out.control.SetWriteDeadline(time.Unix(1, 0)) })
	return ctx, out, done, err
}

// bound is an open request. It implements [auth.Ender].
type bound struct {
	stream auth.Stream
	end    func()
}

// End implements [auth.Ender].
func (b *bound) End() { b.end() }

// bind returns a context that ends with the client or the session, or when stopping is closed. ended, if it is not
// nil, is called when the session has ended. The caller MUST call done.
func (c *call) bind(stopping <-chan struct{}, ended func()) (ctx context.Context, done func(), err error) {
	ctx, cancel := context.WithCancel(c.r.Context())
	b := &bound{end: func() {
		cancel()
		if ended != nil {
			ended()
		}
	}}
	if !c.grant.Attach(&b.stream, b) {
		cancel()
		return nil, nil, auth.ErrNoSession
	}
	go func() {
		defer cancel() // a session that cannot be checked ends
		recovery.Run("watching a session", func() { c.watch(ctx, stopping, cancel) })
	}()
	return ctx, func() { cancel(); b.stream.Detach() }, nil
}

// watch ends a live answer when its session ends or when stopping is closed.
func (c *call) watch(ctx context.Context, stopping <-chan struct{}, cancel context.CancelFunc) {
	ticker := time.NewTicker(c.Heartbeat)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if _, err := c.grantFor(c.r, &c.at, c.scope); errors.Is(err, auth.ErrNoSession) {
				cancel()
			}
		case <-stopping:
			cancel()
			return
		case <-ctx.Done():
			return
		}
	}
}

// write sends output; empty output begins the answer.
func (o *liveOutput) write(p []byte) error {
	if !o.begun {
		o.begun = true
		h := o.w.Header()
		h.Set("Content-Type", o.media)
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Accel-Buffering", "no")
	}
	if err := mayWrite(o.control, o.ended); err != nil {
		return err
	}
	if _, err := o.w.Write(p); err != nil {
		return err
	}
	return o.control.Flush()
}

// mayWrite limits how long the next write of a streamed answer may take, so that a client that reads nothing is
// dropped. A server may limit how long a whole answer takes. Here each write has its own limit instead. It returns an
// error once the session has ended.
func mayWrite(control *http.ResponseController, ended <-chan struct{}) error {
	err := control.SetWriteDeadline(time.Now().Add(streamWriteTimeout))
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	select {
	case <-ended: // perhaps before the deadline above, which then replaced End's
		return auth.ErrNoSession
	default:
		return nil
	}
}

// printed is a stream of text. It reassembles characters whose bytes arrive separately; invalid UTF-8 becomes U+FFFD.
type printed struct {
	say  func(text string) error
	rest []byte
}

// Write implements [io.Writer].
func (p *printed) Write(b []byte) (int, error) {
	text := append(p.rest, b...)
	whole := len(text)
	for i := 1; i < utf8.UTFMax && i <= len(text); i++ {
		if at := len(text) - i; utf8.RuneStart(text[at]) {
			if !utf8.FullRune(text[at:]) {
				whole = at
			}
			break
		}
	}
	p.rest = append([]byte(nil), text[whole:]...)
	if whole == 0 {
		return len(b), nil
	}
	return len(b), p.say(valid(text[:whole]))
}

// end returns the rest of an incomplete character.
func (p *printed) end() error {
	if len(p.rest) == 0 {
		return nil
	}
	return p.say(valid(p.rest))
}

func valid(text []byte) string { return strings.ToValidUTF8(string(text), "\ufffd") }
