package gateway

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/codehub/gateway/caddymodule/internal/gateway/gatewaytest"
	"github.com/codehub/gateway/caddymodule/internal/gateway/progress"
	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// asForm are the headers of a form that a page of the same origin sends.
var asForm = []string{"Sec-Fetch-Mode: navigate", "Sec-Fetch-Site: same-origin", "Content-Type: application/x-www-form-urlencoded"}

// newLimit returns a gateway at the limit of running workspaces. The workspace two runs, and the tests want to open the
// workspace one.
func newLimit(t *testing.T, change ...func(*Options)) *harness {
	t.Helper()
	h := newHarness(t, change...)
	h.Change(one, func(*store.Route) {})
	h.Change(two, func(r *store.Route) {
		r.Name, r.Phase, r.Desired, r.Endpoint = "other", workspace.PhaseRunning, workspace.DesiredRunning, "127.0.0.1:1"
	})
	h.SetRunning(workspace.Workspace{ID: two, Name: "other", DesiredState: workspace.DesiredRunning, Operation: workspace.OpNone})
	h.Refuse(&service.LimitError{Scope: "user", Limit: 1})
	return h
}

// swap sends the form of the limit page.
func (h *harness) swap(path string, sleep workspace.ID, back string, lines ...string) reply {
	h.t.Helper()
	body := url.Values{"sleep": {string(sleep)}, "return": {back}}.Encode()
	got, err := h.send("POST", path+"/.codehub/swap", body, lines...)
	if err != nil {
		h.t.Fatal(err)
	}
	return got
}

func TestSwapOpensTheWantedWorkspaceOnceTheOtherHasStopped(t *testing.T) {
	h := newLimit(t)
	page := h.get(502, onePath+"/deep?x=1", asAlice, asPage)
	for _, want := range []string{`action="` + onePath + `/.codehub/swap"`, `value="` + string(two) + `"`, `value="` + onePath + `/deep?x=1"`} {
		if !strings.Contains(page.body, want) {
			t.Errorf("the page lacks %q:\n%s", want, page.body)
		}
	}
	got := h.swap(onePath, two, onePath+"/deep?x=1", append(asForm, asAlice)...)
	if got.StatusCode != http.StatusSeeOther || got.Header.Get("Location") != onePath+"/deep?x=1" {
		t.Fatalf("got %d to %q: %s", got.StatusCode, got.Header.Get("Location"), got.body)
	}
	if h.Desired(two) != workspace.DesiredStandby {
		t.Fatal("the other workspace is not put to sleep")
	}
	// While the other one stops, the limit still counts it. The wake-up continues although no browser says that a
	// person sends the next request.
	waking := h.get(502, onePath+"/deep?x=1", asAlice, asPage, sameOrigin)
	if !strings.Contains(waking.body, "Putting other to sleep") || !strings.Contains(waking.body, "other 재우는 중") {
		t.Fatalf("the page is\n%s", waking.body)
	}
	if h.Desired(one) == workspace.DesiredRunning {
		t.Fatal("it is woken before the other has stopped")
	}
	if s := h.asked(); s.Stage != progress.StageRoom || !s.Waking {
		t.Errorf("the status is %+v", s)
	}
	h.SetRunning()
	h.Refuse(nil)
	h.Change(two, func(r *store.Route) { r.Phase, r.Endpoint = workspace.PhaseStandby, "" })
	wait.Until(t, "the wanted one is woken", func() bool { return h.Desired(one) == workspace.DesiredRunning })
}

