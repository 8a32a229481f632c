package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/codehub/gateway/caddymodule/internal/problem"
	"github.com/codehub/gateway/coordinator/dataplane/auth"
	"github.com/codehub/gateway/coordinator/dataplane/events"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/words"
	"github.com/codehub/gateway/coordinator/workspace"
)

// streamWriteTimeout is how long one write to an event stream may take. A client
// that does not read for that long is dropped.
const streamWriteTimeout = 30 * time.Second

// maxStreams is how many event streams a session may have open: one per tab with the dashboard,
// and some whose loss is not noticed yet. Each takes memory here, and the database is asked for
// each.
const maxStreams = 64

// refusedStream is after how many seconds a client asks again for a stream that was refused.
const refusedStream = 15

// streams counts what is open, such as event streams by session.
type streams struct {
	mu   sync.Mutex
	open map[string]int
}

// take counts one more of the session or user, or reports false if there are so many.
func (s *streams) take(session string, most int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = make(map[string]int)
	}
	if s.open[session] >= most {
		return false
	}
	s.open[session]++
	return true
}

// give takes back what take has counted.
func (s *streams) give(session string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[session]--; s.open[session] == 0 {
		delete(s.open, session)
	}
}

// errStreamEnd ends a stream on the server's side; the client connects again.
var errStreamEnd = errors.New("the stream ends")

// stream is one open event stream.
type stream struct {
	*call
	control *http.ResponseController
	binding auth.Stream // to the session
	buf     bytes.Buffer
	// known are the workspaces that were sent and are not deleted.
	known map[workspace.ID]struct{}
}

// events is GET /events. It streams the user's workspaces: first the present list, then changes as
// whole objects (SPEC 9). The first heartbeat follows the list, so that a client
// that connects again knows which workspaces are gone. The stream ends with the
// session, when the client is too slow, and when the server stops or loads a new
// configuration; clients connect again. A session that has [maxStreams] gets no other.
func (c *call) events() error {
	session := c.grant.Session()
	if !c.streams.take(session, maxStreams) {
		c.fromMemory = true
		p := problem.Streams.With("problem.limit_streams", words.Values{"Limit": maxStreams})
		p.Limit, p.RetryAfter = maxStreams, refusedStream
		return p
	}
	defer c.streams.give(session)
	// Subscribe before listing: a change in between is sent twice, never missed.
	changes, cancel := c.Hub.Subscribe(c.user.ID)
	defer cancel()
	s := &stream{call: c, control: http.NewResponseController(c.w), known: make(map[workspace.ID]struct{})}
	if !c.grant.Attach(&s.binding, s) {
		return auth.ErrNoSession
	}
	defer s.binding.Detach()
	if err := s.list(); err != nil {
		return err
	}
	c.away.Recovered()
	c.fromMemory = true // when the stream ends
	h := c.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	c.w.WriteHeader(http.StatusOK)
	if c.r.Method == http.MethodHead {
		return nil
	}
	// An answer that has begun cannot report an error: the client connects again.
	if err := s.follow(changes); errors.Is(err, auth.ErrNoSession) {
		// End has made writes impossible: let the client see a regular end.
		s.binding.Detach()
		_ = s.control.SetWriteDeadline(time.Now().Add(time.Second))
	}
	return nil
}

// End implements [auth.Ender]: a client that takes nothing must not keep the stream open.
func (s *stream) End() { _ = s.control.SetWriteDeadline(time.Unix(1, 0)) }

// follow sends changes and heartbeats until the stream ends, and returns why.
func (s *stream) follow(changes <-chan events.Event) error {
	if err := s.heartbeat(); err != nil {
		return err
	}
	ticker := time.NewTicker(s.Heartbeat)
	defer ticker.Stop()
	for {
		var err error
		select {
		case <-s.r.Context().Done():
			return s.r.Context().Err()
		case <-s.Stopping:
			return errStreamEnd
		case <-s.grant.Ended():
			return auth.ErrNoSession
		case <-ticker.C:
			_, sessionErr := s.sessionGrant(s.r, &s.at)
			if errors.Is(sessionErr, auth.ErrNoSession) {
				return sessionErr
			}
			err = s.heartbeat()
		case e, ok := <-changes:
			if !ok {
				return errStreamEnd
			}
			err = s.changed(e, changes)
		}
		if err != nil {
			return err
		}
	}
}

