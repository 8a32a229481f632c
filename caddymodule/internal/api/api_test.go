package api_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/codehub/gateway/caddymodule/internal/api"
	"github.com/codehub/gateway/caddymodule/internal/api/apitest"
	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/coordinator"
	"github.com/codehub/gateway/coordinator/dataplane/auth"
	"github.com/codehub/gateway/coordinator/dataplane/events"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/accounts"
	"github.com/codehub/gateway/coordinator/store/auditlog"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/store/usage"
	"github.com/codehub/gateway/coordinator/version"
)

func TestSignInAndOut(t *testing.T) {
	in := newHarness(t)
	c := in.anyone()
	c.Do("GET", "/api/v1/auth/session", nil).Problem(t, 401, "not-signed-in")
	c.Do("POST", "/api/v1/auth/login", map[string]any{"username": "admin", "password": "wrong"}).Problem(t, 401, "bad-credentials")
	c.Do("POST", "/api/v1/auth/login", map[string]any{"username": "nobody", "password": "wrong"}).Problem(t, 401, "bad-credentials")

	a := c.Do("POST", "/api/v1/auth/login", map[string]any{"username": "admin", "password": testPassword})
	if user := a.Object(t); a.StatusCode != 200 || user["username"] != "admin" || user["role"] != "admin" || user["user_id"] == "" {
		t.Fatalf("got status %d: %s", a.StatusCode, a.Text)
	}
	cookie := a.Cookies()[0]
	if cookie.Name != "session" || !cookie.HttpOnly || cookie.SameSite != http.SameSiteLaxMode || cookie.Secure ||
		cookie.Path != "/" || cookie.Domain != "" || cookie.MaxAge != int(sessionTTL.Seconds()) {
		t.Errorf("got the cookie %s", cookie)
	}
	c.Cookie = cookie.Value
	if a := c.Do("GET", "/api/v1/auth/session", nil); a.StatusCode != 200 || a.Object(t)["username"] != "admin" {
		t.Errorf("got status %d: %s", a.StatusCode, a.Text)
	}

	// A new sign-in ends the session that the browser had before.
	a = c.Do("POST", "/api/v1/auth/login", map[string]any{"username": "admin", "password": testPassword})
	c.Do("GET", "/api/v1/auth/session", nil).Problem(t, 401, "not-signed-in")

	c.Cookie = a.Cookies()[0].Value
	a = c.Do("POST", "/api/v1/auth/logout", nil)
	if a.StatusCode != 204 || a.Cookies()[0].MaxAge != -1 || a.Cookies()[0].Value != "" {
		t.Errorf("signing out: status %d, cookies %v", a.StatusCode, a.Cookies())
	}
	c.Do("GET", "/api/v1/auth/session", nil).Problem(t, 401, "not-signed-in")
}

