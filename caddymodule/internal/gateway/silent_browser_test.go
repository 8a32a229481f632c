package gateway

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/codehub/gateway/caddymodule/internal/gateway/gatewaytest"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// silent is an application with two pages that do not report: one is made by the application's service worker, and the
// other has a policy that lets no script send anything. Both ask for pictures all the time.
type silent struct {
	pictures atomic.Int64
	held     chan struct{} // until it is closed, one picture is not answered
}

const (
	silentScript = `setInterval(() => new Image().src = "picture?" + Math.random(), 100);`
	silentWorker = `addEventListener("install", () => skipWaiting());
		addEventListener("activate", (e) => e.waitUntil(clients.claim()));
		addEventListener("fetch", (e) => {
			if (new URL(e.request.url).pathname.endsWith("/made")) e.respondWith(new Response(
				'<!doctype html><title>Made</title><p id="made">made</p><script>` + silentScript + `</script>', { headers: { "Content-Type": "text/html" } }));
		});`
	silentPolicy = `<!doctype html><meta http-equiv="Content-Security-Policy" content="connect-src 'none'"><title>Policy</title>
		<p id="policy">policy</p><script>window.refused = 0;
		addEventListener("securitypolicyviolation", () => refused++); ` + silentScript + `</script>`
	// silentWhole behaves like frameworks that render a whole document: they compare the document with their own when
	// their script runs, and again once the document is parsed.
	silentWhole = `<!doctype html><html><head><title>Whole</title><script>window.found = [document.head.innerHTML];
		addEventListener("DOMContentLoaded", () => found.push(document.head.innerHTML));</script></head>` +
		`<body><p id="whole">whole</p></body></html>`
	silentLate = `<!doctype html><title>Late</title><script>window.found = []; ` + silentScript + `
		new MutationObserver(() => document.querySelector("codehub-notice") && found.push(document.readyState)).observe(document.documentElement, { childList: true });
		</script><p id="late">late</p><img src="held">`
	silentHome = `<!doctype html><title>Home</title><p id="home">home</p><script>navigator.serviceWorker.register("worker.js").then(() =>
		navigator.serviceWorker.ready).then(() => document.body.append(Object.assign(document.createElement("p"), { id: "ready" })));</script>`
)

func (s *silent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	kind, body := "text/html", silentHome
	switch r.URL.Path {
	case "/worker.js":
		kind, body = "text/javascript", silentWorker
	case "/policy":
		body = silentPolicy
	case "/whole":
		body = silentWhole
	case "/late":
		body = silentLate
	case "/held":
		select {
		case <-s.held:
		case <-r.Context().Done():
		}
	case "/picture":
		s.pictures.Add(1)
		kind, body = "image/png", ""
	case "/made":
		http.NotFound(w, r) // the service worker answers
		return
	}
	w.Header().Set("Content-Type", kind)
	_, _ = io.WriteString(w, body)
}

// TestAPageReportsForItselfAlone checks, in a real browser, that requests of a page that does not report count as use,
// even while another page of the workspace reports.
func TestAPageReportsForItselfAlone(t *testing.T) {
	b := openEditor(t)
	app := &silent{}
	b.Run(one, gatewaytest.App(t, app.ServeHTTP))
	open := func(path, shows string) {
		b.do("opening "+path, chromedp.Navigate(b.url+onePath+path), chromedp.WaitReady(chromedp.CSS("#"+shows)))
	}
	asks := func() {
		pictures := app.pictures.Load() + 5
		wait.Until(t, "the page asks for pictures", func() bool { return app.pictures.Load() > pictures })
	}
	open("/home", "ready")
	wait.Until(t, "a page reports", func() bool { return b.mode(one) == workspace.PagePresence })
	for _, page := range []string{"made", "policy"} {
		open("/"+page, page)
		asks()
		b.ahead.Add(int64(time.Minute)) // the time in which it could have begun to report
		b.Used(one)
		asks()
		wait.Until(t, "what the page "+page+" sends counts", func() bool { return b.Used(one) })
	}
	for range 5 {
		asks() // so long that the script would have tried again
	}
	if n := js[int](b, `refused`); n > 2 { // it sends a hello, and requests the state
		t.Errorf("the script was refused %d times", n)
	}
}