// TestTheLimitPageIsOnTheMainSite checks that the page is not on a workspace's own host, where the workspace's service
// worker could read the page and press its buttons.
func TestTheLimitPageIsOnTheMainSite(t *testing.T) {
	perHost := func(o *Options) {
		o.Site, o.Ports = site.New(site.Options{PerHost: true}), PortsOn
	}
	for name, c := range map[string]struct{ host, path, back string }{
		"the application": {gatewaytest.OneHost + ":99", "/deep?x=1", "/deep?x=1"},
		"another port":    {"3000--" + gatewaytest.OneHost + ":99", "/", "/"},
		"a foreign path":  {gatewaytest.OneHost + ":99", "//evil.example", "/"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newLimit(t, perHost)
			main := "Host: localhost:99"
			to := h.get(303, c.path, asAlice, asPage, "Host: "+c.host)
			if strings.Contains(to.body, "other") {
				t.Errorf("a page of the workspace can read which others run: %s", to.body)
			}
			path, ok := strings.CutPrefix(to.Header.Get("Location"), "http://localhost:99")
			if !ok {
				t.Fatalf("it leads to %q", to.Header.Get("Location"))
			}
			back, origin := "http://"+c.host+c.back, "http://"+c.host
			page := h.get(502, path, asAlice, asPage, main)
			for _, want := range []string{
				`action="` + onePath + `/.codehub/swap"`, `value="` + string(two) + `"`, `value="` + back + `"`,
				"http://ws-" + string(two) + ".localhost:99/",
			} {
				if !strings.Contains(page.body, want) {
					t.Errorf("the page lacks %q:\n%s", want, page.body)
				}
			}
			if policy := page.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "form-action 'self' "+origin+";") {
				t.Errorf("no browser follows the answer to its form: %s", policy)
			}
			if got := h.swap("", two, c.back, append(asForm, asAlice, "Host: "+c.host)...); got.StatusCode != 404 || h.Desired(two) != workspace.DesiredRunning {
				t.Errorf("a page of the workspace puts another to sleep: %d", got.StatusCode)
			}
			h.get(404, "/.codehub/limit", asAlice, asPage, "Host: "+c.host)
			for _, foreign := range []string{"http://evil.example/", "http://ws-" + string(two) + ".localhost:99/", "/", "javascript:1", ""} {
				if got := h.swap(onePath, one, foreign, append(asForm, asAlice, main)...); got.Header.Get("Location") != "http://"+gatewaytest.OneHost+":99/" {
					t.Errorf("%q leads to %q", foreign, got.Header.Get("Location"))
				}
			}
			got := h.swap(onePath, two, back, append(asForm, asAlice, main)...)
			if got.StatusCode != http.StatusSeeOther || got.Header.Get("Location") != back || h.Desired(two) != workspace.DesiredStandby {
				t.Errorf("got %d to %q", got.StatusCode, got.Header.Get("Location"))
			}
		})
	}
}

// TestTheLimitPageWakesForPeople checks that opening the limit page wakes the workspace only if a person opens it. In
// path mode, a page of the workspace could also open it by itself, because both have one origin.
func TestTheLimitPageWakesForPeople(t *testing.T) {
	h := newLimit(t)
	h.Refuse(nil)
	at := onePath + "/.codehub/limit?return=" + onePath + "/a"
	if got := h.get(303, at, asAlice, asPage, sameOrigin); got.Header.Get("Location") != onePath+"/a" || h.Woken() {
		t.Errorf("it leads to %q, woken %t", got.Header.Get("Location"), h.Woken())
	}
	h.get(303, at, asAlice, asSubrequest, sameOrigin)
	if h.Woken() {
		t.Error("a request of a page wakes it")
	}
	if h.get(303, at, asAlice, asPage); !h.Woken() {
		t.Error("a person does not wake it")
	}
}

