package api

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/codehub/gateway/coordinator/dataplane/auth"
	"github.com/codehub/gateway/coordinator/dataplane/events"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
)

// streamWriteTimeout is how long one write to an event stream may take. A client
// that does not read for that long is dropped.
const streamWriteTimeout = 30 * time.Second

// maxStreams is how many event streams a session may have open: one per dashboard tab, and a few whose loss the server
// has not noticed yet. Each uses memory here and queries the database.
const maxStreams = 64

// streamPage is how many workspaces a stream reads and holds in memory at a time.
const streamPage = 50

// refusedStream is the number of seconds after which a client retries a refused stream.
const refusedStream = 15

// streams counts open things per key, such as event streams per session.
type streams struct {
	mu   sync.Mutex
	open map[string]int
}

// take counts one more open thing for the session or user. It reports false if the maximum is reached already.
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

// give undoes take.
func (s *streams) give(session string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[session]--; s.open[session] == 0 {
		delete(s.open, session)
	}
}

// errStreamEnd ends a stream on the server's side; the client connects again.
var errStreamEnd = errors.New("the stream ends")

// The events that show that the stream works. A resumed stream sends resumed instead of heartbeat, because clients
// treat the first heartbeat as the end of the whole list.
const (
	heartbeat = "heartbeat"
	resumed   = "resumed"
)

// anew is the id of the events that make up a whole list. A client that loses its connection before the end of the list
// gets the list from the beginning.
const anew = "0"

// stream is one open event stream.
type stream struct {
	*call
	control *http.ResponseController
	binding auth.Stream // to the session
	alive   string      // the event that shows that it works: heartbeat or resumed
	// position is the position up to which the client knows everything.
	position store.Position
	// read is the last revision before the missing changes were read.
	read int64
	// id is the next event's: from it the client can resume.
	id   string
	head []byte // reused for every event
}

// events is GET /events. It streams the user's workspaces: first the current list, then changes as whole objects (SPEC
// 9). The first heartbeat follows the list, so that a reconnecting client knows which workspaces are gone. If the
// request has the Last-Event-ID of an earlier stream and the changes since then are known, they replace the list,
// deletions included. The stream ends with the session, when the client is too slow, and when the server stops or loads
// a new configuration; clients reconnect. A session that already has [maxStreams] streams gets no further one.
func (c *call) events() error {
	if err := c.takeStream(); err != nil {
		return err
	}
	defer c.streams.give(c.grant.Session())
	// Subscribe before reading: a change in between is sent twice, never missed.
	s := &stream{call: c, control: http.NewResponseController(c.w)}
	changes, cancel := c.Hub.Subscribe(c.user.ID, s.End)
	defer cancel()
	if !c.grant.Attach(&s.binding, s) {
		return auth.ErrNoSession
	}
	defer s.binding.Detach()
	next, now, err := s.begin(c.r.Header.Get("Last-Event-ID"))
	if err != nil {
		return err
	}
	s.alive = heartbeat
	if s.id != anew {
		s.alive = resumed
	}
	page, err := next()
	if err != nil {
		return err
	}
	c.away.Recovered()
	c.fromMemory = true // when the stream ends
	streamHeader(c.w.Header())
	c.w.WriteHeader(http.StatusOK)
	if c.r.Method == http.MethodHead {
		return nil
	}
	// An answer that has begun cannot report an error: the client reconnects.
	err = s.send(page, next)
	if err == nil {
		s.reached(now)
		err = s.follow(changes)
	}
	if errors.Is(err, auth.ErrNoSession) {
		// End has made writes impossible. They are possible again from here on, so that the client sees a regular end.
		s.binding.Detach()
		_ = s.control.SetWriteDeadline(time.Now().Add(time.Second))
	}
	return nil
}

// streamHeader marks the answer as a stream of events, which proxies must not buffer.
func streamHeader(h http.Header) {
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
}

// End implements [auth.Ender], and ends a slow stream: a client that reads nothing must not keep it open.
func (s *stream) End() { _ = s.control.SetWriteDeadline(time.Unix(1, 0)) }