func TestWorkspaceOverTheAPI(t *testing.T) {
	in := newHarness(t)
	ann, bob := in.signedIn("ann"), in.signedIn("bob")

	a := ann.Do("POST", "/api/v1/workspaces", map[string]any{"name": "Étude", "description": "first", "image_ref": nil})
	w := a.Object(t)
	if a.StatusCode != 201 || a.Header.Get("Location") != apitest.WorkspacePath(w) {
		t.Fatalf("got status %d, location %q: %s", a.StatusCode, a.Header.Get("Location"), a.Text)
	}
	for field, want := range map[string]any{
		"name": "Étude", "description": "first", "memo": nil, "image_ref": nil, "git_url": nil, "phase": "PENDING", "operation": "NONE",
		"desired_state": "RUNNING", "error_reason": nil, "error_message": nil, "error_count": 0.0, "instance_backend": "docker",
		"archive_key": nil, "op_started_at": nil, "url": "/w/" + w["id"].(string) + "/",
	} {
		if got, ok := w[field]; !ok || got != want {
			t.Errorf("%s: got %v, want %v", field, got, want)
		}
	}
	for _, internal := range []string{"home_ctx", "home_store_key", "endpoint", "watched", "counted", "origin"} {
		if _, ok := w[internal]; ok {
			t.Errorf("the object shows %s", internal)
		}
	}
	if _, err := time.Parse(time.RFC3339, w["created_at"].(string)); err != nil {
		t.Error(err)
	}

	second := ann.Create("second")
	list := ann.Do("GET", "/api/v1/workspaces?limit=1", nil).Object(t)
	if items := list["items"].([]any); len(items) != 1 || items[0].(map[string]any)["id"] != second["id"] {
		t.Errorf("the first page is %v", items)
	}
	list = ann.Do("GET", "/api/v1/workspaces?limit=1&cursor="+list["next_cursor"].(string), nil).Object(t)
	if items := list["items"].([]any); len(items) != 1 || items[0].(map[string]any)["id"] != w["id"] || list["next_cursor"] != nil {
		t.Errorf("the second page is %v", list)
	}

	// The ids of other users' workspaces, unknown ids and malformed ids all get the same answer.
	for _, path := range []string{apitest.WorkspacePath(w), "/api/v1/workspaces/00000000-0000-4000-8000-000000000000", "/api/v1/workspaces/x", "/api/v1/workspaces/"} {
		p := bob.Do("GET", path, nil).Problem(t, 404, "not-found")
		if q := bob.Do("DELETE", path, nil).Problem(t, 404, "not-found"); p["detail"] != q["detail"] {
			t.Errorf("%s: %q and %q", path, p["detail"], q["detail"])
		}
		bob.Do("PATCH", path, map[string]any{"name": "mine"}).Problem(t, 404, "not-found")
	}
	if items := bob.Do("GET", "/api/v1/workspaces", nil).Object(t)["items"].([]any); len(items) != 0 {
		t.Errorf("bob sees %v", items)
	}

	a = ann.Do("PATCH", apitest.WorkspacePath(w), map[string]any{"memo": "note", "desired_state": "STANDBY"})
	if got := a.Object(t); a.StatusCode != 200 || got["memo"] != "note" || got["desired_state"] != "STANDBY" || got["name"] != "Étude" {
		t.Errorf("got status %d: %s", a.StatusCode, a.Text)
	}
	if got := ann.Do("PATCH", apitest.WorkspacePath(w), `{"memo": null}`).Object(t); got["memo"] != nil || got["description"] != "first" {
		t.Errorf("got %v", got)
	}

	before := ann.Do("GET", apitest.WorkspacePath(w), nil)
	for _, favourite := range []bool{true, false} {
		a := ann.Do("PATCH", apitest.WorkspacePath(w), map[string]any{"favourite": favourite})
		if a.StatusCode != 200 || a.Object(t)["favourite"] != favourite || a.Header.Get("ETag") == before.Header.Get("ETag") {
			t.Errorf("favourite %v: status %d, %s: %s", favourite, a.StatusCode, a.Header.Get("ETag"), a.Text)
		}
		before = a
	}
	bob.Do("PATCH", apitest.WorkspacePath(w), map[string]any{"favourite": true}).Problem(t, 404, "not-found")

	in.exec("UPDATE workspaces SET operation = 'STARTING', op_started_at = now() WHERE id = $1", w["id"])
	ann.Do("PATCH", apitest.WorkspacePath(w), map[string]any{"desired_state": "ARCHIVED"}).Problem(t, 409, "operation-in-progress")
	ann.Do("DELETE", apitest.WorkspacePath(w), nil).Problem(t, 409, "operation-in-progress")
	// If an operation is only waiting, a request for another state cancels it.
	in.exec(`UPDATE workspaces SET waiting = '{"reason": "PullingImage", "message": "m", "since": "2026-11-21T10:00:00Z"}' WHERE id = $1`, w["id"])
	for verb, state := range map[string]string{"archive": "ARCHIVED", "start": "RUNNING", "sleep": "STANDBY"} {
		if a := ann.Do("POST", apitest.WorkspacePath(w)+"/"+verb, nil); a.StatusCode != 200 || a.Object(t)["desired_state"] != state {
			t.Errorf("%s while it waits: status %d: %s", verb, a.StatusCode, a.Text)
		}
	}
	if a := ann.Do("DELETE", apitest.WorkspacePath(w), nil); a.StatusCode != 202 || len(a.Text) != 0 {
		t.Errorf("got status %d: %s", a.StatusCode, a.Text)
	}
	ann.Do("GET", apitest.WorkspacePath(w), nil).Problem(t, 404, "not-found")
}

