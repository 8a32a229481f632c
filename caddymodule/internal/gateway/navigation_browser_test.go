package gateway

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/codehub/gateway/caddymodule/internal/gateway/decision"
	"github.com/codehub/gateway/coordinator/wait"
)

// navigationPage can navigate to ?case=… in every way that a browser knows.
const navigationPage = `<!doctype html><title>Page</title>
<a id="link" href="?case=link">link</a>
<button id="reload" onclick="location.reload()">reload</button>
<button id="later" onclick="fetch('?').then(() => location.href = '?case=later')">later</button>
<button id="open" onclick="window.open('?case=open')">open</button>
<form><input type="hidden" name="case" value="form"><button id="form">send</button></form>
<form method="post" action="?case=post"><button id="post">post</button></form>
<a id="away" href="%[1]s/back?to=%[2]s/?case=away">away</a>`

// TestWhatBrowsersSend checks, in a real browser, the rule by which the gateway tells a navigation by a person from a
// navigation that a page starts by itself.
func TestWhatBrowsersSend(t *testing.T) {
	b := openEditor(t)
	kinds := make(chan decision.ClientKind, 100)
	var elsewhere, here string
	serve := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/back" {
			http.Redirect(w, r, r.URL.Query().Get("to"), http.StatusSeeOther)
			return
		}
		if r.URL.Query().Has("case") {
			kinds <- decision.Classify(r, "")
		}
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Cache-Control", "no-store") // a page that is kept is not asked for
		switch r.URL.Query().Get("case") {
		case "header":
			w.Header().Set("Refresh", "0; url=?case=refreshed")
		case "meta":
			_, _ = io.WriteString(w, `<meta http-equiv="refresh" content="0; url=?case=refreshed">`)
		}
		fmt.Fprintf(w, navigationPage, elsewhere, here)
	}
	own, other := httptest.NewServer(http.HandlerFunc(serve)), httptest.NewServer(http.HandlerFunc(serve))
	defer own.Close()
	defer other.Close()
	here, elsewhere = own.URL, strings.Replace(other.URL, "127.0.0.1", "localhost", 1)
	click := func(id string) func() {
		return func() { b.do("clicking "+id, chromedp.Click(chromedp.CSS("#"+id))) }
	}
	script := func(does string) func() {
		return func() { js[int](b, "setTimeout(() => { "+does+" }, 1)") }
	}
	address := func(query string) func() {
		return func() { b.do("opening ?"+query, chromedp.Navigate(here+"/?"+query)) }
	}
	const person, itself = decision.Navigation, decision.SelfNavigation
	for _, c := range []struct {
		name string
		from string // the page where it begins; empty for one of the workspace
		does func()
		want []decision.ClientKind
	}{
		{"an address is typed", "", address("case=typed"), []decision.ClientKind{person}},
		{"a link", "", click("link"), []decision.ClientKind{person}},
		{"a link in a new tab", "", click("open"), []decision.ClientKind{person}},
		{"a form", "", click("form"), []decision.ClientKind{person}},
		{"a form with a body", "", click("post"), []decision.ClientKind{decision.Program}},
		{"a button that asks first", "", click("later"), []decision.ClientKind{person}},
		{"a button that reloads", here + "/?case=page", click("reload"), []decision.ClientKind{person}},
		{"by way of another site", "", click("away"), []decision.ClientKind{person}},
		{"the reload button", here + "/?case=page", func() { b.do("reloading", chromedp.Reload()) }, []decision.ClientKind{person}},
		{"another site's script", elsewhere, script("location.href = '" + here + "/?case=other'"), []decision.ClientKind{person}},
		{"a script reloads", here + "/?case=page", script("location.reload()"), []decision.ClientKind{itself}},
		{"a script goes elsewhere", "", script("location.href = '?case=href'"), []decision.ClientKind{itself}},
		{"a script clicks", "", script("link.click()"), []decision.ClientKind{itself}},
		{"a script sends a form", "", script("form.form.submit()"), []decision.ClientKind{itself}},
		{"a script sends a form with a body", "", script("post.form.submit()"), []decision.ClientKind{decision.Subresource}},
		{"a script adds a frame", "", script("document.body.append(Object.assign(document.createElement('iframe'), {src: '?case=frame'}))"), []decision.ClientKind{itself}},
		{"a meta refresh", "", address("case=meta"), []decision.ClientKind{person, itself}},
		{"a header refreshes", "", address("case=header"), []decision.ClientKind{person, itself}},
	} {
		from := c.from
		if from == "" {
			from = here
		}
		wait.For(t, "the page is open", func() error { // the navigation before it may abort this one
			return chromedp.Do(b.ctx, chromedp.Navigate(from), chromedp.WaitReady(chromedp.CSS("#away")))
		})
		for len(kinds) > 0 {
			<-kinds
		}
		c.does()
		for i, want := range c.want {
			select {
			case got := <-kinds:
				if got != want {
					t.Errorf("%s, request %d: got %d, want %d", c.name, i+1, got, want)
				}
			case <-time.After(wait.Timeout):
				t.Fatalf("%s: the browser has sent %d requests, want %d", c.name, i, len(c.want))
			}
		}
	}
}

// TestATabThatReloadsItself checks, in a real browser, that a tab does not wake its workspace by reloading itself. The
// workspace is woken only when a person presses the button in the tab.
func TestATabThatReloadsItself(t *testing.T) {
	b := openEditor(t)
	b.asleep()
	js[int](b, `setTimeout(() => location.reload(), 1)`)
	b.do("the page that says so", chromedp.WaitVisible(chromedp.CSS(`button.main`)))
	b.picture("asleep-page")
	if text := js[string](b, `document.querySelector("h1").innerText`); !strings.Contains(text, "is asleep") {
		t.Errorf("the page is headed %q", text)
	}
	if b.Woken() {
		t.Fatal("the tab wakes the workspace by itself")
	}
	b.do("pressing the button", chromedp.Click(chromedp.CSS(`button.main`)), chromedp.WaitVisible(chromedp.CSS(`#wake`)))
	if !b.Woken() {
		t.Fatal("the button does not wake it")
	}
	b.run()
	b.do("the page is back", chromedp.WaitVisible(chromedp.CSS(`#text`)))
}
