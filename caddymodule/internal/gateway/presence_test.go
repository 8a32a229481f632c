package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/codehub/gateway/caddymodule/internal/gateway/gatewaytest"
	"github.com/codehub/gateway/coordinator/dataplane/activity"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

const sameOrigin = "Sec-Fetch-Site: same-origin"

// pageApp is an application with a page, an echo of requests, and a WebSocket.
func pageApp(t *testing.T, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Upgrade") != "":
			c, err := websocket.Accept(w, r, nil)
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = c.CloseNow() }()
			c.SetReadLimit(1 << 20)
			for {
				kind, msg, err := c.Read(r.Context())
				if err != nil || c.Write(r.Context(), kind, msg) != nil {
					return
				}
			}
		case strings.HasSuffix(r.URL.Path, "/large"):
			_, _ = io.Copy(io.Discard, r.Body)
			_, _ = w.Write(make([]byte, 512<<10)) // a transfer, which no idle page makes
		default:
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			w.Header().Set("ETag", `"x"`)
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			fmt.Fprintf(w, "<!doctype html><html><head><title>T</title></head><body>%s|%s</body></html>",
				r.Header.Get("Accept-Encoding"), r.Header.Get("If-None-Match"))
		}
	}
}

// mode returns the workspace's page activity according to its row.
func (h *harness) mode(id workspace.ID) workspace.PageActivity {
	e, ok := h.Table.Lookup(id)
	if !ok {
		h.t.Fatal("the workspace is not in the table")
	}
	return e.State().Route.PageActivity
}

// tell sends a report as the script does. It sends lines as headers or, if there are none, the header of a request from
// the same origin.
func (h *harness) tell(body string, lines ...string) int {
	h.t.Helper()
	if len(lines) == 0 {
		lines = []string{sameOrigin}
	}
	got, err := h.send("POST", onePath+"/.codehub/presence", body, append(lines, asAlice, asSubrequest)...)
	if err != nil {
		h.t.Fatal(err)
	}
	return got.StatusCode
}

func TestANavigationGetsTheScriptAndNothingElseDoes(t *testing.T) {
	h := newHarness(t)
	h.Run(one, gatewaytest.App(t, pageApp(t)))
	const body = "<title>T</title></head><body>"
	got := h.get(200, onePath+"/", asAlice, asPage, "Accept-Encoding: gzip, br", `If-None-Match: "x"`, "Accept-Language: ko")
	before, after, _ := strings.Cut(got.body, "<title>")
	if !strings.HasPrefix(before, `<!doctype html><html><head><script src="`+onePath+`/.codehub/presence.js?v=`) ||
		!strings.HasSuffix(before, ` data-lang="ko" data-keep="8"></script>`) || after != "T</title></head><body>identity|</body></html>" {
		t.Errorf("the page is %s", got.body)
	}
	if got.Header.Get("ETag") != "" || got.ContentLength != -1 {
		t.Errorf("its headers are %v", got.Header)
	}
	if inHost := h.get(200, "/", asAlice, asPage, oneHost); !strings.Contains(inHost.body, `src="/.codehub/presence.js?v=`) {
		t.Errorf("in host mode the page is %s", inHost.body)
	}
	src, _, _ := strings.Cut(before[strings.Index(before, `src="`)+5:], `"`)
	if script := h.get(200, src, asAlice, asSubrequest); !strings.Contains(script.Header.Get("Cache-Control"), "immutable") ||
		!strings.HasPrefix(script.Header.Get("Content-Type"), "text/javascript") || !strings.Contains(script.body, "codehub.presence") {
		t.Errorf("the script comes with %v", script.Header)
	}
	if old := h.get(200, onePath+"/.codehub/presence.js?v=old", asAlice, asSubrequest); old.Header.Get("Cache-Control") != "no-cache" {
		t.Errorf("the script for an old page comes with %v", old.Header)
	}
	h.get(401, src, asSubrequest)
	h.get(404, src, asBob, asSubrequest)
	for name, lines := range map[string][]string{
		"a request of a page": {asSubrequest}, "a program": {asProgram}, "a range": {asPage, "Range: bytes=0-1"},
		"a frame of the page": {asPage, "Sec-Fetch-Dest: iframe", sameOrigin},
	} {
		got := h.get(200, onePath+"/", append(lines, asAlice, "Accept-Encoding: br", `If-None-Match: "x"`)...)
		if strings.Contains(got.body, "<script") || !strings.Contains(got.body, body+`br|"x"<`) || got.Header.Get("ETag") != `"x"` || got.ContentLength < 0 {
			t.Errorf("%s: %v %s", name, got.Header, got.body)
		}
	}
	h.Activity.Set(activity.Settings{Mode: activity.Traffic})
	if got := h.get(200, onePath+"/", asAlice, asPage); strings.Contains(got.body, "<script") {
		t.Errorf("counting traffic, the page is %s", got.body)
	}
}

