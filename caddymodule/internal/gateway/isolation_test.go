package gateway

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/codehub/gateway/caddymodule/internal/gateway/gatewaytest"
	"github.com/codehub/gateway/caddymodule/internal/site"
)

// perHost is the option of host mode.
func perHost(o *Options) { o.Site = site.New(site.Options{PerHost: true}) }

const mozilla = "User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36"

// Served on the dashboard's origin, a workspace's HTML could act there with the user's
// rights. In host mode a browser never gets any.
func TestHostModeServesNoBrowserOnTheDashboardsOrigin(t *testing.T) {
	h := newHarness(t, perHost)
	h.Run(one, gatewaytest.App(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Content-Security-Policy", "default-src *")
		w.Header().Set("Service-Worker-Allowed", "/")
		_, _ = w.Write([]byte("<h1>of the workspace</h1>"))
	}))
	port := h.url[strings.LastIndex(h.url, ":"):]
	for target, want := range map[string]string{"": "/", "/": "/", "/a%2Fb/c?d=e&f": "/a%2Fb/c?d=e&f", "//evil.example": "//evil.example", "/.codehub/status": "/.codehub/status"} {
		for _, from := range [][]string{{asPage, "Sec-Fetch-Dest: document"}, {asPage, "Sec-Fetch-Dest: document", "Sec-Fetch-Site: same-site"}, {"Accept: text/html", mozilla}, {"Accept: text/html"}} {
			got := h.get(307, onePath+target, append(from, asAlice)...)
			if to := "http://" + gatewaytest.OneHost + port + want; got.Header.Get("Location") != to || strings.Contains(got.body, "of the workspace") {
				t.Errorf("%s: to %q, want %q: %s", target, got.Header.Get("Location"), to, got.body)
			}
		}
	}
	for _, from := range [][]string{
		{asSubrequest, "Sec-Fetch-Site: same-origin"}, {asSubrequest, "Sec-Fetch-Dest: iframe"}, {"Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: script"},
		{mozilla, asProgram}, {"Origin: " + h.url, asProgram}, {"Service-Worker: script", asProgram}, {"Sec-Fetch-Mode: websocket", "Origin: " + h.url, "Connection: Upgrade", "Upgrade: websocket"},
	} {
		if got := h.get(403, onePath+"/", append(from, asAlice)...); !strings.Contains(got.body, "problem:other-host") {
			t.Errorf("%v: %s", from, got.body)
		}
	}
	for _, from := range [][]string{{asPage, "Sec-Fetch-Dest: iframe", "Sec-Fetch-Site: same-site"}, {asPage, "Sec-Fetch-Dest: object", "Sec-Fetch-Site: cross-site"}} {
		h.get(403, onePath+"/", append(from, asAlice)...)
	}
	if got, err := h.send("POST", onePath+"/", "form", asAlice, asPage, "Origin: "+h.url); err != nil || got.StatusCode != 403 {
		t.Errorf("a form: %v %d", err, got.StatusCode)
	}
	// Programs get answers at the path. The headers of these answers make them useless to a browser.
	got := h.get(200, onePath+"/", asAlice, asProgram)
	if p := got.Header["Content-Security-Policy"]; !slices.Contains(p, "sandbox; frame-ancestors 'none'") || !slices.Contains(p, "default-src *") ||
		got.Header.Get("X-Content-Type-Options") != "nosniff" || got.Header.Get("Service-Worker-Allowed") != "" {
		t.Errorf("a program's answer has %v", got.Header)
	}
	// On the workspace's own host nothing changes.
	for _, from := range [][]string{{asPage}, {asSubrequest}, {mozilla}} {
		if got := h.get(200, "/", append(from, asAlice, oneHost)...); strings.Contains(strings.Join(got.Header["Content-Security-Policy"], ""), "sandbox") {
			t.Errorf("on its own host: %v", got.Header)
		}
	}
}

func TestPathModeServesBrowsers(t *testing.T) {
	h := newHarness(t)
	h.Run(one, gatewaytest.Echo(t))
	if got := h.get(200, onePath+"/", asAlice, asPage, mozilla); got.Header.Get("Content-Security-Policy") != "" {
		t.Errorf("got %v", got.Header)
	}
}

