package api_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/codehub/gateway/caddymodule/internal/api"
	"github.com/codehub/gateway/caddymodule/internal/api/apitest"
	"github.com/codehub/gateway/coordinator/seed"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// told reads the stream until the client is up to date. It returns the event that says so, and the events before that
// one, keyed by the id of the workspace.
func (r *eventReader) told() (before map[any]string, end event) {
	r.t.Helper()
	before = make(map[any]string)
	for {
		e, ok := r.next()
		if !ok {
			r.t.Fatalf("the stream has ended; there were %v", r.seen)
		}
		if e.id == "" {
			r.t.Errorf("%v has no id", e)
		}
		if e.name == "heartbeat" || e.name == "resumed" {
			return before, e
		}
		before[e.data["id"]] = e.name
	}
}

// settle waits until no transaction is open that began before the last write, not even one of another test. Otherwise a
// resumed stream would send the writes again.
func (in *harness) settle() {
	in.t.Helper()
	wait.Until(in.t, "no transaction of before is open", func() (settled bool) {
		if err := in.db.QueryRow(in.t.Context(), `SELECT bool_and(xmin::text::bigint < pg_snapshot_xmin(pg_current_snapshot())::text::bigint)
			FROM workspaces`).Scan(&settled); err != nil {
			in.t.Fatal(err)
		}
		return settled
	})
}

func TestAStreamGoesOnWhereAnotherHasEnded(t *testing.T) {
	in := newHarness(t)
	ann := in.signedIn("ann")
	in.exec("UPDATE users SET max_running = 100")
	same, changed, deleted := ann.Create("same"), ann.Create("changed"), ann.Create("deleted")
	in.settle()
	list, end := openStream(t, ann).told()
	if len(list) != 3 || end.name != "heartbeat" {
		t.Fatalf("the list is %v, %v", list, end)
	}
	ann.Do("PATCH", apitest.WorkspacePath(changed), map[string]any{"memo": "new"})
	ann.Do("DELETE", apitest.WorkspacePath(deleted), nil)
	created := ann.Create("created")
	want := map[any]string{
		changed["id"]: "workspace_updated", deleted["id"]: "workspace_deleted", created["id"]: "workspace_updated",
	}
	// In another process, too.
	for _, process := range []*harness{in, in.another()} {
		client := process.anyone()
		client.Cookie = ann.Cookie
		in.settle()
		s := openStream(t, client, "Last-Event-ID: "+end.id)
		got, then := s.told()
		if !maps.Equal(got, want) || then.name != "resumed" || then.id == end.id {
			t.Errorf("got %v, %v; want %v", got, then, want)
		}
		if got, again := openStream(t, client, "Last-Event-ID: "+then.id).told(); len(got) != 0 || again.name != "resumed" {
			t.Errorf("without any change: %v, %v", got, again)
		}
		ann.Do("PATCH", apitest.WorkspacePath(same), map[string]any{"memo": time.Now().String()})
		s.until("workspace_updated", map[string]any{"id": same["id"]})
		want[same["id"]] = "workspace_updated"
	}
}

// A client whose last event id does not belong to this user and this database gets the whole list.
func TestAnIDThatIsNotKnownGetsTheWholeList(t *testing.T) {
	in, elsewhere := newHarness(t), newSerialHarness(t)
	ann, bob := in.signedIn("ann"), in.signedIn("bob")
	ann.Create("one")
	in.settle()
	_, mine := openStream(t, ann).told()
	_, his := openStream(t, bob).told()
	_, other := openStream(t, elsewhere.signedIn("ann")).told()
	origin, number, _ := strings.Cut(mine.id, "-")
	for name, id := range map[string]string{
		"none": "", "in a list": "0", "no number": origin + "-", "of nothing": "x", "negative": origin + "--1",
		"of another user": his.id, "of another database": other.id, "of the future": origin + "-9" + number,
		"without an origin": "-" + number, "long": strings.Repeat("9", 1<<12),
	} {
		if list, end := openStream(t, ann, "Last-Event-ID: "+id).told(); len(list) != 1 || end.name != "heartbeat" {
			t.Errorf("an id that is %s: %v, %v", name, list, end)
		}
	}
	if list, end := openStream(t, ann, "Last-Event-ID: "+mine.id).told(); len(list) != 0 || end.name != "resumed" {
		t.Errorf("her own id: %v, %v", list, end)
	}
	// After a backup has been restored into this server, the same transaction ids stand for other transactions.
	in.exec("VACUUM FULL workspaces") // as a restore does, this writes another file
	if list, end := openStream(t, ann, "Last-Event-ID: "+mine.id).told(); len(list) != 1 || end.name != "heartbeat" {
		t.Errorf("in a restored database: %v, %v", list, end)
	}
}