// TestThePageThatAnswersAFormReports: how its request is held does not matter.
func TestThePageThatAnswersAFormReports(t *testing.T) {
	h := newHarness(t)
	h.Run(one, gatewaytest.App(t, pageApp(t)))
	for name, c := range map[string]struct {
		lines []string
		want  bool
	}{
		"a person sends a form":             {[]string{asPage, "Sec-Fetch-Dest: document", "Sec-Fetch-User: ?1", sameOrigin}, true},
		"a script sends it":                 {[]string{asPage, "Sec-Fetch-Dest: document", sameOrigin}, true},
		"a browser that says little":        {[]string{"Accept: text/html", "Upgrade-Insecure-Requests: 1", "Origin: " + h.url}, true},
		"a service worker sends it":         {[]string{"Sec-Fetch-Mode: same-origin", "Sec-Fetch-Dest: empty", "Accept: text/html", "Upgrade-Insecure-Requests: 1", sameOrigin}, true},
		"into a frame of the page":          {[]string{asPage, "Sec-Fetch-Dest: iframe", sameOrigin}, false},
		"a script asks":                     {[]string{asSubrequest, "Sec-Fetch-Dest: empty", "Accept: text/html", sameOrigin}, false},
		"a program that takes nothing else": {[]string{"Accept: text/html"}, false},
	} {
		got, err := h.send("POST", onePath+"/", "a=b", append(c.lines, asAlice)...)
		if err != nil {
			t.Fatal(err)
		}
		if has := strings.Contains(got.body, `data-keep="8" data-posted></script>`); got.StatusCode != 200 || has != c.want || strings.Contains(got.body, "presence.js") != c.want {
			t.Errorf("%s: %d %s", name, got.StatusCode, got.body)
		}
	}
}

// TestAPageWithoutTheScriptBesideOneThatReports: only its own requests count.
func TestAPageWithoutTheScriptBesideOneThatReports(t *testing.T) {
	for name, header := range map[string][]string{
		"XML":     {"Content-Type", "application/xml"},
		"SVG":     {"Content-Type", "image/svg+xml"},
		"packed":  {"Content-Encoding", "gzip"},
		"sandbox": {"Content-Security-Policy", "sandbox"},
		"policy":  {"Content-Security-Policy", "default-src 'none'"},
		"hidden":  {"Content-Security-Policy", "default-src 'none'", "Referrer-Policy", "no-referrer"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			app := pageApp(t, header...)
			h.Run(one, gatewaytest.App(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/feed.xml" && r.URL.RawQuery == "" {
					app(w, r)
				}
			}))
			from := func(path string) string { return "Referer: " + h.url + onePath + path }
			h.tell(`{"tab":"A","hello":true}`, sameOrigin, from("/"))
			wait.Until(t, "presence holds", func() bool { return h.mode(one) == workspace.PagePresence })
			h.get(200, onePath+"/feed.xml", asAlice, asPage, "Accept-Encoding: gzip")
			counts := func(lines ...string) bool {
				h.waitServed()
				h.Used(one)
				h.get(200, onePath+"/p", append(lines, asAlice, asSubrequest)...)
				h.waitServed()
				return h.Used(one)
			}
			if counts(from("/")) || counts(from("/feed.xml?old")) {
				t.Error("what the page that reports sends counts")
			}
			if own := counts(from("/feed.xml")); own == (name == "hidden") {
				t.Errorf("what the page without the script sends counts: %v", own)
			}
			if hidden := counts(); hidden != (name == "hidden") {
				t.Errorf("what a page sends that hides its address counts: %v", hidden)
			}
			if h.mode(one) != workspace.PagePresence || h.PageWrites() != 1 {
				t.Errorf("the row says %s after %d writes", h.mode(one), h.PageWrites())
			}
			h.tell(`{"tab":"B","hello":true}`, sameOrigin, from("/feed.xml"))
			if counts(from("/feed.xml")) {
				t.Error("it counts although the page has been loaded with the script")
			}
		})
	}
}

