// Package engine connects to a Docker engine, and knows which one it is (SPEC 2).
//
// It owns the client's transport, what its errors mean, and the question for the engine's
// id: every connection asks it before anything else passes through, so that no request
// ever goes to an engine that is not known. It must not know what the requests are, nor
// which engine is the right one: that is decided by whoever has recorded an id.
//
// Why an id that [Client.Identity] returns is that of whatever answered the calls before
// it: a connection leads to one engine for as long as it lives, and all connections that
// carry requests lead to the same engine. When a new connection finds another engine, it
// is refused, and those to the former engine are closed. Only [Settle] later is the other
// engine accepted, and meanwhile Identity fails. So between the last answer of the former
// engine and the first id of the other one there is more time than any look takes: nobody
// can judge the former engine's answer by the other's id. Counting dials and asking again
// over the transport would not do: the question might go out on another connection than
// the answers came in on, and reach another engine.
//
// A proxy that sends each request of one connection to an engine of its choice defeats
// this. One that forwards connections, such as ssh or socat, does not.
package engine

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	// Settle is how long another engine has to answer at the address before it is
	// accepted. It must be longer than anybody holds what an engine has answered before
	// asking for its id; an observation takes 20 s at most.
	Settle = 30 * time.Second
	// askLimit bounds the question on a new connection. An engine takes about 4 ms.
	askLimit = 10 * time.Second
	// maxInfo bounds an answer, in bytes.
	maxInfo = 4 << 20
	// dataIDLength is how much of an id of 64 digits tells data folders apart.
	dataIDLength = 12
)

type dialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

// watcher knows the engine at the other end. It is safe for concurrent use.
type watcher struct {
	now func() time.Time // tests replace it before the first connection

	mu    sync.Mutex // guards what follows
	id    string     // of the engine that answers; "" before the first connection
	conns map[*conn]struct{}
	other string    // an engine that answers at the address instead
	since time.Time // since when
}

// watchDials makes t dial through a new watcher. It must be called before t is used, and t must
// not go through an HTTP proxy, which would answer the question itself: watchDials turns
// proxies off.
func watchDials(t *http.Transport) *watcher {
	w := &watcher{now: time.Now, conns: make(map[*conn]struct{})}
	dial := t.DialContext
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	t.Proxy = nil
	t.DialContext = w.wrap(dial)
	if t.TLSClientConfig != nil {
		t.DialTLSContext = w.wrap(secure(dial, t.TLSClientConfig))
	}
	return w
}

// secure adds TLS to what dial returns.
func secure(dial dialFunc, config *tls.Config) dialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		raw, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		c := config.Clone()
		if host, _, err := net.SplitHostPort(addr); err == nil && c.ServerName == "" {
			c.ServerName = host
		}
		secured := tls.Client(raw, c)
		if err := secured.HandshakeContext(ctx); err != nil {
			raw.Close()
			return nil, err
		}
		return secured, nil
	}
}

// wrap returns a dial that refuses connections to another engine than the one that
// answers so far.
func (w *watcher) wrap(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		raw, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		id, err := ask(ctx, raw)
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

// admit decides whether a connection to that engine may be used.
func (w *watcher) admit(raw net.Conn, id string) (*conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.id == "" || w.id == id:
		w.other = ""
	case w.other != id:
		// The engine has changed. What is under way fails, and nobody gets an answer of
		// the former engine from now on.
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
	c := &conn{Conn: raw, watch: w}
	w.conns[c] = struct{}{}
	return c, nil
}

// ID returns the id of the engine that has answered all calls so far, or "" if there
// was none. It fails while another engine has taken its place and is not accepted yet.
func (w *watcher) ID() (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.other != "" {
		return "", w.changed()
	}
	return w.id, nil
}

// changed is the error while another engine answers. The caller holds the lock.
func (w *watcher) changed() error {
	return &ChangedError{Was: w.id, Is: w.other, Since: w.since}
}

// ChangedError says that another engine has taken the place of the former one.
type ChangedError struct {
	Was, Is string
	Since   time.Time
}

// Error implements error.
func (e *ChangedError) Error() string {
	return fmt.Sprintf("another Docker engine, %s, answers at this address since %s instead of %s; it is asked nothing for %s",
		e.Is, e.Since.UTC().Format(time.RFC3339), e.Was, Settle)
}

// conn is a connection to a known engine.
type conn struct {
	net.Conn
	watch *watcher
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.watch.mu.Lock()
	delete(c.watch.conns, c)
	c.watch.mu.Unlock()
	return c.Conn.Close()
}

// ask asks for the engine's id on a new connection, which can be used afterwards.
//
// The id has two parts. What the engine calls its id names the machine rather than the
// data: before version 23, and on a machine that was updated since, it comes from
// /etc/docker/key.json, and stays the same when the data folder is not mounted. The
// network "none" is in the data folder, gets its id when that is made, and cannot be
// removed.
func ask(ctx context.Context, c net.Conn) (id string, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("asking the engine for its id: %w", err)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	deadline, _ := ctx.Deadline()
	if err := c.SetDeadline(deadline); err != nil {
		return "", err
	}
	interrupt := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	defer interrupt()
	var info struct{ ID string }
	if found, err := get(c, "/info", &info); err != nil {
		return "", err
	} else if !found || info.ID == "" {
		return "", errors.New("GET /info: the engine has no id")
	}
	var none struct{ ID string }
	if _, err := get(c, "/networks/none", &none); err != nil {
		return "", err
	}
	if !interrupt() { // ctx has ended, and its deadline may still be set
		return "", ctx.Err()
	}
	if none.ID != "" { // another program with Docker's API may have no such network
		info.ID += "/" + none.ID[:min(len(none.ID), dataIDLength)]
	}
	return info.ID, c.SetDeadline(time.Time{})
}

// get makes a request on a connection, and decodes the answer into v. It reports whether
// the engine has something at the path.
func get(c net.Conn, path string, v any) (found bool, err error) {
	// Without a version in the path, which is not negotiated yet.
	req, err := http.NewRequest(http.MethodGet, "http://docker"+path, nil)
	if err != nil {
		return false, err
	}
	if err := req.Write(c); err != nil {
		return false, err
	}
	r := bufio.NewReader(c)
	resp, err := http.ReadResponse(r, req)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxInfo))
	if err != nil {
		return false, err
	}
	switch {
	case resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusNotFound:
		return false, fmt.Errorf("GET %s: %s: %.200s; the engine, or a proxy before it, must allow this request", path, resp.Status, body)
	case resp.Close || r.Buffered() > 0:
		return false, fmt.Errorf("GET %s: the connection cannot be used for more than one request", path)
	case resp.StatusCode == http.StatusNotFound:
		return false, nil
	}
	if err := json.Unmarshal(body, v); err != nil {
		return false, fmt.Errorf("GET %s: %w", path, err)
	}
	return true, nil
}
