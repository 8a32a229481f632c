package api_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/codehub/gateway/caddymodule/internal/api/apitest"
)

// The hosts of workspaces belong to the same site as the dashboard. So the browser sends the session cookie with every
// request from their pages to the dashboard.
func TestASiblingHostMayOnlyOpenAddresses(t *testing.T) {
	in := newHarness(t)
	ann := in.signedIn("ann")
	lines := func(site, mode, dest string) []string {
		return []string{"Sec-Fetch-Site: " + site, "Sec-Fetch-Mode: " + mode, "Sec-Fetch-Dest: " + dest}
	}
	for _, path := range []string{"/api/v1/workspaces", "/api/v1/auth/session", "/api/v1/events"} {
		for _, from := range [][]string{
			lines("same-site", "cors", "empty"), lines("same-site", "no-cors", "script"), lines("same-site", "navigate", "iframe"), {"Origin: http://ws-1.codehub.test:8080"},
		} {
			ann.Do("GET", path, nil, from...).Problem(t, 403, "cross-site")
		}
	}
	for _, path := range []string{"/", "/login", "/auth/ticket?workspace=x"} {
		if a := ann.Do("GET", path, nil, lines("same-site", "navigate", "iframe")...); a.StatusCode != 403 {
			t.Errorf("%s in a frame: status %d", path, a.StatusCode)
		}
	}
	if a := ann.Do("GET", "/", nil, lines("same-site", "navigate", "document")...); a.StatusCode != 200 {
		t.Errorf("in a window: status %d", a.StatusCode)
	}
}

// With DNS rebinding, the name evil.example resolves to this server, and a page of evil.example has the same origin as
// this server's answers under that name.
func TestOnlyConfiguredHostsSignIn(t *testing.T) {
	in := newHarness(t)
	c := in.signedIn("ann")
	for _, host := range []string{"evil.example", "evil.example:8080", "10.0.0.1:8080", "sub.codehub.test:8080", "x.localhost", "codehub.test.evil.example", "[2001:db8::1]"} {
		c.Host = host
		c.Do("POST", "/api/v1/auth/login", map[string]any{"username": "ann", "password": testPassword}).Problem(t, 421, "misdirected")
		c.Do("GET", "/api/v1/workspaces", nil).Problem(t, 421, "misdirected")
		for _, path := range []string{"/", "/login", "/auth/ticket?workspace=x"} {
			if a := c.Do("GET", path, nil); a.StatusCode != 421 || !strings.Contains(string(a.Text), "http://"+apitest.Host+"/") || len(a.Cookies()) != 0 {
				t.Errorf("%s%s: status %d: %s", host, path, a.StatusCode, a.Text)
			}
		}
		if a := c.Do("GET", "/health", nil); a.StatusCode != 200 {
			t.Errorf("%s/health: status %d", host, a.StatusCode) // load balancers probe by IP address
		}
	}
	for _, host := range []string{"codehub.test:8080", "CODEHUB.test", "localhost:8080", "127.0.0.1:8080", "[::1]:8080"} {
		c.Host = host
		if a := c.Do("GET", "/api/v1/auth/session", nil); a.StatusCode != 200 {
			t.Errorf("%s: status %d", host, a.StatusCode)
		}
	}
}

// expired returns the lines that delete a cookie.
func expired(h http.Header, name string) (lines []string) {
	for _, line := range h.Values("Set-Cookie") {
		if strings.HasPrefix(line, name+"=; Max-Age=0;") {
			lines = append(lines, line)
		}
	}
	return lines
}

// A page of a workspace plants a session cookie for the whole domain. The server must not use this cookie, and the
// cookie must not lock the user out.
func TestTwoSessionCookiesAreRefusedAndCleared(t *testing.T) {
	in := newHarness(t)
	ann := in.signedIn("ann")
	token := ann.Cookie
	ann.Cookie = ""
	for _, cookies := range []string{"session=" + token + "; session=evil", "session=evil; session=" + token, "session=" + token + "; a=1; session=" + token} {
		a := ann.Do("GET", "/api/v1/workspaces", nil, "Cookie: "+cookies)
		a.Problem(t, 401, "not-signed-in")
		lines := expired(a.Header, "session")
		for _, want := range []string{"session=; Max-Age=0; Path=/; Domain=codehub.test", "session=; Max-Age=0; Path=/api; Domain=codehub.test", "session=; Max-Age=0; Path=/api/v1/"} {
			if !slices.Contains(lines, want) {
				t.Errorf("%s: %q is missing in %q", cookies, want, lines)
			}
		}
		if slices.Contains(lines, "session=; Max-Age=0; Path=/") {
			t.Error("the user's own session is deleted")
		}
		if a := ann.Do("GET", "/", nil, "Cookie: "+cookies); a.StatusCode != 303 || len(expired(a.Header, "session")) == 0 {
			t.Errorf("the dashboard: status %d, %v", a.StatusCode, a.Header)
		}
	}
	if a := ann.Do("GET", "/", nil, "Cookie: session="+token+"; session="); a.StatusCode != 200 {
		t.Errorf("with an empty one: status %d", a.StatusCode)
	}
}

// Planted cookies are deleted before there are so many of them that servers refuse every request.
func TestTheDashboardClearsPlantedCookies(t *testing.T) {
	in := newHarness(t)
	ann := in.signedIn("ann")
	planted := "codehub_lang=ko; session=" + ann.Cookie
	for _, name := range []string{"p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8"} {
		planted += "; " + name + "=" + strings.Repeat("x", 4000)
	}
	ann.Cookie = ""
	for _, path := range []string{"/", "/login"} {
		a := ann.Do("GET", path, nil, "Cookie: "+planted)
		if path == "/" && a.StatusCode != 200 {
			t.Errorf("status %d", a.StatusCode)
		}
		for _, want := range []string{"p1=; Max-Age=0; Path=/", "p8=; Max-Age=0; Path=/; Domain=codehub.test"} {
			if !slices.Contains(a.Header.Values("Set-Cookie"), want) {
				t.Errorf("%s: %q is missing", path, want)
			}
		}
		if len(expired(a.Header, "session"))+len(expired(a.Header, "codehub_lang")) != 0 {
			t.Error("our own cookies are deleted")
		}
	}
	a := ann.Do("GET", "/login", nil, "Cookie: theirs=1; session=x")
	if len(a.Header.Values("Set-Cookie")) != 0 {
		t.Errorf("a small one of somebody else is deleted: %v", a.Header)
	}
}
