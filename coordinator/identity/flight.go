package identity

import (
	"context"
	"sync"

	"github.com/codehub/gateway/coordinator/guard"
)

// flight shares calls. Unlike golang.org/x/sync/singleflight it never gives a caller the result of a call that began
// earlier, because the answer may have changed since. Callers that arrive during a call share the next one.
type flight struct {
	mu      sync.Mutex
	running bool
	next    *call // begins when the running call ends
}

// call is a call with its waiting callers.
type call struct {
	done    chan struct{}
	err     error
	ctx     context.Context // ends when the last caller has left
	cancel  context.CancelFunc
	waiting int
}

// do returns the result of a call of f that begins after do was called. do waits until ctx ends at the latest. The
// context of f ends when no caller waits for f any more.
func (l *flight) do(ctx context.Context, f func(context.Context) error) error {
	l.mu.Lock()
	if l.next == nil || l.next.waiting == 0 { // a call that all callers have left is cancelled
		c := &call{done: make(chan struct{})}
		c.ctx, c.cancel = context.WithCancel(context.WithoutCancel(ctx))
		l.next = c
	}
	c := l.next
	c.waiting++
	if !l.running {
		l.running = true
		go l.work(f)
	}
	l.mu.Unlock()
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		l.leave(c)
		return ctx.Err()
	}
}

// leave removes a caller that no longer waits for c.
func (l *flight) leave(c *call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.waiting--; c.waiting == 0 {
		c.cancel()
	}
}

// work makes the calls until no caller waits for one.
func (l *flight) work(f func(context.Context) error) {
	for {
		l.mu.Lock()
		c := l.next
		l.next = nil
		l.running = c != nil
		l.mu.Unlock()
		if c == nil {
			return
		}
		c.err = guard.Call(guard.Task, func() error { return f(c.ctx) })
		c.cancel()
		close(c.done)
	}
}
