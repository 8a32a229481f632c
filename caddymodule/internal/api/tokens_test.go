package api_test

import (
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/codehub/gateway/caddymodule/internal/api"
	"github.com/codehub/gateway/caddymodule/internal/api/apitest"
	"github.com/codehub/gateway/coordinator/wait"
)

const invalidToken = `Bearer error="invalid_token"`

// token creates an access token and returns its object.
func token(c *apitest.Client, scopes ...string) map[string]any {
	c.T.Helper()
	r := c.Do("POST", "/api/v1/tokens", map[string]any{"name": "backup", "scopes": scopes})
	if r.StatusCode != http.StatusCreated || r.Header.Get("Cache-Control") != "no-store" {
		c.T.Fatalf("status %d: %s", r.StatusCode, r.Text)
	}
	return r.Object(c.T)
}

// bearer is the header line with a token.
func bearer(token map[string]any) string { return "Authorization: Bearer " + token["token"].(string) }

func TestTokensOverTheAPI(t *testing.T) {
	in := newHarness(t)
	ann, anyone := in.signedIn("ann"), in.anyone()
	made := token(ann, "write")
	var created, expires time.Time
	if created.UnmarshalText([]byte(made["created_at"].(string))) != nil || expires.UnmarshalText([]byte(made["expires_at"].(string))) != nil ||
		expires.Sub(created) != 30*24*time.Hour || !regexp.MustCompile(`^chg_[\w-]{43}$`).MatchString(made["token"].(string)) || len(made) != 8 {
		t.Fatalf("got %v", made)
	}
	w := anyone.Do("POST", "/api/v1/workspaces", map[string]any{"name": "by a program"}, bearer(made))
	if w.StatusCode != 201 {
		t.Fatalf("creating with a token: %d %s", w.StatusCode, w.Text)
	}
	if r := anyone.Do("GET", "/api/v1/me", nil, bearer(made)); r.StatusCode != 200 || r.Object(t)["username"] != "ann" {
		t.Errorf("me: %d %s", r.StatusCode, r.Text)
	}
	used := func() (item map[string]any) {
		items := ann.Do("GET", "/api/v1/tokens", nil).Object(t)["items"].([]any)
		if len(items) != 1 {
			t.Fatalf("got %v", items)
		}
		return items[0].(map[string]any)
	}
	wait.Until(t, "the last use is written", func() bool { return used()["last_used_at"] != nil })
	item := used()
	if _, shown := item["token"]; shown || len(item) != 7 || item["last_used_address"] != "127.0.0.1" || item["name"] != "backup" || item["id"] != made["id"] {
		t.Errorf("listed: %v", item)
	}
	if items := ann.Do("GET", "/api/v1/sessions", nil).Object(t)["items"].([]any); len(items) != 1 {
		t.Errorf("sign-ins: %v", items)
	}
	if r := ann.Do("DELETE", "/api/v1/sessions", nil); r.StatusCode != 204 {
		t.Errorf("ending the other sign-ins: %d %s", r.StatusCode, r.Text)
	}
	bob := in.signedIn("bob")
	bob.Do("DELETE", "/api/v1/tokens/"+made["id"].(string), nil).Problem(t, 404, "not-found")
	bob.Do("GET", apitest.WorkspacePath(w.Object(t)), nil, bearer(token(bob, "read"))).Problem(t, 404, "not-found")
	if r := ann.Do("DELETE", "/api/v1/tokens/"+made["id"].(string), nil); r.StatusCode != 204 {
		t.Errorf("revoking: %d %s", r.StatusCode, r.Text)
	}
	anyone.Do("GET", "/api/v1/me", nil, bearer(made)).Problem(t, 401, "invalid-token")
	for field, body := range map[string]map[string]any{
		"name": {"scopes": []string{"read"}}, "scopes": {"name": "x", "scopes": []string{"all"}}, "expires_in_days": {"name": "x", "scopes": []string{"read"}, "expires_in_days": 366},
	} {
		if p := ann.Do("POST", "/api/v1/tokens", body).Problem(t, 400, "invalid-field"); p["field"] != field {
			t.Errorf("%v: %v", body, p)
		}
	}
}

