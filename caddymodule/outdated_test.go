package codehub

import (
	"context"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/codehub/gateway/caddymodule/internal/api/apitest"
	"github.com/codehub/gateway/caddymodule/internal/gateway/gatewaytest"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// While a process runs, the schema begins to require a newer release. Within ten seconds the process answers every
// request to CodeHub with 503 and the reason. Held requests get that answer, and open connections end. Caddy's other
// sites keep working, and so do reloads.
func TestAProcessThatBecomesTooOldServesNothing(t *testing.T) {
	in := install(t)
	const elsewhere = "elsewhere.test"
	in.routes = []map[string]any{
		{"match": []map[string]any{{"host": []string{elsewhere}}}, "terminal": true, "handle": []map[string]any{{"handler": "static_response", "body": "another site"}}},
		{"match": []map[string]any{{"header": map[string]any{"X-Somebody": []string{"*"}}}}, "handle": []map[string]any{
			{"handler": "codehub", "identity": "{http.request.header.X-Somebody}"}}},
		{"handle": []map[string]any{{"handler": "codehub"}}},
		{"handle": []map[string]any{{"handler": "codehub_api"}}},
	}
	if err := in.load(); err != nil {
		t.Fatal(err)
	}
	in.exec("SELECT pg_advisory_unlock(12345)")
	wait.Until(t, "this process leads", func() bool { return in.coordinator().Health().IsLeader })
	ann := in.signedIn("ann")
	awake, starting := ann.Create("awake")["id"].(string), ann.Create("starting")["id"].(string)
	app := gatewaytest.App(t, serveEndless)
	in.exec(`UPDATE workspaces SET phase = 'RUNNING', desired_state = 'RUNNING', operation = 'NONE', endpoint = $2 WHERE id = $1`, awake, app.Listener.Addr().String())
	var id string
	if err := in.db.QueryRow(t.Context(), `SELECT id FROM users WHERE username = 'ann'`).Scan(&id); err != nil {
		t.Fatal(err)
	}
	vouched := in.anyone()
	const program = "Accept: */*"
	somebody := "X-Somebody: " + id
	base := "/w/" + awake + "/"
	wait.Until(t, "the workspace is reached", func() bool {
		return ann.Do("GET", base, nil, program).StatusCode == 200 && vouched.Do("GET", base, nil, program, somebody).StatusCode == 200
	})

	ended := map[string]<-chan struct{}{
		"a WebSocket": in.openWebSocket(ann, base+"websocket"), "a WebSocket of a person without a session": in.openWebSocket(vouched, base+"websocket", somebody),
		"a stream of the application":                   follow(t, ann.Open(t.Context(), "GET", base+"stream", nil, program)),
		"a stream of the application without a session": follow(t, vouched.Open(t.Context(), "GET", base+"stream", nil, program, somebody)),
		"the event stream":                              follow(t, ann.Open(t.Context(), "GET", "/api/v1/events", nil)),
	}
	waiting := make(map[string]chan apitest.Reply)
	ask := func(name, path string, header ...string) {
		answer := make(chan apitest.Reply, 1)
		waiting[name] = answer
		go func() { answer <- ann.Do("GET", path, nil, append(header, program)...) }()
	}
	ask("a held request", "/w/"+starting+"/")
	wait.Until(t, "it is held", func() bool { return in.coordinator().Activator.Held() == 1 })
	status := "/w/" + starting + "/.codehub/status"
	wait.Until(t, "nothing else changes that a poll would tell", func() bool {
		return strings.Contains(string(ann.Do("GET", status, nil, program).Text), workspace.WaitBackendAway)
	})
	ask("the poll of a wake page", status+"?wait=60")

	in.exec("SELECT require_release(99, 99)")
	began := time.Now()
	waitForEnds(t, ended)
	t.Logf("everything had ended after %s", time.Since(began))
	const reason = "serves releases from version 99 on: start a newer release"
	refused := func(name string, r apitest.Reply) {
		t.Helper()
		if p := r.Problem(t, 503, "outdated"); !strings.Contains(p["detail"].(string), reason) || r.Header.Get("Retry-After") == "" {
			t.Errorf("%s: %s %v", name, r.Text, r.Header)
		}
	}
	limit := time.After(wait.Timeout)
	for name, answer := range waiting {
		select {
		case r := <-answer:
			refused(name, r)
		case <-limit:
			t.Fatalf("%s is not answered", name)
		}
	}

	check := func() {
		t.Helper()
		for _, path := range []string{base, base + ".codehub/status", "/w/" + starting + "/", "/w/nothing/", "/api/v1/workspaces", "/api/v1/events", "/api/v1/auth/session"} {
			refused(path, ann.Do("GET", path, nil, program))
		}
		refused("without a session", vouched.Do("GET", base, nil, program, somebody))
		refused("signing in", in.anyone().Do("POST", "/api/v1/auth/login", map[string]any{"username": "ann", "password": testPassword}))
		for _, path := range []string{base, "/", "/login"} {
			r := ann.Do("GET", path, nil, "Sec-Fetch-Mode: navigate")
			if r.StatusCode != 503 || r.Header.Get("Refresh") == "" || !strings.Contains(string(r.Text), "This server is too old") || !strings.Contains(string(r.Text), reason) {
				t.Errorf("the page at %s: %d %v %s", path, r.StatusCode, r.Header, r.Text)
			}
		}
		for _, path := range []string{"/health", "/health/ready"} {
			r := in.anyone().Do("GET", path, nil)
			if o := r.Object(t); r.StatusCode != 503 || o["status"] != "outdated" || !strings.Contains(o["detail"].(string), reason) {
				t.Errorf("%s: %d %s", path, r.StatusCode, r.Text)
			}
		}
		other := in.anyone()
		other.Host = elsewhere
		if r := other.Do("GET", "/", nil); r.StatusCode != 200 || string(r.Text) != "another site" {
			t.Errorf("another site: %d %s", r.StatusCode, r.Text)
		}
	}
	check()
	wait.Until(t, "another process may lead", func() bool {
		var free bool
		if err := in.db.QueryRow(t.Context(), "SELECT pg_try_advisory_lock(12345)").Scan(&free); err != nil {
			t.Fatal(err)
		}
		return free
	})
	if o := in.anyone().Do("GET", "/health/coordinator", nil).Object(t); o["status"] != "problems" {
		t.Errorf("the health of the coordinator: %v", o)
	}

	// A reload changes none of that, even if the requirement has been lowered meanwhile.
	in.exec("UPDATE schema_requirements SET lead = 1, serve = 1")
	if err := in.load(); err != nil {
		t.Fatalf("a reload: %v", err)
	}
	check()
	in.app = maps.Clone(in.app)
	in.app["admin_password"] = testPassword + "!"
	if err := in.load(); err == nil || !strings.Contains(err.Error(), reason) {
		t.Errorf("a reload that writes to the database: %v", err)
	}
}

// exec executes a statement.
func (in *installation) exec(sql string, args ...any) {
	in.t.Helper()
	if _, err := in.db.Exec(in.t.Context(), sql, args...); err != nil {
		in.t.Fatalf("%s: %v", sql, err)
	}
}

// openWebSocket opens a WebSocket without further messages, and returns its end.
func (in *installation) openWebSocket(c *apitest.Client, path string, header ...string) <-chan struct{} {
	in.t.Helper()
	h := http.Header{}
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		h.Set(name, value)
	}
	if c.Cookie != "" {
		h.Set("Cookie", "session="+c.Cookie)
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return c.Dial(ctx) }}
	in.t.Cleanup(transport.CloseIdleConnections)
	//nolint:bodyclose
	socket, _, err := websocket.Dial(in.t.Context(), "ws://"+c.Host+path, &websocket.DialOptions{HTTPClient: &http.Client{Transport: transport}, HTTPHeader: h})
	if err != nil {
		in.t.Fatal(err)
	}
	if _, _, err := socket.Read(in.t.Context()); err != nil {
		in.t.Fatal(err)
	}
	end := make(chan struct{})
	go func() {
		defer close(end)
		_, _, _ = socket.Read(in.t.Context())
		_ = socket.CloseNow()
	}()
	return end
}

// follow reads the first bytes of a response. It returns a channel that is closed when the response ends.
func follow(t *testing.T, res *http.Response) <-chan struct{} {
	t.Helper()
	if res.StatusCode != 200 {
		t.Fatal(res.Status)
	}
	if _, err := io.ReadFull(res.Body, make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	end := make(chan struct{})
	go func() {
		defer close(end)
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
	}()
	return end
}

// waitForEnds waits until every stream has ended.
func waitForEnds(t *testing.T, streams map[string]<-chan struct{}) {
	t.Helper()
	limit := time.After(wait.Timeout)
	for name, end := range streams {
		select {
		case <-end:
		case <-limit:
			t.Fatalf("%s is still open after %s", name, wait.Timeout)
		}
	}
}

// serveEndless is an application whose streams have no end.
func serveEndless(w http.ResponseWriter, r *http.Request) {
	switch {
	case strings.HasSuffix(r.URL.Path, "/websocket"):
		serveWebSocket(w, r)
	case strings.HasSuffix(r.URL.Path, "/stream"):
		serveSilence(w, r)
	}
}