// TestAPageThatReportsDoesNotCountForOneOfItsAddress checks two pages with the same address. One came without the
// script and was closed; the other reports. The requests of the latter must not make the closed page seem open.
func TestAPageThatReportsDoesNotCountForOneOfItsAddress(t *testing.T) {
	for name, c := range map[string]struct {
		header []string // of both pages
		hides  bool
		script string
	}{
		"its address is known": {nil, false, ""},
		"both hide theirs":     {[]string{"Referrer-Policy", "no-referrer"}, true, "&hides"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			var ahead atomic.Int64
			h.gateway.tabs.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
			scripted, plain := pageApp(t, c.header...), pageApp(t, append(c.header, "Content-Security-Policy", "default-src 'none'")...)
			h.Run(one, gatewaytest.App(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.RawQuery == "" {
					plain(w, r)
				} else {
					scripted(w, r)
				}
			}))
			from := "Referer: " + h.url + onePath + "/"
			if page := h.get(200, onePath+"/?scripted", asAlice, asPage); strings.Contains(page.body, " data-hides>") != c.hides {
				t.Errorf("the page is %s", page.body)
			}
			h.tell(`{"tab":"A","hello":true}`, sameOrigin, from)
			wait.Until(t, "presence holds", func() bool { return h.mode(one) == workspace.PagePresence })
			h.get(200, onePath+"/", asAlice, asPage)
			asks := func() {
				h.get(200, onePath+"/.codehub/presence?tab=A"+c.script, asAlice, asSubrequest, from)
				h.waitServed()
				h.Used(one)
				lines := []string{asAlice, asSubrequest}
				if !c.hides {
					lines = append(lines, from)
				}
				h.get(200, onePath+"/p?x", lines...)
				h.waitServed()
			}
			for range 61 {
				asks()
				ahead.Add(int64(time.Minute))
			}
			if asks(); h.Used(one) {
				t.Error("what the page that reports sends counts an hour after the other was loaded")
			}
		})
	}
}

// TestAnyReportEndsThatAllTrafficCounts checks a workspace in which all traffic counts as use, because a page came
// without the script and no other page was known. The first report of any page ends this.
func TestAnyReportEndsThatAllTrafficCounts(t *testing.T) {
	h := newHarness(t)
	h.Run(one, gatewaytest.App(t, pageApp(t, "Content-Type", "application/xml")))
	h.get(200, onePath+"/feed.xml", asAlice, asPage)
	wait.Until(t, "the row says that traffic counts", func() bool { return h.mode(one) == workspace.PageTraffic })
	h.get(200, onePath+"/.codehub/presence?tab=A", asAlice, asSubrequest)
	wait.Until(t, "a page reports", func() bool { return h.mode(one) == workspace.PagePresence })
}

func TestThePageOfAnErrorReports(t *testing.T) {
	h := newHarness(t)
	h.Run(one, gatewaytest.App(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, "<!doctype html><title>Not here</title>")
	}))
	if got := h.get(404, onePath+"/deep", asAlice, asPage); !strings.Contains(got.body, "presence.js") || !strings.HasSuffix(got.body, "<title>Not here</title>") {
		t.Errorf("the page is %s", got.body)
	}
}