func TestLimitNamesItself(t *testing.T) {
	in := newHarness(t)
	ann := in.signedIn("ann")
	ann.Create("one")
	ann.Create("two")
	p := ann.Do("POST", "/api/v1/workspaces", map[string]any{"name": "three"}).Problem(t, 429, "limit-reached")
	if p["scope"] != "user" || p["limit"] != 2.0 {
		t.Errorf("got %v", p)
	}
}

func TestBadRequests(t *testing.T) {
	in := newHarness(t)
	ann := in.signedIn("ann")
	w := ann.Create("one")
	for name, c := range map[string]struct {
		method, path string
		body         any
		status       int
		kind, field  string
	}{
		"unknown field":    {"POST", "/api/v1/workspaces", `{"name": "x", "nmae": "y"}`, 400, "invalid-field", "nmae"},
		"capital letters":  {"POST", "/api/v1/workspaces", `{"NAME": "x"}`, 400, "invalid-field", "NAME"},
		"a null body":      {"PATCH", apitest.WorkspacePath(w), `null`, 400, "bad-request", ""},
		"wrong type":       {"POST", "/api/v1/workspaces", `{"name": 5}`, 400, "invalid-field", "name"},
		"no name":          {"POST", "/api/v1/workspaces", `{}`, 400, "invalid-field", "name"},
		"nul in name":      {"POST", "/api/v1/workspaces", `{"name": "a\u0000b"}`, 400, "invalid-field", "name"},
		"long name":        {"POST", "/api/v1/workspaces", map[string]any{"name": strings.Repeat("x", 256)}, 400, "invalid-field", "name"},
		"not JSON":         {"POST", "/api/v1/workspaces", `name=x`, 400, "bad-request", ""},
		"an array":         {"POST", "/api/v1/workspaces", `["x"]`, 400, "bad-request", ""},
		"two objects":      {"POST", "/api/v1/workspaces", `{"name": "x"} {}`, 400, "bad-request", ""},
		"a field twice":    {"POST", "/api/v1/workspaces", `{"name": "x", "na\u006de": "y"}`, 400, "invalid-field", "name"},
		"twice inside":     {"POST", apitest.WorkspacePath(w) + "/exec", `{"command": ["a", {"b": 1, "b": 2}]}`, 400, "invalid-field", "command.1.b"},
		"invalid UTF-8":    {"POST", "/api/v1/workspaces", "{\"name\": \"a\xff\"}", 400, "invalid-field", "name"},
		"an invalid field": {"POST", "/api/v1/workspaces", "{\"na\xffme\": \"a\"}", 400, "bad-request", ""},
		"half a pair":      {"PATCH", apitest.WorkspacePath(w), `{"memo": "\ud83d"}`, 400, "invalid-field", "memo"},
		"the other half":   {"PATCH", apitest.WorkspacePath(w), `{"memo": "\ude00 "}`, 400, "invalid-field", "memo"},
		"a wrong pair":     {"PATCH", apitest.WorkspacePath(w), `{"memo": "\ud83d\u0041"}`, 400, "invalid-field", "memo"},
		"empty":            {"POST", "/api/v1/workspaces", ``, 400, "bad-request", ""},
		"too large":        {"POST", "/api/v1/workspaces", `{"name": "` + strings.Repeat("x", 64<<10) + `"}`, 413, "too-large", ""},
		"unknown state":    {"PATCH", apitest.WorkspacePath(w), `{"desired_state": "DELETED"}`, 400, "invalid-field", "desired_state"},
		"null state":       {"PATCH", apitest.WorkspacePath(w), `{"desired_state": null}`, 400, "invalid-field", "desired_state"},
		"null name":        {"PATCH", apitest.WorkspacePath(w), `{"name": null}`, 400, "invalid-field", "name"},
		"bad limit":        {"GET", "/api/v1/workspaces?limit=many", nil, 400, "invalid-field", "limit"},
		"huge limit":       {"GET", fmt.Sprintf("/api/v1/workspaces?limit=%d", service.MaxPage+1), nil, 400, "invalid-field", "limit"},
		"bad cursor":       {"GET", "/api/v1/workspaces?cursor=x", nil, 400, "invalid-field", "cursor"},
		"unknown path":     {"GET", "/api/v1/nothing", nil, 404, "not-found", ""},
		"unknown action":   {"POST", apitest.WorkspacePath(w) + "/explode", `{}`, 404, "not-found", ""},
		"method":           {"PUT", apitest.WorkspacePath(w), `{}`, 405, "method-not-allowed", ""},
		"login field":      {"POST", "/api/v1/auth/login", `{"user": "x"}`, 400, "invalid-field", "user"},
		"login wrong type": {"POST", "/api/v1/auth/login", `{"username": {}}`, 400, "invalid-field", "username"},
	} {
		t.Run(name, func(t *testing.T) {
			p := ann.Do(c.method, c.path, c.body).Problem(t, c.status, c.kind)
			if got, _ := p["field"].(string); got != c.field {
				t.Errorf("got the field %q, want %q: %v", got, c.field, p["detail"])
			}
		})
	}
	for path, allow := range map[string]string{
		"/api/v1/workspaces":                  "GET, HEAD, POST",
		apitest.WorkspacePath(w):              "GET, HEAD, PATCH, DELETE",
		apitest.WorkspacePath(w) + "/recover": "POST",
		"/api/v1/auth/login":                  "POST",
		"/api/v1/events":                      "GET, HEAD",
	} {
		a := ann.Do("PUT", path, `{}`)
		a.Problem(t, 405, "method-not-allowed")
		if got := a.Header.Get("Allow"); got != allow {
			t.Errorf("%s: Allow is %q, want %q", path, got, allow)
		}
	}
	if a := ann.Do("HEAD", apitest.WorkspacePath(w), nil); a.StatusCode != 200 || len(a.Text) != 0 {
		t.Errorf("HEAD: status %d: %s", a.StatusCode, a.Text)
	}
}

