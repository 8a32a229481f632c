package gateway

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/codehub/gateway/caddymodule/internal/gateway/gatewaytest"
	"github.com/codehub/gateway/coordinator/launch"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
)

// notebook is an application that behaves like Jupyter with base_url. It serves nothing outside this path, redirects
// the path itself to the tree below it, and writes absolute links.
func notebook(t *testing.T, command []string) *httptest.Server {
	base := ""
	for _, word := range command {
		if value, ok := strings.CutPrefix(word, "--ServerApp.base_url="); ok {
			base = value
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc(base+"{$}", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, base+"tree?", http.StatusFound) })
	mux.HandleFunc(base+"tree", func(w http.ResponseWriter, r *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "_xsrf", Value: "1", Path: base})
		fmt.Fprintf(w, `<script id=app src="%sstatic/main.js"></script> prefix=%q uri=%s`, base, r.Header.Get("X-Forwarded-Prefix"), r.RequestURI)
	})
	mux.HandleFunc(base+"static/main.js", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "main") })
	mux.HandleFunc("/", http.NotFound)
	return gatewaytest.App(t, mux.ServeHTTP)
}

// started runs a notebook as a workspace on that site would, with the settings of its image.
func (h *harness) started(t *testing.T, site launch.Site) {
	t.Helper()
	images := launch.Catalog{{Name: "jupyter", Reference: "test/jupyter:7", KeepPrefix: true,
		Command: []string{"--ServerApp.base_url=$(" + launch.EnvBasePath + ")"}}}
	spec, err := launch.Spec(images, site, workspace.Workspace{ID: one, Name: "notes"})
	if err != nil {
		t.Fatal(err)
	}
	h.Change(one, func(r *store.Route) { r.BasePath = spec.BasePath })
	h.Run(one, notebook(t, spec.Command))
}

// script follows the page's link, as its browser does.
func (h *harness) script(t *testing.T, page reply, host string) {
	t.Helper()
	_, link, _ := strings.Cut(page.body, `id=app src="`)
	link, _, _ = strings.Cut(link, `"`)
	if got := h.get(200, link, asAlice, host, asSubrequest); got.body != "main" {
		t.Errorf("%s: %s", link, got.body)
	}
}

func TestAnApplicationThatKeepsItsPrefixWorksBelowIt(t *testing.T) {
	h := newHarness(t)
	h.started(t, launch.Site{PublicURL: "https://code.example.com"})
	sent := h.get(302, onePath+"/", asAlice, asPage) // the probe has also found it below the path
	if to := sent.Header.Get("Location"); to != onePath+"/tree?" {
		t.Fatalf("it is sent to %s", to)
	}
	page := h.get(200, sent.Header.Get("Location"), asAlice, asPage)
	if !strings.Contains(page.body, `prefix="" uri=`+onePath+"/tree?") {
		t.Errorf("it gets %s", page.body) // nothing was removed, so there is no prefix to add
	}
	if cookie := page.Header.Get("Set-Cookie"); !strings.Contains(cookie, "Path="+onePath+"/") {
		t.Errorf("the cookie is %s", cookie)
	}
	h.script(t, page, "X-None: x")
}

// A container that was started in path mode also works at the workspace's own host. It is reached there after
// workspace_url has changed, or by an old address.
func TestAnApplicationThatKeepsItsPrefixIsFoundOnItsHost(t *testing.T) {
	h := newHarness(t)
	h.started(t, launch.Site{PublicURL: "https://code.example.com"})
	sent := h.get(307, "/tree?a=%2F", asAlice, oneHost, asPage)
	if to := sent.Header.Get("Location"); to != onePath+"/tree?a=%2F" {
		t.Fatalf("a navigation is sent to %s", to)
	}
	page := h.get(200, sent.Header.Get("Location"), asAlice, oneHost, asPage)
	h.script(t, page, oneHost)
	if got := h.get(200, "/static/main.js", asAlice, oneHost, asProgram); got.body != "main" {
		t.Errorf("a program gets %s", got.body)
	}
	// A path that begins with the same characters, but continues without a slash, is not the workspace's.
	h.get(404, onePath+"x/tree", asAlice, oneHost, asProgram)
}

func TestTheSameImageServesAtTheRootOfAHost(t *testing.T) {
	h := newHarness(t)
	h.started(t, launch.Site{PublicURL: "https://code.example.com", Domain: "localhost", PerHost: true})
	page := h.get(200, "/tree", asAlice, oneHost, asPage)
	h.script(t, page, oneHost)
}

// Requests for a workspace that never starts use up only its owner's share of the held requests, not the shares of
// other users.
func TestHeldRequestsAreShared(t *testing.T) {
	h := newHarness(t)
	h.Wakes.SetMaxHeld(3, 2)
	h.Change(one, func(*store.Route) {})
	h.Change(two, func(r *store.Route) { r.OwnerID = "bob" })
	var waiting []<-chan reply
	for range 2 {
		waiting = append(waiting, h.getting(onePath+"/", asAlice, asProgram))
	}
	h.WaitHeld(2)
	refused := h.get(503, onePath+"/", asAlice, asProgram)
	if !strings.Contains(refused.body, "too-many-waiting") || !strings.Contains(refused.body, "Too many of your requests") || refused.Header.Get("Retry-After") == "" {
		t.Errorf("beyond the share: %s", refused.body)
	}
	h.get(502, onePath+"/", asAlice, asPage) // people see the wake page
	waiting = append(waiting, h.getting(gatewaytest.TwoPath+"/", asBob, asProgram))
	h.WaitHeld(3)
	if refused := h.get(503, gatewaytest.TwoPath+"/", asBob, asProgram); strings.Contains(refused.body, "Too many of your requests") {
		t.Errorf("beyond all places: %s", refused.body)
	}
	h.Run(one, gatewaytest.Echo(t))
	h.Run(two, gatewaytest.Echo(t))
	for _, c := range waiting {
		if got := <-c; got.StatusCode != 200 {
			t.Errorf("a request that waited got %d: %s", got.StatusCode, got.body)
		}
	}
	h.WaitHeld(0)
}