func TestTrafficOfAPageThatReportsIsNoUse(t *testing.T) {
	h := newHarness(t)
	h.Run(one, gatewaytest.App(t, pageApp(t)))
	asks := func(path string, lines ...string) bool {
		h.get(200, onePath+path, append(lines, asAlice)...)
		h.waitServed()
		return h.Used(one)
	}
	if !asks("/", asPage) || !asks("/x", asSubrequest) {
		t.Error("what is sent before the page reports does not count")
	}
	for range 2 {
		if s := h.tell(`{"hello":true}`); s != 204 {
			t.Fatalf("hello is answered with %d", s)
		}
	}
	wait.Until(t, "the row says it", func() bool { return h.mode(one) == workspace.PagePresence })
	h.tell(`{"hello":true}`)
	if h.Used(one) || h.PageWrites() != 1 {
		t.Errorf("a page that is open counts, or %d writes are made", h.PageWrites())
	}
	for _, c := range []struct {
		name string
		used bool
		path string
		line string
	}{
		{"a request of the page", false, "/x", asSubrequest},
		{"a frame of the page", false, "/", asPage + "\nSec-Fetch-Dest: iframe\n" + sameOrigin},
		{"a long answer", true, "/large", asSubrequest},
		{"another navigation", true, "/", asPage},
		{"a program", true, "/x", asProgram},
	} {
		if got := asks(c.path, strings.Split(c.line, "\n")...); got != c.used {
			t.Errorf("%s: counts as use: %v", c.name, got)
		}
	}
	for body, used := range map[string]bool{`{"input":true}`: true, `{"stay":true}`: true, `{}`: false, `{"input":false}`: false} {
		if s := h.tell(body); s != 204 || h.Used(one) != used {
			t.Errorf("%s: %d, counts as use: %v", body, s, !used)
		}
	}
	if s := h.tell(`{"input":true}`, "Origin: http://evil.example"); s != 403 || h.Used(one) {
		t.Errorf("input of another origin: %d", s)
	}
	if s := h.tell(`no JSON`); s != 400 || h.Used(one) {
		t.Errorf("no JSON: %d", s)
	}
	h.Activity.Set(activity.Settings{Mode: activity.Traffic})
	if !asks("/x", asSubrequest) {
		t.Error("after a change of the setting, traffic does not count")
	}
}

// The pages in this test differ from a page that can carry the script only in one header.
func TestTrafficOfAPageThatCannotReportCounts(t *testing.T) {
	t.Run("policy", func(t *testing.T) {
		cannotReport(t, "Content-Security-Policy", "script-src 'nonce-a'; connect-src 'none'")
	})
	t.Run("XHTML", func(t *testing.T) { cannotReport(t, "Content-Type", "application/xhtml+xml") })
}

func cannotReport(t *testing.T, name, value string) {
	h := newHarness(t)
	h.Run(one, gatewaytest.App(t, pageApp(t, name, value)))
	h.tell(`{"hello":true}`)
	wait.Until(t, "presence holds", func() bool { return h.mode(one) == workspace.PagePresence })
	for range 3 {
		if got := h.get(200, onePath+"/", asAlice, asPage); strings.Contains(got.body, "<script") || got.Header.Get("ETag") != `"x"` {
			t.Errorf("the page is %v %s", got.Header, got.body)
		}
		wait.Until(t, "the row says it", func() bool { return h.mode(one) == workspace.PageTraffic })
	}
	h.waitServed()
	h.Used(one)
	h.get(200, onePath+"/x", asAlice, asSubrequest)
	h.waitServed()
	if !h.Used(one) || h.PageWrites() != 2 {
		t.Errorf("its requests do not count, or %d writes are made", h.PageWrites())
	}
}

// dial opens a WebSocket. If origin is empty, it does so as a program would, otherwise as a page of that origin would.
func (h *harness) dial(ctx context.Context, origin string) *websocket.Conn {
	h.t.Helper()
	header := http.Header{gatewaytest.UserHeader: {"alice"}}
	if origin != "" {
		header.Set("Origin", origin)
	}
	c, _, err := websocket.Dial(ctx, h.url+onePath+"/ws", &websocket.DialOptions{HTTPHeader: header})
	if err != nil {
		h.t.Fatal(err)
	}
	c.SetReadLimit(1 << 20)
	h.t.Cleanup(func() { _ = c.CloseNow() })
	return c
}

