package gateway

import (
	"context"
	"net/http"
	"testing"

	"github.com/coder/websocket"

	"github.com/codehub/gateway/caddymodule/internal/gateway/gatewaytest"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/wait"
)

// The hosts of all workspaces are the same site. So when a page on one workspace's host sends a request to another
// host, browsers add that host's cookies.
func TestCrossOriginRequestsAreRefused(t *testing.T) {
	h := newHarness(t)
	sibling := "Origin: http://ws-" + string(two) + ".localhost"
	h.Change(one, func(*store.Route) {})
	for _, lines := range [][]string{{asAlice, sibling}, {asAlice, sibling, oneHost}, {asAlice, "Sec-Fetch-Site: same-site"}} {
		got, err := h.send("POST", onePath+"/", "x", lines...)
		if err != nil || got.StatusCode != 403 || got.Header.Get("Content-Type") != "application/problem+json" {
			t.Fatalf("%v: %v %+v", lines, err, got)
		}
	}
	if h.Woken() {
		t.Error("a page of another origin woke a workspace")
	}
	app := gatewaytest.App(t, func(rw http.ResponseWriter, r *http.Request) {
		if c, err := websocket.Accept(rw, r, &websocket.AcceptOptions{InsecureSkipVerify: true}); err == nil {
			_ = c.Close(websocket.StatusNormalClosure, "")
		}
	})
	h.Run(one, app)
	ctx, cancel := context.WithTimeout(t.Context(), wait.Timeout)
	defer cancel()
	for origin, want := range map[string]int{"": 101, h.url: 101, "http://ws-" + string(two) + ".localhost": 403, "null": 403} {
		header := http.Header{"X-Test-User": {"alice"}}
		if origin != "" {
			header.Set("Origin", origin)
		}
		c, resp, err := websocket.Dial(ctx, h.url+onePath+"/", &websocket.DialOptions{HTTPHeader: header})
		if resp == nil || resp.StatusCode != want {
			t.Errorf("from %q: %v %v", origin, resp, err)
		}
		if c != nil {
			_ = c.CloseNow()
		}
	}
}