// A transaction begins before the stream begins, and commits after the stream has been cut.
func TestATransactionThatIsOpenMeanwhileIsNotMissed(t *testing.T) {
	in := newHarness(t)
	ann := in.signedIn("ann")
	late, early := ann.Create("late"), ann.Create("early")
	tx, err := in.db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := tx.Exec(t.Context(), "UPDATE workspaces SET memo = 'late' WHERE id = $1", late["id"]); err != nil {
		t.Fatal(err)
	}
	ann.Do("PATCH", apitest.WorkspacePath(early), map[string]any{"memo": "early"})
	_, end := openStream(t, ann).told()
	in.feed.RefreshAll()
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, _ := openStream(t, ann, "Last-Event-ID: "+end.id).told()
	if got[late["id"]] != "workspace_updated" {
		t.Errorf("got %v", got)
	}
}

// A feed may read a row first; then the stream reads and sends the list; and only then does the feed pass its row on.
func TestAChangeThatIsOlderThanTheListDoesNotUndoIt(t *testing.T) {
	in := newHarness(t)
	ann := in.signedIn("ann")
	w := ann.Create("one")
	id := workspace.ID(w["id"].(string))
	ann.Do("DELETE", apitest.WorkspacePath(w), nil)
	deleted, err := in.store.Routes(t.Context(), []workspace.ID{id})
	if err != nil || len(deleted) != 1 {
		t.Fatalf("the route is %v, %v", deleted, err)
	}
	ann.Do("POST", apitest.WorkspacePath(w)+"/undelete", nil)
	now, err := in.store.Position(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "the feed has passed on that the workspace is back", func() bool {
		in.feed.RefreshAll()
		return in.hub.Position().Revision >= now.Revision
	})
	s := openStream(t, ann)
	if list, _ := s.told(); len(list) != 1 {
		t.Fatalf("the list is %v", list)
	}
	in.hub.Changed(deleted, 0)
	for e, ok := s.next(); e.name != "workspace_updated"; e, ok = s.next() {
		if !ok || e.name == "workspace_deleted" {
			t.Fatalf("got %v, %v", e, ok)
		}
	}
}

// follower is a client that may be disconnected after any byte, and that reconnects to a random one of several
// processes.
type follower struct {
	t          *testing.T
	random     *rand.Rand
	clients    []*apitest.Client
	last       string
	workspaces map[string]map[string]any
	resumed    int // streams that resumed
}

// follow reads one stream until one of the limits is reached: a number of bytes, or a number of events. Without a limit
// it reads at least up to the first sign that the stream works.
func (f *follower) follow(bytes int64, events int) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), wait.Timeout)
	defer cancel()
	client := f.clients[f.random.IntN(len(f.clients))]
	var header []string
	if f.last != "" {
		header = append(header, "Last-Event-ID: "+f.last)
	}
	res := client.Open(ctx, "GET", "/api/v1/events", nil, header...)
	defer res.Body.Close()
	seen := make(map[string]bool) // nil once the client has caught up
	r := &eventReader{t: f.t, buf: bufio.NewReader(io.LimitReader(res.Body, bytes))}
	for n := 0; events == 0 && seen != nil || n < events; n++ {
		e, ok := r.next()
		if !ok {
			return
		}
		id, _ := e.data["id"].(string)
		switch e.name {
		case "workspace_updated":
			f.workspaces[id] = e.data
			if seen != nil {
				seen[id] = true
			}
		case "workspace_deleted":
			delete(f.workspaces, id)
		case "resumed":
			f.resumed++
			seen = nil
		case "heartbeat":
			if seen != nil {
				maps.DeleteFunc(f.workspaces, func(id string, _ map[string]any) bool { return !seen[id] })
			}
			seen = nil
		}
		f.last = e.id
	}
}