// reader reads workspaces page by page. After the last page it returns an empty page.
type reader func() ([]workspace.Workspace, error)

// begin finds the events that the client has missed since its earlier stream. last is the id of the last event that the
// client received. The missed events are the changes since then, or the whole list if the id is unknown here. After
// these events the client is up to date.
func (s *stream) begin(last string) (next reader, now store.Position, err error) {
	ctx, cancel := context.WithTimeout(s.r.Context(), s.DatabaseTimeout)
	defer cancel()
	if now, err = s.Service.Position(ctx); err != nil {
		return nil, now, err
	}
	s.read = now.Revision
	origin, oldest, _ := strings.Cut(last, "-")
	before := store.Position{Origin: now.Origin}
	before.Oldest, err = strconv.ParseUint(oldest, 10, 64)
	if err != nil || origin != s.origin(now) || !now.Follows(before) {
		s.id = anew
		return s.list(), now, nil
	}
	s.id = last
	return s.since(before), now, nil
}

// origin identifies the streams in which the id of an event is valid. They read the same database, belong to the same
// user, and send workspaces in the same form.
func (s *stream) origin(p store.Position) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %+v", p.Origin, s.user.ID, s.view("")))
	return fmt.Sprintf("%x", sum[:8])
}

// reached tells the client that it knows everything up to p, if p is new.
func (s *stream) reached(p store.Position) {
	if p.Oldest > s.position.Oldest {
		s.position, s.id = p, s.origin(p)+"-"+strconv.FormatUint(p.Oldest, 10)
	}
}

// list returns all workspaces, newest first.
func (s *stream) list() reader {
	cursor, last := "", false
	return func() (page []workspace.Workspace, err error) {
		if last {
			return nil, nil
		}
		ctx, cancel := context.WithTimeout(s.r.Context(), s.DatabaseTimeout)
		defer cancel()
		items, next, err := s.Service.List(ctx, s.self(), service.ListOptions{}, streamPage, cursor)
		for _, w := range items {
			page = append(page, w.Workspace)
		}
		cursor, last = next, next == ""
		return page, err
	}
}

// since returns the workspaces that have changed since a position. They include deleted workspaces.
func (s *stream) since(p store.Position) reader {
	after, last := workspace.ID(""), false
	return func() ([]workspace.Workspace, error) {
		if last {
			return nil, nil
		}
		ctx, cancel := context.WithTimeout(s.r.Context(), s.DatabaseTimeout)
		defer cancel()
		page, err := s.Service.ChangedSince(ctx, s.self(), p, after, streamPage)
		if last = len(page) < streamPage; !last {
			after = page[streamPage-1].ID
		}
		return page, err
	}
}

// send sends the page and all that follow.
func (s *stream) send(page []workspace.Workspace, next reader) (err error) {
	for len(page) > 0 && err == nil {
		for _, w := range page {
			if err := s.sendOne(w); err != nil {
				return err
			}
		}
		page, err = next()
	}
	return err
}

// sendOne sends the current state of one workspace.
func (s *stream) sendOne(w workspace.Workspace) error {
	if w.Deleted() {
		return s.gone(w.ID)
	}
	data, err := frame(s.body(w))
	if err != nil {
		return err
	}
	return s.event("workspace_updated", data)
}

// follow sends changes and heartbeats until the stream ends, and returns why.
func (s *stream) follow(changes <-chan events.Change) error {
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
			if passed := s.Hub.Position(); len(changes) == 0 {
				s.reached(passed)
			}
			err = s.heartbeat()
		case c, ok := <-changes:
			if !ok {
				return errStreamEnd
			}
			err = s.changed(c, changes)
		}
		if err != nil {
			return err
		}
	}
}