// changed sends the workspaces that e and the events queued behind it concern.
// Several events of one workspace become one, because its present state is sent.
func (s *stream) changed(e events.Event, more <-chan events.Event) error {
	pending := []events.Event{e}
	for n := len(more); n > 0; n-- {
		if e, ok := <-more; ok {
			pending = append(pending, e)
		}
	}
	done := make(map[workspace.ID]struct{})
	for _, e := range pending {
		if e.Type == events.Resync {
			if err := s.resync(); err != nil {
				return err
			}
			return s.flush()
		}
		if _, again := done[e.ID]; again {
			continue
		}
		done[e.ID] = struct{}{}
		if err := s.one(e.ID); err != nil {
			return err
		}
	}
	return s.flush()
}

// one adds the present state of one workspace.
func (s *stream) one(id workspace.ID) error {
	ctx, cancel := context.WithTimeout(s.r.Context(), s.DatabaseTimeout)
	defer cancel()
	w, err := s.Service.Get(ctx, s.self(), id)
	switch {
	case errors.Is(err, service.ErrNotFound):
		return s.gone(id)
	case err != nil:
		return fmt.Errorf("reading a workspace that changed: %w", err)
	case w.Deleted():
		return s.gone(id)
	}
	return s.updated(w)
}

// list adds all workspaces, newest first.
func (s *stream) list() error {
	ctx, cancel := context.WithTimeout(s.r.Context(), s.DatabaseTimeout)
	defer cancel()
	cursor := ""
	for {
		items, next, err := s.Service.List(ctx, s.self(), service.ListOptions{}, service.MaxPage, cursor)
		if err != nil {
			return err
		}
		for _, w := range items {
			if err := s.updated(w.Workspace); err != nil {
				return err
			}
		}
		if next == "" {
			return nil
		}
		cursor = next
	}
}

// resync sends everything again because events may have been lost.
func (s *stream) resync() error {
	before := s.known
	s.known = make(map[workspace.ID]struct{}, len(before))
	if err := s.list(); err != nil {
		return err
	}
	for id := range before {
		if _, still := s.known[id]; !still {
			if err := s.add("workspace_deleted", deletedBody{id}); err != nil {
				return err
			}
		}
	}
	return nil
}

type deletedBody struct {
	ID workspace.ID `json:"id"`
}

// updated adds a workspace as it is now.
func (s *stream) updated(w workspace.Workspace) error {
	s.known[w.ID] = struct{}{}
	return s.add("workspace_updated", s.body(w))
}

// gone adds that a workspace was deleted, if the client knows it.
func (s *stream) gone(id workspace.ID) error {
	if _, ok := s.known[id]; !ok {
		return nil
	}
	delete(s.known, id)
	return s.add("workspace_deleted", deletedBody{id})
}

// heartbeat sends a heartbeat. It keeps proxies from closing an idle connection, and
// shows the client that it still works.
func (s *stream) heartbeat() error {
	if err := s.add("heartbeat", struct{}{}); err != nil {
		return err
	}
	return s.flush()
}

// add appends an event, as JSON on one line: no text of a user can forge an event.
func (s *stream) add(name string, data any) error {
	b, err := json.Marshal(data)
	if err != nil {
		return fmt.Errorf("encoding an event: %w", err)
	}
	fmt.Fprintf(&s.buf, "event: %s\ndata: %s\n\n", name, b)
	return nil
}

// flush sends what was added, in one write.
func (s *stream) flush() error {
	if s.buf.Len() == 0 {
		return nil
	}
	// Servers may limit how long an answer takes; here the limit is per write.
	err := s.control.SetWriteDeadline(time.Now().Add(streamWriteTimeout))
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	select {
	case <-s.grant.Ended(): // perhaps before the deadline above, which replaced that of End
		return auth.ErrNoSession
	default:
	}
	if _, err := s.w.Write(s.buf.Bytes()); err != nil {
		return err
	}
	s.buf.Reset()
	return s.control.Flush()
}
