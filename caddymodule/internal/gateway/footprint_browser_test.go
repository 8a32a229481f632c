package gateway

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/codehub/gateway/caddymodule/internal/gateway/gatewaytest"
	"github.com/codehub/gateway/coordinator/wait"
)

// busyPage needs all six connections that a browser has over HTTP/1.1: five for streams, and one for its
// requests.
const busyPage = `<!doctype html><title>Busy</title><link rel="manifest" href="m.json">
	<form method="post"><button id="send">send</button></form><p id="there">there</p>
	<script>let streams = []; for (let i = 0; i < 5; i++) streams.push(new EventSource("stream?" + i));
	window.asked = 0; window.slowest = 0;
	const ask = () => { const at = performance.now(); fetch("ask").then(() => { asked++; slowest = Math.max(slowest, performance.now() - at); setTimeout(ask, 100); }); };
	setTimeout(ask, 1000);</script>`

// TestAPageHasItsConnections checks that the gateway's script in a page occupies none of the page's connections. It
// also checks that the page's manifest is loaded with the session's cookie, and that the script also watches the answer
// to the page's form.
func TestAPageHasItsConnections(t *testing.T) {
	b := openEditor(t)
	var streams atomic.Int64
	b.Run(one, gatewaytest.App(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/stream"):
			w.Header().Set("Content-Type", "text/event-stream")
			_ = http.NewResponseController(w).Flush()
			streams.Add(1)
			defer streams.Add(-1)
			<-r.Context().Done()
		case strings.HasSuffix(r.URL.Path, "/ask"):
		case r.Method == http.MethodPost:
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, `<!doctype html><title>Again</title><textarea id="again" autofocus></textarea>`)
		default:
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, busyPage)
		}
	}))
	b.do("opening the page", chromedp.Navigate(b.url+onePath+"/"), chromedp.WaitReady(chromedp.CSS("#there")))
	wait.Until(t, "its streams are open", func() bool { return streams.Load() == 5 })
	wait.Until(t, "it has asked for some seconds", func() bool { return js[int](b, `asked`) > 60 })
	if slowest := js[float64](b, `slowest`); slowest > 5000 {
		t.Errorf("one answer took %.0f ms", slowest)
	}
	if mode := js[string](b, `document.querySelector("link").crossOrigin`); mode != "use-credentials" {
		t.Errorf("the manifest is asked for with %q", mode)
	}
	b.do("sending the form", chromedp.Click(chromedp.CSS("#send")), chromedp.WaitVisible(chromedp.CSS("#again")))
	wait.Until(t, "the page is loaded", func() bool { return !b.Used(one) && !js[bool](b, `navigator.userActivation.isActive`) })
	b.Used(one)
	wait.Until(t, "typing in the answer is use", func() bool {
		b.key("x")
		return b.Used(one)
	})
}