// Other sites' pages must not use a browser's session (CSRF).
func TestCrossSiteRequestsAreRefused(t *testing.T) {
	in := newHarness(t)
	ann := in.signedIn("ann")
	body := `{"name": "x"}`
	for _, header := range []string{
		"Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site", "Origin: https://evil.example",
		"Origin: null", "Origin: http://codehub.test:9999", "Origin: http://ws-1.codehub.test:8080",
	} {
		ann.Do("POST", "/api/v1/workspaces", body, header).Problem(t, 403, "cross-site")
		ann.Do("POST", "/api/v1/auth/login", `{"username": "ann", "password": "x"}`, header).Problem(t, 403, "cross-site")
		ann.Do("POST", "/api/v1/auth/logout", nil, header).Problem(t, 403, "cross-site")
	}
	for _, header := range []string{"Content-Type: text/plain", "Content-Type: application/x-www-form-urlencoded", "Content-Type: "} {
		ann.Do("POST", "/api/v1/workspaces", body, header).Problem(t, 415, "unsupported-media-type")
	}
	if items := ann.Do("GET", "/api/v1/workspaces", nil).Object(t)["items"].([]any); len(items) != 0 {
		t.Fatalf("something was made: %v", items)
	}
	for _, header := range [][]string{
		{"Sec-Fetch-Site: same-origin", "Origin: http://codehub.test:8080"}, {"Content-Type: application/json; charset=utf-8"},
	} {
		if a := ann.Do("POST", "/api/v1/workspaces", body, header...); a.StatusCode != 201 {
			t.Errorf("%v: status %d: %s", header, a.StatusCode, a.Text)
		}
	}
}

