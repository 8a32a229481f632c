package gateway

import (
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/codehub/gateway/caddymodule/internal/gateway/gatewaytest"
	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/coordinator/dataplane/auth"
	"github.com/codehub/gateway/coordinator/store"
)

func TestAdmission(t *testing.T) {
	h := newHarness(t)
	h.Run(one, gatewaytest.Echo(t))
	h.Change(two, func(r *store.Route) { r.Deleted = true })
	unknown := "/w/0123abcd-0000-4000-8000-00000000000c/"
	bodies := map[string]bool{}
	for _, path := range []string{unknown, "/w/" + string(two) + "/", "/w/nonsense/", "/w/", onePath + "/.codehub/other"} {
		bodies[h.get(404, path, asAlice).body] = true
		h.get(404, path, asAlice, asPage)
		h.get(404, path, asAlice, asSubrequest)
	}
	bodies[h.get(404, onePath+"/x", asBob).body] = true
	bodies[h.get(404, onePath+"/.codehub/status", asBob).body] = true
	if len(bodies) != 1 {
		t.Errorf("the answers reveal which workspaces exist: %v", bodies)
	}
	for _, path := range []string{onePath + "/", unknown} {
		for _, kind := range []string{asSubrequest, "Accept: */*"} {
			got := h.get(401, path, kind)
			if got.Header.Get("Content-Type") != "application/problem+json" {
				t.Errorf("401 is %s", got.Header.Get("Content-Type"))
			}
		}
		got := h.get(303, path+"?a=b&c", asPage)
		if want := "/login?return=" + url.QueryEscape(path+"?a=b&c"); got.Header.Get("Location") != want {
			t.Errorf("got %q, want %q", got.Header.Get("Location"), want)
		}
	}
	if got := h.get(503, onePath+"/", "X-Test-User: database away", asPage); got.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	if h.Woken() {
		t.Error("a user who is not admitted woke a workspace")
	}
}

func TestHostModeSignIn(t *testing.T) {
	h := newHarness(t)
	h.Run(one, gatewaytest.Echo(t))
	_, port, _ := net.SplitHostPort(h.url[len("http://"):])
	host := oneHost + ":" + port
	got := h.get(303, "/a?b", host, asPage)
	secret := got.Cookies()[0]
	hash, ok := auth.BrowserHash(secret.Value)
	if want := "http://localhost:" + port + "/auth/ticket?browser=" + hash + "&return=%2Fa%3Fb&workspace=" + string(one); !ok || got.Header.Get("Location") != want {
		t.Fatalf("got %q, want %q", got.Header.Get("Location"), want)
	}
	if secret.Name != site.BrowserCookie || !secret.HttpOnly || secret.Domain != "" || secret.MaxAge == 0 || strings.Contains(got.Header.Get("Location"), secret.Value) {
		t.Errorf("the browser's secret is %v", secret)
	}
	again := h.get(303, "/a?b", host, asPage, "Cookie: codehub_browser="+secret.Value)
	if again.Cookies()[0].Value != secret.Value || again.Header.Get("Location") != got.Header.Get("Location") {
		t.Error("a second tab makes the ticket of the first one worthless")
	}
	browser := "Cookie: codehub_browser=" + gatewaytest.Browser
	h.get(403, "/.codehub/ticket?t=wrong&return=/", host, asPage, browser)
	h.get(403, "/.codehub/ticket?t=ticket-"+string(one)+"&return=/", host, asPage) // of another browser
	h.get(403, "/.codehub/ticket?t=ticket-"+string(one)+"&return=/", host, asPage, browser, "Cookie: codehub_browser=planted")
	for back, want := range map[string]string{"/a?b": "/a?b", "//evil.com": "/", "http://evil.com": "/", "/\\evil": "/"} {
		got = h.get(303, "/.codehub/ticket?t=ticket-"+string(one)+"&return="+url.QueryEscape(back), host, asPage, browser)
		if got.Header.Get("Location") != want {
			t.Errorf("return %q went to %q", back, got.Header.Get("Location"))
		}
	}
	cookie := got.Cookies()[0]
	if cookie.Name != site.WorkspaceCookie || !cookie.HttpOnly || cookie.Domain != "" || cookie.SameSite != http.SameSiteLaxMode || cookie.Secure {
		t.Errorf("the cookie is %v", cookie)
	}
	in := h.get(200, "/a", host, "Cookie: x=1; codehub_ws="+cookie.Value)
	if strings.Contains(in.body, cookie.Value) || !strings.Contains(in.body, "Cookie: x=1") {
		t.Errorf("the workspace got %s", in.body)
	}
	// A second tab that comes too late is signed in already.
	if late := h.get(303, "/.codehub/ticket?t=used&return=/late", host, asPage, browser, "Cookie: codehub_ws="+cookie.Value); late.Header.Get("Location") != "/late" {
		t.Errorf("a tab that comes late went to %q", late.Header.Get("Location"))
	}
	h.get(401, "/a", "Host: ws-"+string(two)+".localhost:"+port, "Cookie: codehub_ws="+cookie.Value)
	h.get(404, onePath+"/.codehub/ticket?t=x", asAlice)
}