// A client applies events to its state, and is disconnected at random points. In the end it has the
// rows of the database: none missing, none stale, none deleted.
func TestAClientThatIsCutKnowsEverything(t *testing.T) {
	often := func(o *api.Options) { o.Heartbeat = 5 * time.Millisecond }
	in := newHarness(t, often)
	number := seed.New(t)
	random := seed.Source(number)
	ann := in.signedIn("ann")
	in.exec("UPDATE users SET max_running = 100")
	there := in.another(often)
	elsewhere := there.anyone()
	elsewhere.Cookie = ann.Cookie
	f := &follower{
		t: t, random: seed.Source(number + 1), clients: []*apitest.Client{ann, elsewhere},
		workspaces: make(map[string]map[string]any),
	}
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-done:
				return
			default:
				f.follow(f.random.Int64N(100_000), 1+f.random.IntN(60))
			}
		}
	}()
	var all []map[string]any
	for n := range 300 {
		if len(all) == 0 || len(all) < 50 && random.IntN(4) == 0 {
			all = append(all, ann.Create(fmt.Sprint("created ", n)))
			continue
		}
		w, other := all[random.IntN(len(all))], all[random.IntN(len(all))]
		patch := func(w map[string]any) {
			ann.Do("PATCH", apitest.WorkspacePath(w), map[string]any{"memo": fmt.Sprint("changed ", n)})
		}
		switch random.IntN(6) {
		case 0:
			ann.Do("DELETE", apitest.WorkspacePath(w), nil)
		case 1:
			ann.Do("POST", apitest.WorkspacePath(w)+"/undelete", nil)
		case 2:
			in.feed.RefreshAll()
			there.feed.RefreshAll()
		case 3: // a lower revision that is committed later
			tx, err := in.db.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.Exec(t.Context(), "UPDATE workspaces SET memo = $2 WHERE id = $1", w["id"], fmt.Sprint("late ", n)); err != nil {
				t.Fatal(err)
			}
			if other["id"] != w["id"] {
				patch(other)
			}
			in.feed.RefreshAll()
			if err := tx.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
		default:
			patch(w)
		}
	}
	close(done)
	<-stopped
	f.follow(1<<30, 0)
	want := make(map[string]map[string]any)
	for _, w := range ann.Do("GET", "/api/v1/workspaces?limit=500", nil).Object(t)["items"].([]any) {
		w := w.(map[string]any)
		want[w["id"].(string)] = w
	}
	if got, want := slices.Sorted(maps.Keys(f.workspaces)), slices.Sorted(maps.Keys(want)); !slices.Equal(got, want) {
		t.Fatalf("the client knows %v, want %v", got, want)
	}
	for id, w := range want {
		if got := f.workspaces[id]; !reflect.DeepEqual(got, w) {
			t.Errorf("the client has %v, want %v", got, w)
		}
	}
	if f.resumed == 0 {
		t.Errorf("no stream went on from another: nothing was tested; the last id is %s", f.last)
	}
	t.Logf("%d streams went on from another, %d workspaces in the end", f.resumed, len(want))
}

// smallBuffers limits how much the kernel buffers for a client that does not read.
type smallBuffers struct{ net.Listener }

func (l smallBuffers) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		err = c.(*net.TCPConn).SetWriteBuffer(4 << 10)
	}
	return c, err
}

// A client that does not read is dropped, over either protocol, while the others get their events.
func TestAClientThatDoesNotReadIsDropped(t *testing.T) {
	for _, name := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(name, func(t *testing.T) {
			in := newHarness(t)
			ann := in.signedIn("ann")
			w := ann.Create("one")
			open, ended := make(chan struct{}), make(chan struct{})
			protocols := new(http.Protocols)
			protocols.SetHTTP1(name == "HTTP/1.1")
			protocols.SetUnencryptedHTTP2(name != "HTTP/1.1")
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			server := &http.Server{Protocols: protocols, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer close(ended)
				if r.Proto != name {
					t.Errorf("the protocol is %s", r.Proto)
				}
				close(open)
				in.server.Config.Handler.ServeHTTP(w, r)
			})}
			go func() { _ = server.Serve(smallBuffers{listener}) }()
			t.Cleanup(func() { _ = server.Close() })
			transport := &http.Transport{
				Protocols: protocols, HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: 64 << 10},
				DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
					c, err := new(net.Dialer).DialContext(ctx, "tcp", listener.Addr().String())
					if err == nil {
						err = c.(*net.TCPConn).SetReadBuffer(4 << 10)
					}
					return c, err
				},
			}
			t.Cleanup(transport.CloseIdleConnections)
			req, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+apitest.Host+"/api/v1/events", nil)
			if err != nil {
				t.Fatal(err)
			}
			req.AddCookie(&http.Cookie{Name: "session", Value: ann.Cookie})
			res, err := transport.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			<-open
			quick := openStream(t, ann)
			quick.until("heartbeat", nil)
			for n := 0; ; n++ {
				select {
				case <-ended:
					return
				default:
				}
				if n == 5000 {
					t.Fatal("it is not dropped")
				}
				memo := fmt.Sprint(n, " ", strings.Repeat("x", 4000))
				in.exec("UPDATE workspaces SET memo = $2 WHERE id = $1", w["id"], memo)
				quick.until("workspace_updated", map[string]any{"memo": memo})
			}
		})
	}
}