func TestHealth(t *testing.T) {
	in := newHarness(t)
	c := in.anyone()
	if a := c.Do("GET", "/health", nil); a.StatusCode != 200 || string(a.Text) != `{"status":"ok"}`+"\n" {
		t.Errorf("got status %d: %s", a.StatusCode, a.Text)
	}
	if a := c.Do("GET", "/health/ready", nil); a.StatusCode != 200 || string(a.Text) != `{"status":"ok"}`+"\n" {
		t.Errorf("%d %s", a.StatusCode, a.Text)
	}
	a := in.signedIn("admin").Do("GET", "/health/coordinator", nil)
	if h := a.Object(t); a.StatusCode != 200 || len(h) != 5 || h["version"] != version.String() || h["is_leader"] != false || h["node_id"] != "here" || h["uptime_seconds"] != 90.0 ||
		fmt.Sprint(h["problems"]) != "[the bucket is another one]" {
		t.Errorf("got %s", a.Text)
	}
}

// Only administrators see the name of the process, its start and its problems.
func TestTheHealthOfTheCoordinatorIsForAdministrators(t *testing.T) {
	var problems []string
	in := newHarness(t, func(o *api.Options) {
		o.Health = func() coordinator.Health {
			return coordinator.Health{IsLeader: true, NodeID: "here", Problems: problems}
		}
	})
	ann, forged := in.signedIn("ann"), in.anyone()
	forged.Cookie = "anything"
	for _, want := range []string{"ok", "problems"} {
		for name, c := range map[string]*apitest.Client{"nobody": in.anyone(), "a user": ann, "no session": forged} {
			a := c.Do("GET", "/health/coordinator", nil)
			if a.StatusCode != 200 || string(a.Text) != `{"status":"`+want+`","is_leader":true}`+"\n" {
				t.Errorf("%s: status %d: %s", name, a.StatusCode, a.Text)
			}
		}
		problems = []string{"the bucket at s3.example is another one"}
	}
	a := in.signedIn("admin").Do("GET", "/health/coordinator", nil)
	if !strings.Contains(string(a.Text), "s3.example") {
		t.Errorf("an administrator: %s", a.Text)
	}
}

func TestHealthNamesTheShardsWhenThereAreSeveral(t *testing.T) {
	for _, tt := range []struct {
		led  []int
		want string
	}{{[]int{0, 5}, `"shards":[0,5],"shard_count":8`}, {nil, `"shards":[],"shard_count":8`}} {
		t.Run(fmt.Sprint(tt.led), func(t *testing.T) {
			in := newHarness(t, func(o *api.Options) {
				o.Health = func() coordinator.Health {
					return coordinator.Health{IsLeader: len(tt.led) > 0, Led: tt.led, Shards: 8}
				}
			})
			a := in.signedIn("admin").Do("GET", "/health/coordinator", nil)
			if !strings.Contains(string(a.Text), tt.want) {
				t.Errorf("got %s", a.Text)
			}
		})
	}
}

// A process that has just started holds requests for a while, and then answers that it is not ready.
func TestRequestsWaitForTheCoordinator(t *testing.T) {
	in := newHarness(t, func(o *api.Options) {
		o.WaitReady = func(ctx context.Context) error {
			if _, bounded := ctx.Deadline(); !bounded {
				return nil
			}
			return context.DeadlineExceeded
		}
	})
	c := in.anyone()
	c.Cookie = "anything"
	a := c.Do("GET", "/api/v1/auth/session", nil)
	a.Problem(t, 503, "unavailable")
	if a.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	for _, path := range []string{"/", "/login", "/auth/ticket?workspace=00000000-0000-4000-8000-000000000000"} {
		if a := c.Do("GET", path, nil); a.StatusCode != 503 {
			t.Errorf("%s: status %d: %s", path, a.StatusCode, a.Text)
		}
	}
	for path, status := range map[string]int{"/health": 200, "/health/ready": 503} {
		if a := c.Do("GET", path, nil); a.StatusCode != status {
			t.Errorf("%s: status %d", path, a.StatusCode)
		}
	}
}