func TestWebSocketsOfAPageThatReports(t *testing.T) {
	h := newHarness(t)
	h.Run(one, gatewaytest.App(t, pageApp(t)))
	ctx, cancel := context.WithTimeout(t.Context(), wait.Timeout)
	defer cancel()
	ofPage, ofProgram := h.dial(ctx, h.url), h.dial(ctx, "")
	h.Used(one)
	exchange := func(c *websocket.Conn, n int) bool {
		t.Helper()
		if err := c.Write(ctx, websocket.MessageBinary, make([]byte, n)); err != nil {
			t.Fatal(err)
		}
		if _, _, err := c.Read(ctx); err != nil {
			t.Fatal(err)
		}
		return h.Used(one)
	}
	if !exchange(ofPage, 1000) {
		t.Error("a message does not count before the page reports")
	}
	h.tell(`{"hello":true}`)
	wait.Until(t, "presence holds", func() bool { return h.mode(one) == workspace.PagePresence })
	if exchange(ofPage, 1000) {
		t.Error("a message counts although the page reports")
	}
	if !exchange(ofPage, 64<<10) {
		t.Error("a part of an upload does not count")
	}
	if !exchange(ofProgram, 1000) {
		t.Error("a program's message does not count")
	}
	// Now the workspace is put to sleep. Reports that come after this are too late, and so is the end of the page.
	h.Change(one, func(r *store.Route) { r.Desired = workspace.DesiredStandby })
	h.Used(one)
	if exchange(ofProgram, 64<<10) {
		t.Error("a message counts although the workspace is being put to sleep")
	}
	_ = ofProgram.CloseNow()
	_ = ofPage.CloseNow()
	h.waitServed()
	if h.Used(one) {
		t.Error("the end of a WebSocket counts")
	}
}

