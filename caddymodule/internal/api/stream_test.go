package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/codehub/gateway/caddymodule/internal/api"
	"github.com/codehub/gateway/caddymodule/internal/api/apitest"
	"github.com/codehub/gateway/coordinator/wait"
)

// eventReader reads an open event stream.
type eventReader struct {
	t    *testing.T
	buf  *bufio.Reader
	seen []event // everything read so far
}

type event struct {
	name, id string
	data     map[string]any
}

// openStream opens the event stream, which ends with the test at the latest.
func openStream(t *testing.T, c *apitest.Client, header ...string) *eventReader {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait.Timeout)
	t.Cleanup(cancel)
	res := c.Open(ctx, "GET", "/api/v1/events", nil, header...)
	t.Cleanup(func() { _ = res.Body.Close() })
	if res.StatusCode != 200 || res.Header.Get("Content-Type") != "text/event-stream" || res.Header.Get("X-Accel-Buffering") != "no" {
		t.Fatalf("status %d, %v", res.StatusCode, res.Header)
	}
	return &eventReader{t: t, buf: bufio.NewReader(res.Body)}
}

// next returns the next event; it reports false at the end of the stream.
func (r *eventReader) next() (event, bool) {
	r.t.Helper()
	var e event
	for {
		line, err := r.buf.ReadString('\n')
		if err == io.EOF {
			return e, false
		}
		if err != nil {
			r.t.Fatalf("reading the stream: %v", err)
		}
		line = strings.TrimSuffix(line, "\n")
		if name, ok := strings.CutPrefix(line, "event: "); ok {
			e.name = name
		} else if id, ok := strings.CutPrefix(line, "id: "); ok {
			e.id = id
		} else if data, ok := strings.CutPrefix(line, "data: "); ok {
			if err := json.Unmarshal([]byte(data), &e.data); err != nil {
				r.t.Fatalf("%v: %s", err, data)
			}
		} else if line == "" {
			r.seen = append(r.seen, e)
			return e, true
		}
	}
}

// until returns the next event of this name that has the fields of want. Others may come before: an
// object may be sent again unchanged.
func (r *eventReader) until(name string, want map[string]any) map[string]any {
	r.t.Helper()
next:
	for {
		e, ok := r.next()
		if !ok {
			r.t.Fatalf("the stream has ended before a %s with %v; there were %v", name, want, r.seen)
		}
		if e.name != name {
			continue
		}
		for field, v := range want {
			if e.data[field] != v {
				continue next
			}
		}
		return e.data
	}
}

// end reads until the stream ends; heartbeats may come before.
func (r *eventReader) end() {
	r.t.Helper()
	for {
		e, ok := r.next()
		if !ok {
			return
		}
		if e.name != "heartbeat" {
			r.t.Fatalf("got %s %v, want the end", e.name, e.data)
		}
	}
}

func TestEventsBeginWithThePresentList(t *testing.T) {
	in := newHarness(t)
	ann, bob := in.signedIn("ann"), in.signedIn("bob")
	in.anyone().Do("GET", "/api/v1/events", nil).Problem(t, 401, "not-signed-in")
	one, two := ann.Create("one"), ann.Create("two")

	s := openStream(t, ann)
	for _, want := range []map[string]any{two, one} {
		e, _ := s.next()
		if e.name != "workspace_updated" || e.data["id"] != want["id"] || e.data["url"] != want["url"] || len(e.data) != len(want) {
			t.Fatalf("got %s %v, want %v", e.name, e.data, want)
		}
	}
	if e, _ := s.next(); e.name != "heartbeat" || len(e.data) != 0 {
		t.Fatalf("got %s %v, want the heartbeat that ends the list", e.name, e.data)
	}

	others := bob.Create("not ann's")
	in.exec("UPDATE workspaces SET phase = 'RUNNING', endpoint = '10.0.0.9:8080' WHERE id = $1", one["id"])
	s.until("workspace_updated", map[string]any{"id": one["id"], "phase": "RUNNING", "name": "one", "url": one["url"]})
	ann.Do("PATCH", apitest.WorkspacePath(two), map[string]any{"name": "renamed"})
	s.until("workspace_updated", map[string]any{"id": two["id"], "name": "renamed"})
	ann.Do("DELETE", apitest.WorkspacePath(two), nil)
	if w := s.until("workspace_deleted", map[string]any{"id": two["id"]}); len(w) != 1 {
		t.Errorf("got %v", w)
	}
	for _, e := range s.seen {
		if e.data["id"] == others["id"] {
			t.Errorf("ann got bob's %v", e)
		}
	}
}