// Every route of the API has a scope. The request of a token without this scope reads nothing from the database, and a
// cookie in the same request gives it no rights either.
func TestEveryRouteNeedsItsScope(t *testing.T) {
	in := newHarness(t)
	admin := in.signedIn("admin")
	w := apitest.WorkspacePath(admin.Create("one"))
	tokens := map[string]map[string]any{}
	for _, scope := range []string{"read", "write", "workspace", "admin"} {
		tokens[scope] = token(admin, scope)
	}
	tried := 0
	for _, route := range api.Routes() {
		if route.Operation == "getDescription" {
			continue // for everyone
		}
		pattern, want := route.Pattern, string(route.Scope)
		method, path, _ := strings.Cut(pattern, " ")
		if want == "read" && method != "GET" {
			t.Errorf("%s changes something, and the scope read suffices", pattern)
		}
		path = strings.ReplaceAll(strings.ReplaceAll(path, "/api/v1/workspaces/{id}", w), "{id}", "unknown")
		for _, held := range []string{"read", "write", "workspace", "admin"} {
			if held == want || held == "write" && want == "read" {
				continue
			}
			tried++
			p := admin.Do(method, path, "not even JSON", bearer(tokens[held])).Problem(t, 403, "token-scope")
			if detail := p["detail"].(string); want != "" && !strings.Contains(detail, want) {
				t.Errorf("%s with %s: %s", pattern, held, detail)
			}
		}
		r := admin.Do(method, path, "not even JSON", "Authorization: Bearer chg_wrong")
		if r.Problem(t, 401, "invalid-token"); r.Header.Get("WWW-Authenticate") != invalidToken {
			t.Errorf("%s: WWW-Authenticate %q", pattern, r.Header.Get("WWW-Authenticate"))
		}
	}
	if tried < 50 {
		t.Errorf("%d tries", tried)
	}
	if r := admin.Do("GET", "/api/v1/me", nil); r.StatusCode != 200 {
		t.Errorf("the session afterwards: %d %s", r.StatusCode, r.Text)
	}
}

// An administrator's token has an administrator's rights only with the matching scope.
func TestATokenWithoutTheScopeOfAnAdministrator(t *testing.T) {
	in := newHarness(t)
	admin, anyone := in.signedIn("admin"), in.anyone()
	others := apitest.WorkspacePath(in.signedIn("ann").Create("ann's"))
	plain, full := token(admin, "write"), token(admin, "write", "admin")
	anyone.Do("GET", others, nil, bearer(plain)).Problem(t, 404, "not-found")
	if r := anyone.Do("GET", others, nil, bearer(full)); r.StatusCode != 200 {
		t.Errorf("with the scope: %d %s", r.StatusCode, r.Text)
	}
	for _, c := range []struct {
		line string
		sees bool
	}{{bearer(plain), false}, {bearer(full), true}, {"Authorization: Bearer theirs", false}} {
		_, sees := anyone.Do("GET", "/health/coordinator", nil, c.line).Object(t)["node_id"]
		if sees != c.sees {
			t.Errorf("the coordinator: %v, want %v", sees, c.sees)
		}
	}
	anyone.Do("GET", "/health/coordinator", nil, "Authorization: Bearer chg_x").Problem(t, 401, "invalid-token")
	in.exec(`UPDATE users SET role = 'user'`)
	in.auth.Resync()
	wait.Until(t, "the rights are taken away", func() bool {
		return anyone.Do("GET", others, nil, bearer(full)).StatusCode == 404
	})
}

