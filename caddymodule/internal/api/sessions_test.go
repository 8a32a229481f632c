package api_test

import (
	"context"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/codehub/gateway/caddymodule/internal/api"
	"github.com/codehub/gateway/caddymodule/internal/api/apitest"
	"github.com/codehub/gateway/coordinator/dataplane/auth"
	"github.com/codehub/gateway/coordinator/wait"
)

// An event stream ends with its session, even if it is idle.
func TestAnEventStreamEndsWithItsSession(t *testing.T) {
	in := newHarness(t)
	ann := in.signedIn("ann")
	limit, cancel := context.WithTimeout(t.Context(), wait.Timeout)
	defer cancel()
	wait.Quick(t, "ending the stream of a disabled user", time.Second, func() time.Duration {
		if err := in.auth.SetDisabled(t.Context(), "ann", false); err != nil {
			t.Fatal(err)
		}
		ann.SignIn("ann", testPassword)
		stream := ann.Open(limit, "GET", "/api/v1/events", nil)
		defer stream.Body.Close()
		if _, err := io.ReadFull(stream.Body, make([]byte, 5)); err != nil {
			t.Fatal(err)
		}
		if err := in.auth.SetDisabled(t.Context(), "ann", true); err != nil {
			t.Fatal(err)
		}
		at := time.Now()
		if _, err := io.Copy(io.Discard, stream.Body); err != nil {
			t.Errorf("the stream of a disabled user ended with %v", err)
		}
		return time.Since(at)
	})
}

func TestSessionsOverTheAPI(t *testing.T) {
	in := newHarness(t)
	ann := in.signedIn("ann")
	before := ann.Cookie
	other := in.anyone()
	other.SignIn("ann", testPassword)
	ann.SignIn("ann", testPassword) // the browser has a new session now
	if ann.Cookie == before {
		t.Error("a sign-in kept the session")
	}
	old := in.anyone()
	old.Cookie = before
	old.Do("GET", "/api/v1/auth/session", nil).Problem(t, 401, "not-signed-in")
	items := ann.Do("GET", "/api/v1/sessions", nil).Object(t)["items"].([]any)
	if len(items) != 2 {
		t.Fatalf("got %v", items)
	}
	for _, item := range items {
		s := item.(map[string]any)
		if s["address"] != "127.0.0.1" || s["client"] == "" {
			t.Errorf("got %v", s)
		}
		if s["current"] == false {
			if got := ann.Do("DELETE", "/api/v1/sessions/"+s["id"].(string), nil); got.StatusCode != 204 {
				t.Errorf("ending a session: %d %s", got.StatusCode, got.Text)
			}
		}
	}
	other.Do("GET", "/api/v1/auth/session", nil).Problem(t, 401, "not-signed-in")
	ann.Do("DELETE", "/api/v1/sessions/unknown", nil).Problem(t, 404, "not-found")
	ann.Do("DELETE", "/api/v1/sessions/%00", nil).Problem(t, 404, "not-found")
	ann.Do("DELETE", "/api/v1/tokens/%00", nil).Problem(t, 404, "not-found")
	if got := ann.Do("DELETE", "/api/v1/sessions", nil); got.StatusCode != 204 {
		t.Errorf("ending all others: %d %s", got.StatusCode, got.Text)
	}
}

func TestThrottledSignInsSayWhenToComeBack(t *testing.T) {
	in := newHarness(t)
	c := in.anyone()
	wrong := map[string]any{"username": "admin", "password": "wrong"}
	for range 5 {
		c.Do("POST", "/api/v1/auth/login", wrong).Problem(t, 401, "bad-credentials")
	}
	got := c.Do("POST", "/api/v1/auth/login", map[string]any{"username": "admin", "password": testPassword})
	p := got.Problem(t, 429, "too-many-attempts")
	if n, err := strconv.Atoi(got.Header.Get("Retry-After")); err != nil || n < 20 || n > 30 || p["retry_after"] != float64(n) || !strings.Contains(p["detail"].(string), "seconds") {
		t.Errorf("Retry-After %q, %v", got.Header.Get("Retry-After"), p)
	}
}

func TestChangingThePassword(t *testing.T) {
	in := newHarness(t)
	ann, other := in.signedIn("ann"), in.anyone()
	other.SignIn("ann", testPassword)
	const next = "another horse battery"
	change := func(present, password string) apitest.Reply {
		return ann.Do("POST", "/api/v1/me/password", map[string]any{"present": present, "password": password})
	}
	for _, c := range []struct{ present, password, field string }{
		{"wrong", next, "present"}, {"", next, "present"}, {testPassword, "short", "password"}, {testPassword, "", "password"},
	} {
		if p := change(c.present, c.password).Problem(t, 400, "invalid-field"); p["field"] != c.field {
			t.Errorf("%q to %q: %v", c.present, c.password, p)
		}
	}
	if r := other.Do("GET", "/api/v1/me", nil); r.StatusCode != 200 || r.Object(t)["username"] != "ann" {
		t.Fatalf("a refused change ended a session: %d %s", r.StatusCode, r.Text)
	}
	if items := ann.Do("GET", "/api/v1/sessions", nil).Object(t)["items"].([]any); len(items) != 2 {
		t.Errorf("refused changes left %d sessions, want 2", len(items))
	}
	before := ann.Cookie
	r := change(testPassword, next)
	if r.StatusCode != 204 || len(r.Cookies()) != 1 {
		t.Fatalf("got status %d, cookies %v: %s", r.StatusCode, r.Cookies(), r.Text)
	}
	other.Do("GET", "/api/v1/me", nil).Problem(t, 401, "not-signed-in")
	ann.Do("GET", "/api/v1/me", nil).Problem(t, 401, "not-signed-in")
	if ann.Cookie = r.Cookies()[0].Value; ann.Cookie == before {
		t.Error("the session is the same")
	}
	if r := ann.Do("GET", "/api/v1/me", nil); r.StatusCode != 200 {
		t.Errorf("the new session: %d %s", r.StatusCode, r.Text)
	}
	in.anyone().Do("POST", "/api/v1/auth/login", map[string]any{"username": "ann", "password": testPassword}).Problem(t, 401, "bad-credentials")
	in.anyone().SignIn("ann", next)
	in.anyone().Do("POST", "/api/v1/me/password", map[string]any{"present": next, "password": testPassword}).Problem(t, 401, "not-signed-in")
}

func TestThePasswordOfAnotherSignIn(t *testing.T) {
	in := newHarness(t, func(o *api.Options) { o.NoPasswords = true })
	ann := in.anyone()
	var err error
	if ann.Cookie, _, err = in.auth.Login(t.Context(), "admin", testPassword, auth.Client{}); err != nil {
		t.Fatal(err)
	}
	ann.Do("POST", "/api/v1/me/password", map[string]any{"present": testPassword, "password": "another horse battery"}).Problem(t, 403, "passwords-off")
}
