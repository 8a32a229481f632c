package gateway

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/codehub/gateway/caddymodule/gateway/gatewaytest"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/coder/websocket"
)

// A page on the host of one workspace is of the same site as every other, so its
// requests carry the cookies of them.
func TestPagesOfOtherOriginsActOnNoWorkspace(t *testing.T) {
	w := newHarness(t)
	sibling := "Origin: http://ws-" + string(two) + ".localhost"
	w.Change(one, func(*store.Route) {})
	for _, lines := range [][]string{{asAlice, sibling}, {asAlice, sibling, oneHost}, {asAlice, "Sec-Fetch-Site: same-site"}} {
		got, err := w.send("POST", onePath+"/", "x", lines...)
		if err != nil || got.StatusCode != 403 || got.Header.Get("Content-Type") != "application/problem+json" {
			t.Fatalf("%v: %v %+v", lines, err, got)
		}
	}
	if w.Woken() {
		t.Error("a page of another origin woke a workspace")
	}
	app := gatewaytest.App(t, func(rw http.ResponseWriter, r *http.Request) {
		if c, err := websocket.Accept(rw, r, &websocket.AcceptOptions{InsecureSkipVerify: true}); err == nil {
			_ = c.Close(websocket.StatusNormalClosure, "")
		}
	})
	w.Run(one, app)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for origin, want := range map[string]int{"": 101, w.url: 101, "http://ws-" + string(two) + ".localhost": 403, "null": 403} {
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