func TestWithoutTheDatabaseTheAPISaysSo(t *testing.T) {
	in := newHarness(t)
	ann := in.signedIn("ann")
	ann.Do("GET", "/api/v1/auth/session", nil) // remembered from now on
	in.exec("ALTER TABLE workspaces RENAME TO away")
	ann.Do("GET", "/api/v1/workspaces", nil).Problem(t, 500, "internal")
}

// A database may accept connections without answering. Requests must not wait forever.
func TestRequestsDoNotWaitForASilentDatabase(t *testing.T) {
	in := newHarness(t, func(o *api.Options) { o.DatabaseTimeout = 50 * time.Millisecond })
	// The test does not sign in through the API, because hashing a password takes longer than the API's timeout in this
	// test.
	token, _, err := in.auth.Login(t.Context(), "admin", testPassword, auth.Client{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := in.auth.Session(t.Context(), token); err != nil { // remembered from now on
		t.Fatal(err)
	}
	ann := in.anyone()
	ann.Cookie = token
	in.exec("BEGIN")
	in.exec("LOCK TABLE workspaces IN ACCESS EXCLUSIVE MODE")
	for _, path := range []string{"/api/v1/workspaces", "/api/v1/workspaces/00000000-0000-4000-8000-000000000000", "/api/v1/events"} {
		if a := ann.Do("GET", path, nil); a.StatusCode != 503 || a.Header.Get("Retry-After") == "" {
			t.Errorf("%s: status %d, %v: %s", path, a.StatusCode, a.Header, a.Text)
		}
	}
	in.exec("ROLLBACK")
}

func TestOtherRequestsGoToTheNextHandler(t *testing.T) {
	in := newHarness(t)
	c := in.anyone()
	for _, path := range []string{"/w/x/", "/nothing", "/api/v2/x", "/auth/other", "//login", "/login/", "/x/../login", "/assets", "/api/v1"} {
		if a := c.Do("GET", path, nil); string(a.Text) != "next" {
			t.Errorf("%s: got status %d: %s", path, a.StatusCode, a.Text)
		}
	}
	for _, host := range []string{"ws-0.localhost", "ws-0.localhost:8080", "WS-0.LOCALHOST"} {
		c.Host = host
		for _, path := range []string{"/", "/login", "/api/v1/auth/session", "/health", "/auth/ticket"} {
			if a := c.Do("GET", path, nil); string(a.Text) != "next" {
				t.Errorf("%s%s: got %s", host, path, a.Text)
			}
		}
	}
	c.Host = "codehub.test"
	for _, m := range []string{"POST", "DELETE"} {
		if a := c.Do(m, "/login", nil); a.StatusCode != 405 || !slices.Contains(a.Header.Values("Allow"), "GET, HEAD") {
			t.Errorf("%s /login: status %d", m, a.StatusCode)
		}
	}
}

// TestPlainHandler: a server without error pages of its own can use the handler directly.
func TestPlainHandler(t *testing.T) {
	t.Parallel()
	_, err := api.New(api.Options{})
	if err == nil {
		t.Fatal("options without anything pass")
	}
	st, err := store.Open("postgres://127.0.0.1:1/x", postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	a := auth.New(accounts.New(st.DB), auth.Options{})
	defer a.Close()
	o := apitest.Options(api.Options{
		Site: site.New(site.Options{MainHost: "example.com"}), Service: service.New(st, service.Options{}), Auth: a, Hub: new(events.Hub),
		Audit: auditlog.New(st.DB, zap.NewNop()), Usage: usage.New(st.DB),
	})
	h, err := api.New(o)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{"/health": 200, "/nothing": 404, "/login": 200, "/assets/x": 404, "/api/v1/x": 404} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		if w.Code != want {
			t.Errorf("%s: status %d, want %d", path, w.Code, want)
		}
		if kind := w.Header().Get("Content-Type"); want == 404 && kind != "application/problem+json" {
			t.Errorf("%s: %s", path, kind)
		}
	}
}