// The tab learns of every change of its workspace, and wakes nothing.
func TestATabIsToldWhatHappens(t *testing.T) {
	h := newHarness(t)
	app := gatewaytest.App(t, pageApp(t))
	h.Run(one, app)
	h.get(200, onePath+"/", asAlice, asProgram)
	ask := func(query string) (s pageState) {
		got := h.get(200, onePath+"/.codehub/presence?"+query, asAlice, asSubrequest)
		if err := json.Unmarshal([]byte(got.body), &s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	next := func(s pageState, change func()) pageState {
		t.Helper()
		c := make(chan pageState, 1)
		go func() { c <- ask("wait=25&seen=" + s.Tag) }()
		wait.Until(t, "the request waits", func() bool { return h.gateway.polls.Load() == 1 })
		change()
		return <-c
	}
	running := ask("")
	if running.State != "running" || running.SleepIn != nil || running.Run == "" {
		t.Fatalf("running: %+v", running)
	}
	h.waitServed()
	h.Used(one)
	going := next(running, func() { h.Change(one, func(r *store.Route) { r.SleepAt = time.Now().Add(50 * time.Second) }) })
	if going.State != "running" || going.SleepIn == nil || *going.SleepIn < 40 || *going.SleepIn > 50 || going.Run != running.Run {
		t.Fatalf("about to sleep: %+v", going)
	}
	asleep := next(going, func() {
		h.Change(one, func(r *store.Route) {
			r.SleepAt, r.Desired, r.Phase, r.Endpoint = time.Time{}, workspace.DesiredStandby, workspace.PhaseStandby, ""
		})
	})
	if asleep.State != "asleep" || asleep.Since == 0 {
		t.Fatalf("asleep: %+v", asleep)
	}
	if s := h.tell(`{"input":true}`); s != 204 || h.Woken() || h.Used(one) {
		t.Errorf("input in a page of a sleeping workspace: %d, woken %v", s, h.Woken())
	}
	if s := h.tell(`{"wake":true}`, "Sec-Fetch-Site: cross-site"); s != 403 || h.Woken() {
		t.Errorf("waking from another origin: %d, woken %v", s, h.Woken())
	}
	h.Refuse(&service.LimitError{Scope: "user", Limit: 2})
	if s := h.tell(`{"wake":true}`); s != 429 {
		t.Errorf("waking at the limit: %d", s)
	}
	h.Refuse(nil)
	waking := next(asleep, func() {
		wait.Until(t, "it is woken", func() bool { return h.tell(`{"wake":true}`) == 200 })
	})
	if waking.State != "waking" {
		t.Fatalf("waking: %+v", waking)
	}
	again := next(waking, func() { h.Run(one, app) })
	for again.State == "waking" {
		again = ask("wait=25&seen=" + again.Tag)
	}
	if again.State != "running" || again.Run == running.Run {
		t.Fatalf("awake again: %+v", again)
	}
	h.get(401, onePath+"/.codehub/presence", asSubrequest)
	h.get(404, onePath+"/.codehub/presence", asBob, asSubrequest)
}

func TestKeepAwakeFromAPage(t *testing.T) {
	h := newHarness(t)
	h.Run(one, gatewaytest.App(t, pageApp(t)))
	post := func(body string, lines ...string) int {
		got, err := h.send("POST", onePath+"/.codehub/keep-awake", body, append(lines, asAlice, asSubrequest)...)
		if err != nil {
			t.Fatal(err)
		}
		return got.StatusCode
	}
	if s := post(`{"hours":4}`, sameOrigin); s != 204 || h.KeptAwake(one) != 4*time.Hour {
		t.Errorf("4 hours: %d, kept for %s", s, h.KeptAwake(one))
	}
	for _, body := range []string{`{}`, `{"hours":-1}`, `{"hours":"4"}`} {
		if s := post(body, sameOrigin); s != 400 {
			t.Errorf("%s: %d", body, s)
		}
	}
	if s := post(`{"hours":8}`, "Sec-Fetch-Site: same-site"); s != 403 || h.KeptAwake(one) != 4*time.Hour {
		t.Errorf("from another origin: %d, kept for %s", s, h.KeptAwake(one))
	}
}

// TestWhatAScriptSaysForEver checks that a script that keeps reporting made-up input keeps its workspace awake no
// longer than work may. It also checks that a script that wakes its workspace again and again does not always succeed.
func TestWhatAScriptSaysForEver(t *testing.T) {
	h := newHarness(t)
	now := time.Now()
	h.gateway.tabs.Now = func() time.Time { return now }
	app := gatewaytest.App(t, pageApp(t))
	h.Run(one, app)
	for end := now.Add(h.WorkCap()); now.Before(end); now = now.Add(9 * time.Minute) {
		h.tell(`{"tab":"A","input":true}`)
	}
	now = now.Add(time.Minute)
	h.Used(one)
	if h.tell(`{"tab":"A","input":true}`); h.Used(one) {
		t.Error("it keeps its workspace awake for ever")
	}
	h.get(200, onePath+"/", asAlice, asPage)
	h.waitServed()
	h.Used(one)
	if h.tell(`{"tab":"A","input":true}`); !h.Used(one) {
		t.Error("input in a page that a person has opened does not count")
	}
	wakes := 0
	for range 30 {
		h.Change(one, func(r *store.Route) {
			r.Desired, r.Phase, r.Endpoint = workspace.DesiredStandby, workspace.PhaseStandby, ""
		})
		if h.tell(`{"tab":"A","wake":true}`) == http.StatusTooManyRequests {
			break
		}
		wakes++
		h.Run(one, app)
		wait.Until(t, "the wake-up is over", func() bool { return h.Wakes.InProgress(one, 0) == nil })
	}
	if wakes < 3 || wakes == 30 {
		t.Errorf("it was woken %d times", wakes)
	}
	before := len(h.Actors())
	h.get(502, onePath+"/", asAlice, asPage) // the wake page
	wait.Until(t, "a person wakes it", func() bool { return len(h.Actors()) > before })
}

// TestAWebSocketOfAPageThatDoesNotReport checks that a WebSocket counts as opened by the page that has just sent
// something. The request that opens a WebSocket does not name its page.
func TestAWebSocketOfAPageThatDoesNotReport(t *testing.T) {
	h := newHarness(t)
	now := time.Now()
	h.gateway.tabs.Now = func() time.Time { return now }
	h.Run(one, gatewaytest.App(t, pageApp(t)))
	h.tell(`{"tab":"A","hello":true}`, sameOrigin, "Referer: "+h.url+onePath+"/editor")
	wait.Until(t, "a page reports", func() bool { return h.mode(one) == workspace.PagePresence })
	talks := func() bool {
		header := http.Header{gatewaytest.UserHeader: {"alice"}, "Sec-Fetch-Mode": {"websocket"}, "Sec-Fetch-Site": {"same-origin"}, "Origin": {h.url}}
		c, _, err := websocket.Dial(t.Context(), h.url+onePath+"/ws", &websocket.DialOptions{HTTPHeader: header})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.CloseNow() }()
		now = now.Add(20 * time.Second)
		h.Used(one)
		if err := c.Write(t.Context(), websocket.MessageText, []byte("key")); err != nil {
			t.Fatal(err)
		}
		if _, _, err := c.Read(t.Context()); err != nil {
			t.Fatal(err)
		}
		return h.Used(one)
	}
	if talks() {
		t.Error("that of a page that reports counts")
	}
	h.get(200, onePath+"/large", asAlice, asSubrequest, sameOrigin, "Referer: "+h.url+onePath+"/made")
	h.tell(`{"bye":true}`) // of nobody
	if !talks() {
		t.Error("that of a page that does not report is no use")
	}
}
