package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/codehub/gateway/caddymodule/gateway/gatewaytest"
	"github.com/codehub/gateway/caddymodule/web"
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
	if want := "http://localhost:" + port + "/auth/ticket?workspace=" + string(one) + "&return=%2Fa%3Fb"; got.Header.Get("Location") != want {
		t.Fatalf("got %q, want %q", got.Header.Get("Location"), want)
	}
	h.get(403, "/.codehub/ticket?t=wrong&return=/", host, asPage)
	for back, want := range map[string]string{"/a?b": "/a?b", "//evil.com": "/", "http://evil.com": "/", "/\\evil": "/"} {
		got = h.get(303, "/.codehub/ticket?t=ticket-"+string(one)+"&return="+url.QueryEscape(back), host, asPage)
		if got.Header.Get("Location") != want {
			t.Errorf("return %q went to %q", back, got.Header.Get("Location"))
		}
	}
	cookie := got.Cookies()[0]
	if cookie.Name != web.WorkspaceCookie || !cookie.HttpOnly || cookie.Domain != "" || cookie.SameSite != http.SameSiteLaxMode || cookie.Secure {
		t.Errorf("the cookie is %v", cookie)
	}
	in := h.get(200, "/a", host, "Cookie: x=1; codehub_ws="+cookie.Value)
	if strings.Contains(in.body, cookie.Value) || !strings.Contains(in.body, "Cookie: x=1") {
		t.Errorf("the workspace got %s", in.body)
	}
	h.get(401, "/a", "Host: ws-"+string(two)+".localhost:"+port, "Cookie: codehub_ws="+cookie.Value)
	h.get(404, onePath+"/.codehub/ticket?t=x", asAlice)
}

// Raw requests that try to smuggle in an identity or a second request.
func TestRawRequests(t *testing.T) {
	h := newHarness(t)
	h.Run(one, gatewaytest.Echo(t))
	send := func(raw string) string {
		conn, err := net.Dial("tcp", h.url[len("http://"):])
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		fmt.Fprint(conn, raw)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			return "closed"
		}
		b, _ := io.ReadAll(resp.Body)
		return fmt.Sprint(resp.StatusCode, " ", string(b))
	}
	alice := "X-Test-User: alice\r\nConnection: close\r\n"
	for _, c := range []struct{ name, raw, status string }{
		{"two hosts", "GET " + onePath + "/ HTTP/1.1\r\nHost: a\r\nHost: ws-x.localhost\r\n" + alice + "\r\n", "400"},
		{"length and chunks", "POST " + onePath + "/ HTTP/1.1\r\nHost: a\r\n" + alice + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n", ""},
		{"two lengths", "POST " + onePath + "/ HTTP/1.1\r\nHost: a\r\n" + alice + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", "400"},
		{"space before the colon", "GET " + onePath + "/ HTTP/1.1\r\nHost: a\r\n" + alice + "Forwarded : for=x\r\n\r\n", "400"},
		{"claims in many spellings", "GET " + onePath + "/ HTTP/1.1\r\nHost: a\r\n" + alice + "forwarded: for=EVIL\r\nFORWARDED: for=EVIL\r\nremote_user: EVIL\r\nx-codehub-role: EVIL\r\n\r\n", "200"},
		{"claims kept by Connection", "GET " + onePath + "/ HTTP/1.1\r\nHost: a\r\nX-Test-User: alice\r\nConnection: close, X-Forwarded-Prefix\r\nX-Forwarded-Prefix: /EVIL\r\n\r\n", "200"},
		{"two cookie lines", "GET " + onePath + "/ HTTP/1.1\r\nHost: a\r\n" + alice + "Cookie: session=EVIL\r\nCookie: a=1; session=EVIL\r\n\r\n", "200"},
	} {
		got := send(c.raw)
		if !strings.HasPrefix(got, c.status) || strings.Contains(got, "EVIL") || strings.Contains(got, "smuggled") {
			t.Errorf("%s: %s", c.name, got)
		}
	}
}