// An administrator may see all workspaces, but the stream has only the user's own.
func TestEventsAreTheUsersOwn(t *testing.T) {
	in := newHarness(t)
	ann, admin := in.signedIn("ann"), in.signedIn("admin")
	ann.Create("ann's")
	s := openStream(t, admin)
	if e, _ := s.next(); e.name != "heartbeat" {
		t.Fatalf("got %s %v", e.name, e.data)
	}
	s.until("workspace_updated", map[string]any{"id": admin.Create("mine")["id"]})
	for _, e := range s.seen {
		if e.data["name"] == "ann's" {
			t.Errorf("got %v", e)
		}
	}
}

func TestEventsEndWithTheSession(t *testing.T) {
	in := newHarness(t, func(o *api.Options) { o.Heartbeat = 50 * time.Millisecond })
	ann := in.signedIn("ann")
	s := openStream(t, ann)
	for range 3 { // heartbeats go on
		if e, ok := s.next(); !ok || e.name != "heartbeat" {
			t.Fatalf("got %v, %v", e, ok)
		}
	}
	if a := ann.Do("POST", "/api/v1/auth/logout", nil); a.StatusCode != 204 {
		t.Fatalf("status %d", a.StatusCode)
	}
	s.end()
}

// A session may have as many streams as a person opens tabs, but no more, which bounds the memory.
func TestEventStreamsOfASessionAreBounded(t *testing.T) {
	in := newHarness(t)
	ann, bob := in.signedIn("ann"), in.signedIn("bob")
	elsewhere := in.anyone()
	elsewhere.SignIn("ann", testPassword)
	last, end := context.WithCancel(t.Context())
	for range 63 {
		openStream(t, ann)
	}
	res := ann.Open(last, "GET", "/api/v1/events", nil)
	defer res.Body.Close()
	another := ann.Open(last, "GET", "/api/v1/events", nil)
	defer another.Body.Close()
	if another.StatusCode == 200 {
		t.Fatal("there is no bound")
	}
	for range 2 {
		a := ann.Do("GET", "/api/v1/events", nil)
		p := a.Problem(t, 429, "too-many-streams")
		if p["limit"] != 64.0 || p["retry_after"] != 15.0 || a.Header.Get("Retry-After") != "15" {
			t.Errorf("%v %s", a.Header, a.Text)
		}
	}
	openStream(t, bob)
	openStream(t, elsewhere) // another session of the user
	end()
	wait.Until(t, "there is room again", func() bool { return ann.Do("HEAD", "/api/v1/events", nil).StatusCode == 200 })
	openStream(t, ann).until("heartbeat", nil)
}

// An open stream must not delay a reload or a stop.
func TestEventsEndWhenTheServerStops(t *testing.T) {
	stopping := make(chan struct{})
	in := newHarness(t, func(o *api.Options) { o.Stopping = stopping })
	s := openStream(t, in.signedIn("ann"))
	s.until("heartbeat", nil)
	close(stopping)
	s.end()
}

func TestEventsAreSentWhole(t *testing.T) {
	in := newHarness(t)
	ann := in.signedIn("ann")
	memo := "a\n\nevent: forged\ndata: {}\n\n"
	w := ann.Create("lines")
	if a := ann.Do("PATCH", apitest.WorkspacePath(w), map[string]any{"memo": memo}); a.StatusCode != 200 {
		t.Fatalf("status %d: %s", a.StatusCode, a.Text)
	}
	s := openStream(t, ann)
	s.until("workspace_updated", map[string]any{"memo": memo})
	s.until("heartbeat", nil)
}

