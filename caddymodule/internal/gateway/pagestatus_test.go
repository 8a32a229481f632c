package gateway

import (
	"fmt"
	"strings"
	"testing"

	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
)

// CDNs replace 502 and 504 of the origin with a page of their own. If the setting names another status, people see our
// page; programs still get the original status.
func TestPageStatus(t *testing.T) {
	for _, c := range []struct{ setting, wake, asleep int }{{502, 502, 503}, {503, 503, 503}, {200, 200, 200}} {
		t.Run(fmt.Sprint(c.setting), func(t *testing.T) {
			h := newHarness(t, perHost, func(o *Options) { o.PageStatus, o.PageWait = c.setting, 0 })
			h.Change(one, func(r *store.Route) { r.Phase, r.ErrorReason = workspace.PhaseError, workspace.ReasonTimeout })
			if got := h.get(c.wake, "/", oneHost, asAlice, asPage, "Accept: text/html"); !strings.Contains(got.body, "<html") {
				t.Errorf("%d: the page of an error is %s", c.setting, got.body)
			}
			h.get(502, "/", oneHost, asAlice, asProgram)
			for mode, want := range map[string]int{"": 502, "navigate": c.wake} {
				got, err := h.send("POST", "/", "x", oneHost, asAlice, "Accept: text/html", "Sec-Fetch-Mode: "+mode)
				if err != nil || got.StatusCode != want || !strings.Contains(got.body, "<html") {
					t.Errorf("%d: a form of mode %q gets %v %s %v", c.setting, mode, got.Response, got.body, err)
				}
			}
			h.Change(two, func(*store.Route) {})
			other := strings.Replace(oneHost, string(one), string(two), 1)
			h.get(c.asleep, "/", other, asAlice, asPage, "Accept: text/html", "Sec-Fetch-Site: same-origin")
			h.get(503, "/", other, asAlice, asSubrequest)
			if got := h.get(c.wake, "/", other, asAlice, asPage, "Accept: text/html"); got.Header.Get("Retry-After") == "" || got.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("%d: the wake page has %v", c.setting, got.Header)
			}
			h.get(404, "/", strings.Replace(oneHost, "0a.", "0c.", 1), asAlice, asPage)
		})
	}
}