// TestAPageThatHasEndedDoesNotReport, although the browser hides it after its end.
func TestAPageThatHasEndedDoesNotReport(t *testing.T) {
	b := openEditor(t)
	b.do("leaving", chromedp.Navigate("about:blank"))
	wait.Until(t, "the page has left", func() bool { return !b.gateway.tabs.HasReporter(one) })
}

// TestAFrameIsReportedAgain checks that a page reports its frame again when the gateway no longer knows the frame. This
// happens when the page has come back from the browser's cache, when the page was silent for a long time, or when
// another process answers.
func TestAFrameIsReportedAgain(t *testing.T) {
	b := openEditor(t)
	var polls atomic.Int64
	b.Run(one, gatewaytest.App(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		switch r.URL.Path {
		case "/outer":
			_, _ = io.WriteString(w, `<!doctype html><title>Outer</title><iframe src="inner"></iframe><p id="outer">outer</p>`)
		case "/inner":
			_, _ = io.WriteString(w, `<!doctype html><script>setInterval(() => fetch("poll"), 100)</script>`)
		case "/poll":
			polls.Add(1)
		}
	}))
	asks := func() {
		n := polls.Load() + 5
		wait.Until(t, "the frame asks for something", func() bool { return polls.Load() > n })
	}
	isKnown := func(when string) {
		wait.Until(t, "what the frame sends does not count "+when, func() bool {
			asks()
			b.ahead.Add(int64(time.Minute)) // the time in which it could have begun to report
			b.Used(one)
			asks()
			return !b.Used(one)
		})
	}
	b.do("opening it", chromedp.Navigate(b.url+onePath+"/outer"), chromedp.WaitReady(chromedp.CSS("#outer")))
	isKnown("at first")

	js[bool](b, `dispatchEvent(new PageTransitionEvent("pagehide", { persisted: true }))`)
	wait.Until(t, "the page has left", func() bool { return !b.gateway.tabs.HasReporter(one) })
	js[bool](b, `dispatchEvent(new PageTransitionEvent("pageshow", { persisted: true }))`)
	isKnown("when the page is back")

	b.ahead.Add(int64(time.Hour))
	js[bool](b, `{ const now = Date.now; Date.now = () => now() + 3600e3; true; }`)
	isKnown("after a long time without a sign")
}

// TestAPageFindsNothingThatItHasNotSent checks that a page's own scripts find only what the application sent: by the
// time they run, our script has run and removed its tag.
func TestAPageFindsNothingThatItHasNotSent(t *testing.T) {
	b := openEditor(t)
	b.Run(one, gatewaytest.App(t, (&silent{}).ServeHTTP))
	b.do("opening it", chromedp.Navigate(b.url+onePath+"/whole"), chromedp.WaitReady(chromedp.CSS("#whole")))
	wait.Until(t, "it reports", func() bool { return js[bool](b, `Symbol.for("codehub.presence") in window`) })
	for _, head := range js[[]string](b, `found`) {
		if !strings.HasPrefix(head, "<title>Whole</title><script>") || strings.Contains(head, "presence.js") {
			t.Errorf("it finds the head %s", head)
		}
	}
}

// TestNoNoticeBeforeAPageIsLoaded checks that the script adds no notice to a page that is still being loaded. Until it
// is loaded, a framework may compare the page with the document that it renders itself.
func TestNoNoticeBeforeAPageIsLoaded(t *testing.T) {
	b := openEditor(t)
	app := &silent{held: make(chan struct{})}
	b.Run(one, gatewaytest.App(t, app.ServeHTTP))
	b.Change(one, func(r *store.Route) { r.SleepAt = time.Now().Add(59 * time.Second) })
	js[int](b, `setTimeout(() => location.href = "late", 1)`)
	b.do("the page is there", chromedp.WaitReady(chromedp.CSS("#late")))
	wait.Until(t, "it is used", func() bool { return app.pictures.Load() > 10 })
	close(app.held)
	wait.Until(t, "the notice is shown", func() bool { return len(js[[]string](b, `found`)) > 0 })
	if at := js[[]string](b, `found`); at[0] != "complete" {
		t.Errorf("the notice is shown while the page is %s", at[0])
	}
}