// A client that may have missed events gets the current list again, and learns which workspaces are
// gone.
func TestEventsBeginAnewAfterAGap(t *testing.T) {
	in := newHarness(t)
	ann := in.signedIn("ann")
	kept, lost := ann.Create("kept"), ann.Create("lost")
	s := openStream(t, ann)
	s.until("heartbeat", nil)
	in.exec("ALTER TABLE workspaces DISABLE TRIGGER USER") // no notification, so it is missed
	in.exec("UPDATE workspaces SET name = 'renamed' WHERE id = $1", kept["id"])
	in.exec("UPDATE workspaces SET desired_state = 'DELETED', deleted_at = now() WHERE id = $1", lost["id"])
	in.hub.Reset(0)
	// The two events may come in either order. Suppose that the notification that the workspace was created arrives
	// late. The stream then finds that the workspace has been deleted, and tells the client before it sends the current
	// list.
	for renamed, gone := false, false; !renamed || !gone; {
		e, ok := s.next()
		if !ok {
			t.Fatalf("the stream has ended; there were %v", s.seen)
		}
		renamed = renamed || e.name == "workspace_updated" && e.data["id"] == kept["id"] && e.data["name"] == "renamed"
		gone = gone || e.name == "workspace_deleted" && e.data["id"] == lost["id"]
	}
}

// A desired state is also sent before the controller has acted on it.
func TestEventsShowTheDesiredState(t *testing.T) {
	in := newHarness(t)
	ann := in.signedIn("ann")
	w := ann.Create("one")
	s := openStream(t, ann)
	s.until("heartbeat", nil)
	if a := ann.Do("PATCH", apitest.WorkspacePath(w), map[string]any{"desired_state": "STANDBY"}); a.StatusCode != 200 {
		t.Fatalf("status %d: %s", a.StatusCode, a.Text)
	}
	s.until("workspace_updated", map[string]any{"id": w["id"], "desired_state": "STANDBY"})
}

// A HEAD request shows that the stream exists, and keeps no connection open.
func TestEventsAnswerHEAD(t *testing.T) {
	in := newHarness(t)
	a := in.signedIn("ann").Do("HEAD", "/api/v1/events", nil)
	if a.StatusCode != 200 || a.Header.Get("Content-Type") != "text/event-stream" || len(a.Text) != 0 {
		t.Errorf("status %d, %v", a.StatusCode, a.Header)
	}
}

// The progress of a storage job is sent as an event. The object in it is the same as in other answers.
func TestEventsShowProgress(t *testing.T) {
	in := newHarness(t)
	ann := in.signedIn("ann")
	w := ann.Create("one")
	if p, ok := w["progress"]; !ok || p != nil {
		t.Errorf("the progress of a new workspace is %v", p)
	}
	s := openStream(t, ann)
	s.until("heartbeat", nil)
	in.exec(`UPDATE workspaces SET operation = 'RESTORING', op_started_at = now(), progress =
		'{"step": "unpack", "bytes": 100, "files": 7, "done": 63, "total": 100, "rate": 1, "at": "2026-05-06T07:08:09Z"}' WHERE id = $1`, w["id"])
	want := map[string]any{
		"step": "unpack", "percent": 63.0, "bytes": 63.0, "total_bytes": 100.0, "bytes_per_second": 1.0, "seconds_left": 37.0,
		"files": 7.0, "updated_at": "2026-05-06T07:08:09Z",
		"text": map[string]any{"en": "downloading and unpacking, 63 B of 100 B · 1 B/s · 37 s left", "ko": "내려받아 푸는 중, 100 B 중 63 B · 1 B/s · 37초 남음"},
	}
	got := s.until("workspace_updated", map[string]any{"id": w["id"], "operation": "RESTORING"})
	progress, _ := got["progress"].(map[string]any)
	if text, ok := progress["text"].(map[string]any); ok { // what other files of languages add
		maps.DeleteFunc(text, func(lang string, _ any) bool { return lang != "en" && lang != "ko" })
	}
	if !reflect.DeepEqual(progress, want) {
		t.Errorf("the event shows %v", got["progress"])
	}
	in.exec(`UPDATE workspaces SET progress = '{"step": "swap", "bytes": 100, "files": 7, "done": 0, "at": "2026-05-06T07:08:09Z"}' WHERE id = $1`, w["id"])
	p := ann.Do("GET", apitest.WorkspacePath(w), nil).Object(t)["progress"].(map[string]any)
	for _, unknown := range []string{"percent", "total_bytes", "bytes_per_second", "seconds_left"} {
		if v, ok := p[unknown]; !ok || v != nil {
			t.Errorf("%s is %v", unknown, v)
		}
	}
}
