package gateway

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/codehub/gateway/caddymodule/internal/gateway/gatewaytest"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

const byPerson = "Sec-Fetch-User: ?1"

// wakeUp sends the form that wakes the workspace, as the button on the page of a sleeping workspace does.
func (h *harness) wakeUp(path, back string, lines ...string) reply {
	h.t.Helper()
	got, err := h.send("POST", path+"/.codehub/wake", url.Values{"return": {back}}.Encode(), lines...)
	if err != nil {
		h.t.Fatal(err)
	}
	return got
}

func TestAPageThatLoadsItselfDoesNotWake(t *testing.T) {
	for name, c := range map[string]struct{ path, from, own string }{
		"below its path": {onePath, "Referer: http://h.example" + onePath + "/a", "Accept: text/html"},
		"on its host":    {"", "Referer: http://h.example/a", oneHost},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			h.Change(one, func(r *store.Route) { r.Phase, r.Desired = workspace.PhaseStandby, workspace.DesiredStandby })
			page := h.get(503, c.path+"/deep?x=1", asAlice, asPage, sameOrigin, c.from, c.own)
			for _, want := range []string{`action="` + c.path + `/.codehub/wake"`, `value="` + c.path + `/deep?x=1"`, "is asleep"} {
				if !strings.Contains(page.body, want) {
					t.Errorf("the page lacks %q:\n%s", want, page.body)
				}
			}
			form, err := h.send("POST", c.path+"/deep", "a=b", append(asForm, asAlice, c.from, c.own)...)
			if err != nil || form.StatusCode != 503 {
				t.Errorf("a form without a person: %v %v", form.Response, err)
			}
			if h.Woken() {
				t.Fatal("it is woken without a person")
			}
			// The button wakes the workspace. The page to which it leads shows the start, although the browser does not
			// mark the request for that page as a person's.
			got := h.wakeUp(c.path, c.path+"/deep?x=1", append(asForm, asAlice, c.own)...)
			if got.StatusCode != http.StatusSeeOther || got.Header.Get("Location") != c.path+"/deep?x=1" {
				t.Fatalf("the button leads to %q: %d %s", got.Header.Get("Location"), got.StatusCode, got.body)
			}
			if h.Desired(one) != workspace.DesiredRunning {
				t.Fatal("the button does not wake it")
			}
			if page := h.get(502, c.path+"/deep?x=1", asAlice, asPage, sameOrigin, c.from, c.own); !strings.Contains(page.body, `id="wake"`) {
				t.Errorf("after the button: %s", page.body)
			}
		})
	}
}

func TestAPersonWakesWhateverPageTheyComeFrom(t *testing.T) {
	const own = "Referer: http://h.example" + onePath + "/a"
	for name, lines := range map[string][]string{
		"a click, or the reload button": {sameOrigin, byPerson, own},
		"a tab that is restored":        {"Sec-Fetch-Site: none"},
		"the dashboard":                 {sameOrigin, "Referer: http://h.example/"},
		"another site":                  {"Sec-Fetch-Site: cross-site", "Sec-Fetch-Dest: document"},
		"a browser that says nothing":   {"Accept: text/html"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			h.Change(one, func(r *store.Route) { r.Phase, r.Desired = workspace.PhaseStandby, workspace.DesiredStandby })
			if name != "a browser that says nothing" {
				lines = append(lines, asPage)
			}
			h.get(502, onePath+"/", append(lines, asAlice)...)
			wait.Until(t, "it is woken", h.Woken)
		})
	}
}

func TestAPageThatLoadsItselfIsNoUse(t *testing.T) {
	h := newHarness(t)
	h.Run(one, gatewaytest.App(t, pageApp(t)))
	h.tell(`{"hello":true}`)
	wait.Until(t, "its pages report", func() bool { return h.mode(one) == workspace.PagePresence })
	h.Used(one)
	own := "Referer: " + h.url + onePath + "/"
	page := h.get(200, onePath+"/", asAlice, asPage, sameOrigin, own)
	h.waitServed()
	if h.Used(one) {
		t.Error("it counts as use")
	}
	if !strings.Contains(page.body, "presence.js") {
		t.Errorf("it lacks the script: %s", page.body)
	}
	h.get(200, onePath+"/", asAlice, asPage, sameOrigin, byPerson, own)
	h.waitServed()
	if !h.Used(one) {
		t.Error("the reload button does not count as use")
	}
}

func TestTheWakeButtonRefuses(t *testing.T) {
	h := newHarness(t)
	h.Change(one, func(r *store.Route) { r.Phase, r.Desired = workspace.PhaseStandby, workspace.DesiredStandby })
	const form = "Content-Type: application/x-www-form-urlencoded"
	for name, c := range map[string]struct {
		lines []string
		want  int
	}{
		"another site":                {[]string{form, asAlice, asPage, "Sec-Fetch-Site: cross-site", "Origin: https://evil.example"}, 403},
		"a sibling host":              {[]string{form, asAlice, asPage, "Sec-Fetch-Site: same-site", "Origin: http://ws-x.localhost"}, 403},
		"nothing says where it comes": {[]string{form, asAlice}, 403},
		"somebody else":               {append([]string{asBob}, asForm...), 404},
		"not signed in any more":      {asForm, 401},
	} {
		got := h.wakeUp(onePath, onePath+"/", c.lines...)
		if got.StatusCode != c.want || c.want == 401 && !strings.Contains(got.body, "Your session has ended") {
			t.Errorf("%s: got %d, want %d: %s", name, got.StatusCode, c.want, got.body)
		}
	}
	if got := h.get(405, onePath+"/.codehub/wake", asAlice, asPage); got.Header.Get("Allow") != "POST" {
		t.Errorf("GET: %v", got.Header)
	}
	if h.Woken() {
		t.Fatal("a refused request wakes it")
	}
	for _, back := range []string{"https://evil.example/", "//evil.example", "/w/other/"} {
		if got := h.wakeUp(onePath, back, append(asForm, asAlice)...); got.Header.Get("Location") != onePath+"/" {
			t.Errorf("%q leads to %q", back, got.Header.Get("Location"))
		}
	}
}

func TestTheWakeButtonAtALimit(t *testing.T) {
	h := newLimit(t)
	page := h.wakeUp(onePath, onePath+"/deep", append(asForm, asAlice)...)
	if page.StatusCode != 502 || page.Header.Get("Retry-After") == "" || !strings.Contains(page.body, `value="`+onePath+`/deep"`) ||
		!strings.Contains(page.body, "At most 1 of your workspaces") {
		t.Errorf("got %d %v: %s", page.StatusCode, page.Header, page.body)
	}
}