// A request with a token has only the token's rights, even if it carries other credentials.
func TestATokenCountsAlone(t *testing.T) {
	in := newHarness(t)
	ann, bob := in.signedIn("ann"), in.signedIn("bob")
	ofAnn, ofBob := token(ann, "read"), token(bob, "read")
	name := func(c *apitest.Client, lines ...string) any {
		return c.Do("GET", "/api/v1/me", nil, lines...).Object(t)["username"]
	}
	if got := name(bob, bearer(ofAnn)); got != "ann" {
		t.Errorf("with bob's cookie and ann's token: %v", got)
	}
	if got := name(bob, "Authorization: Bearer of-an-application"); got != "bob" {
		t.Errorf("with bob's cookie and an application's token: %v", got)
	}
	for _, line := range []string{
		"Authorization: Bearer chg_", "Authorization: bearer chg_x", bearer(ofAnn) + ", " + bearer(ofAnn)[15:],
		bearer(ofAnn) + "x", bearer(ofAnn) + ", Basic YTpi", "Authorization: Bearer x, " + bearer(ofBob)[15:],
	} {
		r := bob.Do("GET", "/api/v1/me", nil, line)
		if r.Problem(t, 401, "invalid-token"); r.Header.Get("WWW-Authenticate") != invalidToken {
			t.Errorf("%s: %v", line, r.Header)
		}
	}
	anyone := in.anyone()
	if anyone.Cookie = ofAnn["token"].(string); anyone.Do("GET", "/api/v1/me", nil).StatusCode != 401 {
		t.Error("the cookie holds a token")
	}
	anyone.Cookie = ""
	anyone.Do("GET", "/api/v1/me", nil, "Authorization: Bearer "+ann.Cookie).Problem(t, 401, "not-signed-in")
	anyone.Do("GET", "/api/v1/me", nil, "Authorization: Bearer chg_"+ann.Cookie).Problem(t, 401, "invalid-token")
	// Pages are for people: a token gets nothing there, and no redirect to the sign-in.
	for _, path := range []string{"/", "/login", "/auth/ticket?workspace=x", "/auth/name?host=x"} {
		ann.Do("GET", path, nil, bearer(ofAnn), "Accept: text/html").Problem(t, 403, "token-scope")
		ann.Do("GET", path, nil, "Authorization: Bearer chg_x", "Accept: text/html").Problem(t, 401, "invalid-token")
	}
}

// A browser adds no token by itself, so a request with a token cannot have been forged by a page of another origin.
// Before a browser sends a token to another origin, it asks for permission and gets none.
func TestTokensNeedNoOrigin(t *testing.T) {
	in := newHarness(t)
	ann, anyone := in.signedIn("ann"), in.anyone()
	line := bearer(token(ann, "write"))
	foreign := []string{"Origin: https://evil.example", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: cors"}
	if r := anyone.Do("GET", "/api/v1/workspaces", nil, append(foreign, line)...); r.StatusCode != 200 || r.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("with an Origin: %d %v", r.StatusCode, r.Header)
	}
	ann.Do("GET", "/api/v1/workspaces", nil, append(foreign, "Authorization: Bearer theirs")...).Problem(t, 403, "cross-site")
	preflight := append(foreign, "Access-Control-Request-Method: POST", "Access-Control-Request-Headers: authorization")
	for _, lines := range [][]string{preflight, append(preflight, line)} {
		r := anyone.Do("OPTIONS", "/api/v1/workspaces", nil, lines...)
		for name := range r.Header {
			if strings.HasPrefix(name, "Access-Control-") {
				t.Errorf("a preflight gets %s: %s", name, r.Header.Get(name))
			}
		}
		if r.StatusCode < 400 {
			t.Errorf("a preflight gets %d", r.StatusCode)
		}
	}
	anyone.Host = "evil.example"
	anyone.Do("GET", "/api/v1/workspaces", nil, line).Problem(t, 421, "misdirected")
}

func TestAnEventStreamEndsWithItsToken(t *testing.T) {
	in := newHarness(t)
	ann, anyone := in.signedIn("ann"), in.anyone()
	limit, cancel := context.WithTimeout(t.Context(), wait.Timeout)
	defer cancel()
	wait.Quick(t, "ending the stream of a revoked token", time.Second, func() time.Duration {
		made := token(ann, "read")
		stream := anyone.Open(limit, "GET", "/api/v1/events", nil, bearer(made))
		defer stream.Body.Close()
		if _, err := io.ReadFull(stream.Body, make([]byte, 5)); err != nil || stream.StatusCode != 200 {
			t.Fatal(stream.Status, err)
		}
		if r := ann.Do("DELETE", "/api/v1/tokens/"+made["id"].(string), nil); r.StatusCode != 204 {
			t.Fatalf("revoking: %d %s", r.StatusCode, r.Text)
		}
		at := time.Now()
		if _, err := io.Copy(io.Discard, stream.Body); err != nil {
			t.Errorf("the stream of a revoked token ended with %v", err)
		}
		return time.Since(at)
	})
}
