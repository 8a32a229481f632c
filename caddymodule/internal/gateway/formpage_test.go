package gateway

import (
	"strings"
	"testing"

	"github.com/codehub/gateway/caddymodule/internal/gateway/gatewaytest"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
)

// A form that a person sends is held like a program's request. The final answer is a page.
func TestAFormGetsAPage(t *testing.T) {
	h := newHarness(t)
	h.Change(one, func(r *store.Route) { r.Phase, r.ErrorReason = workspace.PhaseError, workspace.ReasonTimeout })
	const accept = "Accept: text/html,*/*;q=0.8"
	for _, c := range []struct {
		status int
		lines  []string
		page   bool
	}{
		{502, []string{asAlice, asPage, "Sec-Fetch-User: ?1", accept}, true},
		{502, []string{asAlice, accept}, true},
		{502, []string{asAlice, asProgram}, false},
		{502, []string{asAlice, asSubrequest, accept}, false},
		{502, []string{withToken, asPage, accept}, false},
		{401, []string{asPage, "Sec-Fetch-User: ?1", accept}, true},
		{403, []string{asAlice, asPage, accept, "Sec-Fetch-Site: cross-site"}, true},
		{404, []string{asBob, asPage, "Sec-Fetch-User: ?1", accept}, true},
	} {
		got, err := h.send("POST", "/", "a=b", append(c.lines, oneHost)...)
		if err != nil {
			t.Fatal(err)
		}
		if isPage := strings.HasPrefix(got.Header.Get("Content-Type"), "text/html"); got.StatusCode != c.status || isPage != c.page {
			t.Errorf("%q: status %d, %s", c.lines, got.StatusCode, got.Header.Get("Content-Type"))
		}
		if got.StatusCode == 401 && got.Header.Get("WWW-Authenticate") == "" {
			t.Errorf("%q: %v", c.lines, got.Header)
		}
	}
}

// A form for a sleeping workspace is answered with the page that has a button to wake it. The button leads back to the
// page with the form, because the address to which the form was sent may accept only forms.
func TestAFormThatDoesNotWakeGetsTheButton(t *testing.T) {
	const from = "Referer: http://" + gatewaytest.OneHost + "/form?a=b"
	for name, c := range map[string]struct {
		lines []string
		back  string
	}{
		"sent by a script":             {[]string{from}, "/form?a=b"},
		"from a page that hides where": {nil, "/save"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			h.Change(one, func(r *store.Route) { r.Phase, r.Desired = workspace.PhaseStandby, workspace.DesiredStandby })
			h.getsTheButton(503, c.back, append(append(c.lines, asForm...), "Accept: text/html")...)
			if h.Woken() {
				t.Error("it wakes the workspace")
			}
			// If a script sends the form, and so no person sees the answer, the answer is a problem.
			got, err := h.send("POST", "/save", "a=b", append(c.lines, asAlice, oneHost, asSubrequest, "Accept: text/html")...)
			if err != nil || got.StatusCode != 503 || !strings.Contains(got.body, "problem:asleep") {
				t.Errorf("%v: %d %s", err, got.StatusCode, got.body)
			}
		})
	}
	t.Run("put to sleep while it waits", func(t *testing.T) {
		h := newHarness(t)
		h.Change(one, func(*store.Route) {})
		done := make(chan struct{})
		go func() {
			defer close(done)
			h.getsTheButton(409, "/form?a=b", append([]string{from, byPerson, "Accept: text/html"}, asForm...)...)
		}()
		h.WaitHeld(1)
		h.starting()
		h.putToSleep()
		<-done
	})
}

// getsTheButton sends a form. It checks that the answer has the button, and that the button leads to the right address.
func (h *harness) getsTheButton(status int, back string, lines ...string) {
	got, err := h.send("POST", "/save", "a=b", append(lines, asAlice, oneHost)...)
	if err != nil {
		h.t.Error(err)
		return
	}
	if got.StatusCode != status || !strings.Contains(got.body, `action="/.codehub/wake"`) || !strings.Contains(got.body, `value="`+back+`"`) ||
		!strings.Contains(got.body, "What you sent has not reached it") {
		h.t.Errorf("status %d:\n%s", got.StatusCode, got.body)
	}
}
