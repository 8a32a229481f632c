package gateway

import (
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/codehub/gateway/caddymodule/gateway/gatewaytest"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// silent is an application with a page that its service worker makes, and one whose own policy
// lets no script send anything. Both ask for pictures all the time.
type silent struct{ pictures atomic.Int64 }

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

// TestAPageReportsForItselfAlone: beside the pages that report, what others send counts, in a
// real browser.
func TestAPageReportsForItselfAlone(t *testing.T) {
	b := openEditor(t)
	var ahead atomic.Int64
	b.gateway.tabs.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
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
		ahead.Add(int64(time.Minute)) // the time in which it could have begun to report
		b.Used(one)
		asks()
		wait.Until(t, "what the page "+page+" sends counts", func() bool { return b.Used(one) })
	}
	for range 5 {
		asks() // so long that the script would have tried again
	}
	if n := js[int](b, `refused`); n > 2 { // it says hello, and asks for the state
		t.Errorf("the script was refused %d times", n)
	}
}
