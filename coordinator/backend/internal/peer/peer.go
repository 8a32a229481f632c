// Package peer knows which engine or cluster is at the other end of a client's connections (SPEC
// 2). Every connection first asks the other end for its id, so that no request reaches an unknown engine.
//
// It owns the connections and the id. It must not know what the requests are for, or how to ask for the id. The code
// that records the id decides which one is right.
//
// [Watcher.ID] returns the id of the engine that answered the calls before it. A connection leads to the same engine
// for its whole life, and all connections that carry requests lead to the same engine. When a new connection finds
// another engine, the watcher refuses it and closes the connections to the previous engine. It accepts the other engine
// only after [Settle]; until then, ID fails. So more time than any observation takes passes between the last answer of
// the previous engine and the first time that ID returns the id of the other one. No answer of the previous engine is
// judged by the id of the other one. It would not be enough to count the dials and to ask for the id through the
// transport: the question might use another connection than the answers did, and so reach another engine.
//
// This does not work behind a proxy that distributes the requests of one connection among several engines. It works
// behind a proxy that forwards whole connections, such as ssh or socat.
package peer

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"
)

const (
	// Settle is how long another engine must answer at the address before it is accepted. It must be longer than the
	// time that any caller lets pass between an engine's answer and the question for its id. An observation takes at
	// most 20 s.
	Settle = 30 * time.Second
	// askLimit bounds the question on a new connection, including the wait for its turn. An engine
	// takes about 4 ms. An overloaded engine takes seconds. If the watcher gave up early and asked again, the engine would
	// stay overloaded.
	askLimit = 30 * time.Second
)

// Dial makes a connection, as [net.Dialer.DialContext] does.
type Dial = func(ctx context.Context, network, addr string) (net.Conn, error)

// Watcher knows which engine is at the other end. It is safe for concurrent use.
type Watcher struct {
	kind string
	ask  func(ctx context.Context, c net.Conn) (id string, err error)
	now  func() time.Time // tests replace it before the first connection
	// turn holds one value while a question is asked. If all connections have broken, many questions at once would
	// overload a busy engine.
	turn chan struct{}

	mu    sync.Mutex // guards the fields below
	id    string     // of the engine that answers; "" before the first connection
	conns map[*conn]struct{}
	other string    // the id of another engine at the address, not yet accepted
	since time.Time // when it first answered

	reconnects uint64 // see Reconnects
}

// New returns a watcher. In errors, the other end is called kind, such as "Docker engine". ask asks for the id on a new
// connection and leaves the connection usable. The watcher bounds its time.
func New(kind string, ask func(ctx context.Context, c net.Conn) (id string, err error)) *Watcher {
	return &Watcher{kind: kind, ask: ask, now: time.Now, turn: make(chan struct{}, 1), conns: make(map[*conn]struct{})}
}

// Wrap returns a dial that refuses connections to every engine except the one that has answered so far.
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

// question asks for the id on a new connection and leaves the connection usable.
func (w *Watcher) question(ctx context.Context, c net.Conn) (id string, err error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	select {
	case w.turn <- struct{}{}:
		defer func() { <-w.turn }()
	case <-ctx.Done():
		return "", fmt.Errorf("waiting to ask for the id on a new connection: %w", ctx.Err())
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
		// The engine has changed. Calls in progress fail, and no later call gets an answer of the previous engine.
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
		w.reconnects++
	}
	c := &conn{Conn: raw, watch: w}
	w.conns[c] = struct{}{}
	return c, nil
}

// ID returns the id of the engine that has answered all calls so far, or "" if none has. It fails
// while another engine answers and is not accepted yet.
func (w *Watcher) ID() (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.other != "" {
		return "", w.changed()
	}
	return w.id, nil
}

// Reconnects counts the connections that were made while there was no other connection. There is such a connection
// after each start of the engine or its host, and also for other reasons. When the number has changed, the caller must
// check everything again that such a start may have undone. It performs no I/O.
func (w *Watcher) Reconnects() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.reconnects
}

// changed returns the error that applies while another engine answers. The caller holds the lock.
func (w *Watcher) changed() error {
	return &ChangedError{Kind: w.kind, Was: w.id, Is: w.other, Since: w.since}
}

// ChangedError means that a different engine answers than before.
type ChangedError struct {
	Kind, Was, Is string
	Since         time.Time
}

// Error implements error.
func (e *ChangedError) Error() string {
	return fmt.Sprintf("another %s, %s, answers at this address since %s instead of %s; it gets no requests for %s",
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