func TestSwapRefuses(t *testing.T) {
	h := newLimit(t)
	form := func(more ...string) []string { return append(more, asForm[2]) }
	for _, c := range []struct {
		name  string
		path  string
		sleep workspace.ID
		lines []string
		want  int
	}{
		{"another site", onePath, two, form(asAlice, asPage, "Sec-Fetch-Site: cross-site", "Origin: https://evil.example"), 403},
		{"a sibling host", onePath, two, form(asAlice, asPage, "Sec-Fetch-Site: same-site", "Origin: http://ws-x.localhost"), 403},
		{"a script of the same origin", onePath, two, form(asAlice, asSubrequest, "Sec-Fetch-Site: same-origin"), 403},
		{"an older browser, another site", onePath, two, form(asAlice, "Origin: https://evil.example"), 403},
		{"nobody says where it comes from", onePath, two, form(asAlice), 403},
		{"not signed in", onePath, two, append(asForm, "Accept: text/html"), 401},
		{"somebody else", onePath, two, append(asForm, asBob), 404},
		{"an unknown workspace is wanted", "/w/0123abcd-0000-4000-8000-0000000000ff", two, append(asForm, asAlice), 404},
		// Nothing is put to sleep, and the page shows the current state.
		{"one that does not run", onePath, "0123abcd-0000-4000-8000-0000000000ff", append(asForm, asAlice), 303},
		{"itself", onePath, one, append(asForm, asAlice), 303},
		{"nonsense", onePath, "'; DROP", append(asForm, asAlice), 303},
	} {
		if got := h.swap(c.path, c.sleep, onePath+"/", c.lines...); got.StatusCode != c.want {
			t.Errorf("%s: got %d, want %d: %s", c.name, got.StatusCode, c.want, got.body)
		}
		if h.Woken() {
			t.Fatalf("%s: a desired state was changed", c.name)
		}
	}
	for _, back := range []string{"https://evil.example/", "//evil.example", gatewaytest.TwoPath + "/", "/", ""} {
		if got := h.swap(onePath, one, back, append(asForm, asAlice)...); got.Header.Get("Location") != onePath+"/" {
			t.Errorf("%q leads to %q", back, got.Header.Get("Location"))
		}
	}
	h.get(405, onePath+"/.codehub/swap", asAlice, asPage)
	h.get(404, onePath+"/.codehub/swap", asBob, asPage)
}

func TestLimitPageWithoutWorkspacesOfOnesOwn(t *testing.T) {
	h := newHarness(t)
	h.Change(one, func(*store.Route) {})
	h.Refuse(&service.LimitError{Scope: "global", Limit: 7})
	page := h.get(502, onePath+"/", asAlice, asPage)
	for _, want := range []string{"at most 7", "None of them is yours", `<a class="button" href="` + onePath + `/">`} {
		if !strings.Contains(page.body, want) {
			t.Errorf("the page lacks %q:\n%s", want, page.body)
		}
	}
	if strings.Contains(page.body, `class="button main"`) {
		t.Error("trying again is the main button")
	}
}

// The language switch works without scripts, on every host, for every client.
func TestLanguageSwitchOnAWorkspacesHost(t *testing.T) {
	h := newHarness(t)
	post := func(body string, lines ...string) reply {
		got, err := h.send("POST", "/.codehub/language", body, append(lines, oneHost, asForm[2])...)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	got := post("lang=ko&return=%2Fdeep%3Fx", asForm[:2]...)
	if got.StatusCode != 303 || got.Header.Get("Location") != "/deep?x" || !strings.HasPrefix(got.Header.Get("Set-Cookie"), "codehub_lang=ko; Path=/; ") {
		t.Errorf("got %d %v", got.StatusCode, got.Header)
	}
	if got := post("lang=%3Cscript%3E&return=%2F%2Fevil.example", asForm[:2]...); got.Header.Get("Set-Cookie") != "" || got.Header.Get("Location") != "/" {
		t.Errorf("got %v", got.Header)
	}
	if got := post("lang=ko", "Sec-Fetch-Site: cross-site"); got.StatusCode != 403 || got.Header.Get("Set-Cookie") != "" {
		t.Errorf("another site: %d %v", got.StatusCode, got.Header)
	}
	page := h.get(404, "/", asBob, asPage, oneHost, "Cookie: codehub_lang=ko")
	if !strings.Contains(page.body, `<html lang="ko"`) || !strings.Contains(page.body, `action="/.codehub/language"`) {
		t.Errorf("the page is\n%s", page.body)
	}
}
