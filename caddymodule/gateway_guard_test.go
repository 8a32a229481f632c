package codehub

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/coder/websocket"

	"github.com/codehub/gateway/coordinator/store"
)

func TestForeignOrigin(t *testing.T) {
	for _, c := range []struct {
		method, headers string
		foreign         bool
	}{
		{"POST", "", false},
		{"POST", "Origin: http://h.example", false},
		{"POST", "Origin: https://H.example:443", false},
		{"POST", "Origin: http://evil.example", true},
		{"POST", "Origin: http://h.example:8080", true},
		{"POST", "Origin: http://h.example.evil.example", true},
		{"POST", "Origin: null", true},
		{"POST", "Origin: null|Sec-Fetch-Site: same-origin", false},
		{"DELETE", "Sec-Fetch-Site: same-site", true},
		{"POST", "Origin: http://front.example|X-Forwarded-Host: front.example", true},
		{"GET", "Origin: http://evil.example", false},
		{"OPTIONS", "Origin: http://evil.example", false},
		{"GET", "Upgrade: websocket", false},
		{"GET", "Upgrade: WebSocket|Origin: http://evil.example", true},
		{"GET", "Upgrade: websocket|Origin: http://h.example", false},
	} {
		r := request(c.method, "http://h.example/", strings.Split(c.headers, "|")...)
		if c.headers == "" {
			r = request(c.method, "http://h.example/")
		}
		ctx := context.WithValue(r.Context(), caddyhttp.VarsCtxKey, map[string]any{})
		if got := foreign(r.WithContext(ctx)); got != c.foreign {
			t.Errorf("%s %q: foreign is %v", c.method, c.headers, got)
		}
	}
}

// A page on the host of one workspace is of the same site as every other, so its
// requests carry the cookies of them.
func TestPagesOfOtherOriginsActOnNoWorkspace(t *testing.T) {
	w := newWorld(t, nil)
	sibling := "Origin: http://ws-" + string(wsTwo) + ".localhost"
	w.change(wsOne, func(*store.Route) {})
	for _, lines := range [][]string{{asAlice, sibling}, {asAlice, sibling, oneHost}, {asAlice, "Sec-Fetch-Site: same-site"}} {
		got, err := w.send("POST", onePath+"/", "x", lines...)
		if err != nil || got.StatusCode != 403 || got.Header.Get("Content-Type") != "application/problem+json" {
			t.Fatalf("%v: %v %+v", lines, err, got)
		}
	}
	if w.wished() > 0 {
		t.Error("a page of another origin woke a workspace")
	}
	app := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if c, err := websocket.Accept(rw, r, &websocket.AcceptOptions{InsecureSkipVerify: true}); err == nil {
			_ = c.Close(websocket.StatusNormalClosure, "")
		}
	}))
	defer app.Close()
	w.run(wsOne, app)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for origin, want := range map[string]int{"": 101, w.url: 101, "http://ws-" + string(wsTwo) + ".localhost": 403, "null": 403} {
		h := http.Header{"X-Test-User": {"alice"}}
		if origin != "" {
			h.Set("Origin", origin)
		}
		c, resp, err := websocket.Dial(ctx, w.url+onePath+"/", &websocket.DialOptions{HTTPHeader: h})
		if resp == nil || resp.StatusCode != want {
			t.Errorf("from %q: %v %v", origin, resp, err)
		}
		if c != nil {
			_ = c.CloseNow()
		}
	}
}

func TestWorkspaceSetsNoneOfOurCookies(t *testing.T) {
	w := newWorld(t, nil)
	app := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		h := rw.Header()
		for _, c := range []string{"a=1", "session=evil; Path=/", " session =evil", "codehub_ws=evil", "=session=evil", "session=; Max-Age=0", "sessions=2; Path=/", "b=session=3"} {
			h.Add("Set-Cookie", c)
		}
		h.Set("Clear-Site-Data", `"cookies"`)
		h.Set("Service-Worker-Allowed", "/")
		if r.URL.Path == "/stream" {
			rw.WriteHeader(http.StatusEarlyHints)
			fmt.Fprint(rw, "first")
			_ = http.NewResponseController(rw).Flush()
			<-r.Context().Done()
			return
		}
		if c, err := websocket.Accept(rw, r, nil); r.Header.Get("Upgrade") != "" && err == nil {
			_ = c.Close(websocket.StatusNormalClosure, "")
		}
	}))
	defer app.Close()
	w.run(wsOne, app)
	check := func(what string, h http.Header, scope string) {
		t.Helper()
		if got := h["Set-Cookie"]; !slices.Equal(got, []string{"a=1", "sessions=2; Path=/", "b=session=3"}) {
			t.Errorf("%s: cookies %q", what, got)
		}
		if h.Get("Clear-Site-Data") != "" || h.Get("Service-Worker-Allowed") != scope {
			t.Errorf("%s: %v", what, h)
		}
	}
	got, err := w.send("GET", onePath+"/", "", asAlice)
	if err != nil {
		t.Fatal(err)
	}
	check("path", got.Header, onePath+"/")
	if got, err = w.send("GET", "/", "", asAlice, oneHost); err != nil {
		t.Fatal(err)
	}
	check("host", got.Header, "/")

	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	c, resp, err := websocket.Dial(ctx, w.url+onePath+"/", &websocket.DialOptions{HTTPHeader: http.Header{"X-Test-User": {"alice"}}})
	if err != nil {
		t.Fatal(err)
	}
	_ = c.CloseNow()
	check("WebSocket", resp.Header, onePath+"/")

	// What streams arrives before the end.
	resp, err = noRedirect.Do(request("GET", w.url+onePath+"/stream", asAlice).WithContext(ctx))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	first := make([]byte, 5)
	if _, err := resp.Body.Read(first); err != nil || string(first) != "first" {
		t.Errorf("the stream: %q %v", first, err)
	}
	check("stream", resp.Header, onePath+"/")
}

func TestWorkspaceThatBreaksOff(t *testing.T) {
	w := newWorld(t, nil)
	app := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/later" {
			fmt.Fprint(rw, "part")
			_ = http.NewResponseController(rw).Flush()
		}
		if r.URL.Path != "/" {
			panic(http.ErrAbortHandler)
		}
	}))
	defer app.Close()
	w.run(wsOne, app)
	w.get(200, onePath+"/", asAlice)
	page := w.get(502, onePath+"/x?y", asAlice, asPage)
	if !strings.Contains(page.body, "gave no answer") || !strings.Contains(page.body, `href="`+onePath+`/x?y"`) {
		t.Errorf("page: %s", page.body)
	}
	for _, kind := range []string{asTab, "Accept: */*"} {
		if got := w.get(502, onePath+"/x", asAlice, kind); !strings.Contains(got.body, "problem:no-answer") {
			t.Errorf("%s: %s", kind, got.body)
		}
	}
	// An answer that has begun is not continued with another one.
	if got, err := w.send("GET", onePath+"/later", "", asAlice, asPage); err == nil || got.body != "part" {
		t.Errorf("got %v %q", err, got.body)
	}
	w.get(200, onePath+"/", asAlice)
}