func TestPathsAreServedAtConfiguredHostsOnly(t *testing.T) {
	h := newHarness(t)
	h.Run(one, gatewaytest.Echo(t))
	for _, host := range []string{"evil.example", "10.1.2.3", "sub.localhost"} {
		if got := h.get(421, onePath+"/", asAlice, "Host: "+host); !strings.Contains(got.body, "problem:misdirected") {
			t.Errorf("%s: %s", host, got.body)
		}
		if got := h.get(421, onePath+"/", asAlice, asPage, "Host: "+host); !strings.Contains(got.body, "http://localhost") {
			t.Errorf("%s: %s", host, got.body)
		}
	}
	h.get(200, onePath+"/", asAlice, "Host: localhost")
}

// In this test, a page of a sibling host has planted a second cookie with the name of the session's cookie.
func TestTwoWorkspaceCookiesAreRefusedAndCleared(t *testing.T) {
	h := newHarness(t)
	h.Run(one, gatewaytest.Echo(t))
	token, err := h.Redeem(t.Context(), gatewaytest.Ticket(one), gatewaytest.Browser, one)
	if err != nil {
		t.Fatal(err)
	}
	h.get(200, "/a", oneHost, "Cookie: codehub_ws="+token)
	got := h.get(401, "/a", oneHost, "Cookie: codehub_ws="+token+"; codehub_ws=evil")
	if lines := got.Header["Set-Cookie"]; !slices.Contains(lines, "codehub_ws=; Max-Age=0; Path=/; Domain=localhost") || !slices.Contains(lines, "codehub_ws=; Max-Age=0; Path=/a") ||
		slices.Contains(lines, "codehub_ws=; Max-Age=0; Path=/") {
		t.Errorf("got %q", lines)
	}
	// A browser gets a new session without the person noticing.
	got = h.get(303, "/a", oneHost, asPage, "Cookie: codehub_ws="+token+"; codehub_ws=evil")
	if !strings.Contains(got.Header.Get("Location"), "/auth/ticket?") {
		t.Errorf("to %q", got.Header.Get("Location"))
	}
}

// Applications on Node.js answer 431 to a request with 16 KiB of headers. So a page that plants that many cookies would
// lock the user out of every workspace.
func TestPlantedCookiesAreClearedBeforeTheApplicationRefuses(t *testing.T) {
	h := newHarness(t)
	h.Run(one, gatewaytest.Echo(t))
	planted := "Cookie: own=1"
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		planted += "; " + name + "=" + strings.Repeat("x", 4000)
	}
	got := h.get(303, "/p?q", oneHost, asAlice, asPage, planted)
	lines := got.Header["Set-Cookie"]
	if got.Header.Get("Location") != "/p?q" || !slices.Contains(lines, "h=; Max-Age=0; Path=/; Domain=localhost") || !slices.Contains(lines, "a=; Max-Age=0; Path=/p; Domain=localhost") {
		t.Errorf("to %q with %q", got.Header.Get("Location"), lines)
	}
	for _, line := range lines {
		if strings.HasSuffix(line, "Path=/") && !strings.HasPrefix(line, "codehub_cleared=") {
			t.Errorf("a cookie of the application itself is deleted: %s", line)
		}
	}
	if to := h.get(303, "//evil.example/", oneHost, asAlice, asPage, planted).Header.Get("Location"); to != "/" {
		t.Errorf("a path that looks like a host leads to %q", to)
	}
	// The browser asks once more, not forever.
	h.get(200, "/p?q", oneHost, asAlice, asPage, planted+"; codehub_cleared=1")
	// In path mode, a cookie for a path above the workspace's path is not one of the workspace's own cookies.
	got = h.get(303, onePath+"/p/", asAlice, asPage, planted, "Host: localhost")
	lines = got.Header["Set-Cookie"]
	if !slices.Contains(lines, "a=; Max-Age=0; Path=/") || slices.Contains(lines, "a=; Max-Age=0; Path="+onePath+"/") || !slices.Contains(lines, "a=; Max-Age=0; Path="+onePath+"/; Domain=localhost") {
		t.Errorf("got %q", lines)
	}
}

func TestAHostThatIsANameLeadsToTheMainSite(t *testing.T) {
	h := newHarness(t, perHost)
	got := h.get(307, "/a?b", asPage, "Host: project--ann.localhost:8080")
	if want := "http://localhost:8080/auth/name?host=project--ann&return=%2Fa%3Fb"; got.Header.Get("Location") != want {
		t.Errorf("to %q, want %q", got.Header.Get("Location"), want)
	}
	h.get(404, "/", asAlice, asProgram, "Host: project--ann.localhost")
	h.get(404, "/", asAlice, asSubrequest, "Host: project--ann.localhost")
}