// changed sends the workspaces that have changed according to c and to the changes queued behind c. Several changes of
// one workspace become one event, because its current state is sent.
func (s *stream) changed(c events.Change, more <-chan events.Change) error {
	passed := s.Hub.Position()
	pending := []events.Change{c}
	latest := map[workspace.ID]events.Change{c.ID: c}
	for n := len(more); n > 0; n-- {
		if c, ok := <-more; ok {
			pending = append(pending, c)
			latest[c.ID] = c
		}
	}
	if _, lost := latest[""]; lost {
		if err := s.resync(); err != nil {
			return err
		}
		return s.flush()
	}
	for _, c := range pending {
		c, unsent := latest[c.ID]
		if !unsent {
			continue
		}
		delete(latest, c.ID)
		if err := s.one(c); err != nil {
			return err
		}
	}
	s.reached(passed) // of the next event
	return s.flush()
}

// one sends the current state of a changed workspace. The event is read and encoded once for all
// streams that send the same.
func (s *stream) one(c events.Change) error {
	if c.Revision <= s.read {
		return s.again(c.ID)
	}
	if c.Type == events.Deleted {
		return s.gone(c.ID)
	}
	w, found, err := c.Workspace(s.several)
	switch {
	case err != nil:
		return err
	case !found || w.Deleted():
		return s.gone(c.ID)
	}
	data, err := c.Once(s.view(c.ID), func() ([]byte, error) { return frame(s.body(w)) })
	if err != nil {
		return err
	}
	return s.event("workspace_updated", data)
}

// again reads a workspace and sends it. The change that caused this may be older than the client's state. Suppose that
// a workspace was deleted and then undeleted. If the deletion were passed on, a client that disconnects before the next
// event would lack the workspace.
func (s *stream) again(id workspace.ID) error {
	present, err := s.several([]workspace.ID{id})
	if err != nil {
		return err
	}
	if len(present) == 0 {
		return s.gone(id)
	}
	return s.sendOne(present[0])
}

// several reads workspaces. It continues when the client disconnects, because other streams wait for the same result.
func (s *stream) several(ids []workspace.ID) ([]workspace.Workspace, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.r.Context()), s.DatabaseTimeout)
	defer cancel()
	present, err := s.Service.Several(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("reading the workspaces that changed: %w", err)
	}
	return present, nil
}

// resync is called after events were lost. It sends the client everything that it may have missed. If the client needs
// the whole list, the stream ends, because the client handles a new list only after it reconnects.
func (s *stream) resync() error {
	next, now, err := s.begin(s.id)
	if err != nil {
		return err
	}
	if s.id == anew {
		return errStreamEnd
	}
	page, err := next()
	if err != nil {
		return err
	}
	if err := s.send(page, next); err != nil {
		return err
	}
	s.reached(now)
	return nil
}

type deletedBody struct {
	ID workspace.ID `json:"id"`
}

// gone sends that a workspace was deleted.
func (s *stream) gone(id workspace.ID) error {
	data, err := frame(deletedBody{id})
	if err != nil {
		return err
	}
	return s.event("workspace_deleted", data)
}

// heartbeat sends a heartbeat. It keeps proxies from closing an idle connection, and shows the client that the stream
// still works.
func (s *stream) heartbeat() error {
	if err := s.event(s.alive, []byte("data: {}\n\n")); err != nil {
		return err
	}
	return s.flush()
}

// frame returns an event's data, as JSON on one line: no text of a user can forge an event.
func frame(data any) ([]byte, error) {
	b, err := json.Marshal(data)
	if err != nil {
		return nil, fmt.Errorf("encoding an event: %w", err)
	}
	return fmt.Appendf(nil, "data: %s\n\n", b), nil
}

// event writes an event. Events that the client does not read are not buffered here.
func (s *stream) event(name string, data []byte) error {
	if err := mayWrite(s.control, s.grant.Ended()); err != nil {
		return err
	}
	s.head = fmt.Appendf(s.head[:0], "event: %s\nid: %s\n", name, s.id)
	if _, err := s.w.Write(s.head); err != nil {
		return err
	}
	_, err := s.w.Write(data)
	return err
}

// flush sends the events written so far.
func (s *stream) flush() error { return s.control.Flush() }
