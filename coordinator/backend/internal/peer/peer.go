// Package peer knows which engine or cluster is at the other end of a client's connections (SPEC
// 2). Every connection asks it before anything else passes through, so that no request ever goes
// to an unknown one.
//
// It owns the connections and the id. It must not know what the requests are or how the question
// is asked. Which id is the right one is decided where it is recorded.
//
// The id that [Watcher.ID] returns is that of the engine that answered the calls before it. A
// connection leads to one engine as long as it lives. All connections that carry requests lead to
// the same engine. When a new connection finds another engine, it is refused, and those to the
// former engine are closed. Only [Settle] later is the other engine accepted, and meanwhile ID
// fails. Between the last answer of the former engine and the first id of the other one there is
// more time than any observation takes. So the former engine's answer cannot be judged by the
// other's id. Counting dials and asking again over the transport would not do. The question might
// go out on another connection than the answers came in on, and reach another engine.
//
// A proxy that sends each request of one connection to an engine of its choice defeats
// this. One that forwards connections, such as ssh or socat, does not.
package peer

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"
)

const (
	// Settle is how long another engine has to answer at the address before it is accepted. It must
	// be longer than the time between an engine's answer and the question for its id, in any
	// caller. An observation takes 20 s at most.
	Settle = 30 * time.Second
	// askLimit bounds the question on a new connection, with the time until it may be asked. An engine
	// takes about 4 ms. One that is overloaded takes seconds, and the sooner the question is given up
	// and asked again, the longer it stays so.
	askLimit = 30 * time.Second
)

// Dial makes a connection, as [net.Dialer.DialContext] does.
type Dial = func(ctx context.Context, network, addr string) (net.Conn, error)

// Watcher knows what is at the other end. It is safe for concurrent use.
type Watcher struct {
	kind string
	ask  func(ctx context.Context, c net.Conn) (id string, err error)
	now  func() time.Time // tests replace it before the first connection
	// turn holds one value while a question is asked. Many at once, after all connections have broken,
	// would keep a busy engine busy.
	turn chan struct{}

	mu    sync.Mutex // guards what follows
	id    string     // of what answers; "" before the first connection
	conns map[*conn]struct{}
	other string    // what answers at the address instead
	since time.Time // since when

	epoch uint64 // see Epoch
}

// New returns a watcher. kind is what errors call the other end, such as "Docker engine". ask
// asks for the id on a new connection and leaves that usable; it need not care for time,
// which the watcher bounds.
func New(kind string, ask func(ctx context.Context, c net.Conn) (id string, err error)) *Watcher {
	return &Watcher{kind: kind, ask: ask, now: time.Now, turn: make(chan struct{}, 1), conns: make(map[*conn]struct{})}
}

// Wrap returns a dial that refuses connections to another engine than the one that
// answers so far.
func (w *Watcher) Wrap(dial Dial) Dial {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		raw, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		id, err := w.question(ctx, raw)
		if err == nil {
			var c *conn
			if c, err = w.admit(raw, id); err == nil {
				return c, nil
			}
		}
		raw.Close()
		return nil, err
	}
}

// question asks for the id on a new connection, which can be used afterwards.
func (w *Watcher) question(ctx context.Context, c net.Conn) (id string, err error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	select {
	case w.turn <- struct{}{}:
		defer func() { <-w.turn }()
	case <-ctx.Done():
		return "", fmt.Errorf("waiting to ask what answers on a new connection: %w", ctx.Err())
	}
	deadline, _ := ctx.Deadline()
	if err := c.SetDeadline(deadline); err != nil {
		return "", err
	}
	interrupt := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	defer interrupt()
	if id, err = w.ask(ctx, c); err != nil {
		return "", err
	}
	if !interrupt() { // ctx has ended, and its deadline may still be set
		return "", ctx.Err()
	}
	return id, c.SetDeadline(time.Time{})
}

// admit decides whether a connection to that engine may be used.
func (w *Watcher) admit(raw net.Conn, id string) (*conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.id == "" || w.id == id:
		w.other = ""
	case w.other != id:
		// The engine has changed. What is under way fails, and no call gets an answer of the
		// former engine from now on.
		w.other, w.since = id, w.now()
		for c := range w.conns {
			c.Conn.Close()
		}
		return nil, w.changed()
	case w.now().Sub(w.since) < Settle:
		return nil, w.changed()
	default:
		w.other = ""
	}
	w.id = id
	if len(w.conns) == 0 {
		w.epoch++
	}
	c := &conn{Conn: raw, watch: w}
	w.conns[c] = struct{}{}
	return c, nil
}

// ID returns the id of what has answered all calls so far, or "" if nothing has. It fails
// while another one has taken its place and is not accepted yet.
func (w *Watcher) ID() (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.other != "" {
		return "", w.changed()
	}
	return w.id, nil
}

// Epoch is a number that grows whenever a connection is made while there is no other one. That
// happens after a start of the engine or of its host, among other causes. What such a start may
// have undone must be looked at again when the number has changed. It performs no I/O.
func (w *Watcher) Epoch() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.epoch
}

// changed is the error while another engine answers. The caller holds the lock.
func (w *Watcher) changed() error {
	return &ChangedError{Kind: w.kind, Was: w.id, Is: w.other, Since: w.since}
}

// ChangedError says that another engine has taken the place of the former one.
type ChangedError struct {
	Kind, Was, Is string
	Since         time.Time
}

// Error implements error.
func (e *ChangedError) Error() string {
	return fmt.Sprintf("another %s, %s, answers at this address since %s instead of %s; it is asked nothing for %s",
		e.Kind, e.Is, e.Since.UTC().Format(time.RFC3339), e.Was, Settle)
}

// conn is a connection to a known engine.
type conn struct {
	net.Conn
	watch *Watcher
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.watch.mu.Lock()
	delete(c.watch.conns, c)
	c.watch.mu.Unlock()
	return c.Conn.Close()
}
