package gateway

import (
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/coder/websocket"

	"github.com/codehub/gateway/caddymodule/internal/gateway/gatewaytest"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// development is a development server such as Vite's. The script in its page has an address without an extension. This
// script loads other scripts, opens a WebSocket and sends a sign of life now and then. A worker of the page sends
// requests all the time.
type development struct{ said, asked atomic.Int64 }

func (d *development) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	kind, body := "text/javascript", ""
	switch r.URL.Path {
	case "/page":
		kind, body = "text/html", `<!doctype html><title>Page</title><p id="page">page</p><script type="module" src="@client"></script>`
	case "/@client":
		body = `import "./env.js"; const ws = new WebSocket(new URL("hot", location.href).href.replace("http", "ws"));
			ws.onopen = () => setInterval(() => ws.send("ping"), 100); new Worker("worker");`
	case "/worker":
		body = `setInterval(() => fetch("poll"), 100)`
	case "/poll":
		d.asked.Add(1)
	case "/hot":
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		for {
			if _, _, err := c.Read(r.Context()); err != nil {
				return
			}
			d.said.Add(1)
		}
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "no-cache")
	_, _ = io.WriteString(w, body)
}

// TestAScriptIsNoPage checks requests by scripts and workers, which name the script or worker as their sender. A script
// or worker reports nothing, because its page reports for it; it must not be taken for a page that does not report. In
// a second tab of the same address, no request comes from the page itself.
func TestAScriptIsNoPage(t *testing.T) {
	b := openEditor(t)
	app := &development{}
	b.Run(one, gatewaytest.App(t, app.ServeHTTP))
	for _, tab := range []string{"the first tab", "another tab"} {
		said, asked := app.said.Load(), app.asked.Load()
		b.do("opening "+tab, chromedp.Navigate(b.url+onePath+"/page"), chromedp.WaitReady(chromedp.CSS("#page")))
		wait.Until(t, "a page reports", func() bool { return b.mode(one) == workspace.PagePresence && b.gateway.tabs.HasReporter(one) })
		sends := func() {
			said, asked = app.said.Load()+5, app.asked.Load()+5
			wait.Until(t, "the page sends something", func() bool { return app.said.Load() > said && app.asked.Load() > asked })
		}
		sends()
		b.ahead.Add(int64(time.Minute)) // the time in which a page could have begun to report
		sends()
		b.Used(one)
		sends()
		if b.Used(one) {
			t.Errorf("%s: what its script sends counts as use", tab)
		}
	}
}
