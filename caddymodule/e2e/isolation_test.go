package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/codehub/gateway/coordinator/wait"
)

// TestAPageOfAWorkspaceCannotUseTheDashboard: in host mode, a page of a workspace puts the dashboard into a frame,
// sends requests to the API and plants cookies. It gains nothing by that.
func TestAPageOfAWorkspaceCannotUseTheDashboard(t *testing.T) {
	t.Parallel()
	in := install(t)
	me := in.admin(t)
	w := me.create(t, "hostile")
	me.awaitPhase(t, w.ID, "RUNNING")
	b := openTab(t)
	b.do("opening the dashboard", chromedp.Navigate(in.url("/")))
	b.signIn("admin", in.password)
	b.do("being signed in", chromedp.WaitVisible(chromedp.CSS(`#new`)))
	b.do("opening the workspace by its path", chromedp.Navigate(in.url("/w/"+w.ID+"/?a=b#c")),
		chromedp.WaitVisible(chromedp.CSS(`#terminal[data-state=connected]`)))
	if at, want := read(b, "the address", chromedp.Location()), fmt.Sprintf("http://ws-%s.localhost:%d/?a=b#c", w.ID, in.port); at != want {
		t.Fatalf("the browser is at %s, want %s", at, want)
	}
	// The tab now shows a page of the workspace, which attacks the dashboard. The browser sends the session cookie with
	// its requests, because they are same-site.
	attack := fmt.Sprintf(`(async () => {
		const main = %q, out = {};
		const framed = url => new Promise(resolve => {
			const f = document.createElement('iframe'); f.src = url;
			f.onload = () => { try { resolve('read:' + f.contentDocument.body.innerText.slice(0, 40)); } catch (e) { resolve('opaque'); } };
			document.body.append(f);
		});
		out.frameOfPath = await framed(main + '/w/%s/');
		out.frameOfDashboard = await framed(main + '/');
		for (const [name, init] of Object.entries({
			read: {credentials: 'include'},
			blind: {credentials: 'include', mode: 'no-cors'},
			form: {credentials: 'include', mode: 'no-cors', method: 'POST', body: '{"name":"theirs"}'},
		})) {
			try { const r = await fetch(main + '/api/v1/workspaces', init); out[name] = r.type + r.status; } catch (e) { out[name] = 'refused'; }
		}
		return JSON.stringify(out);
	})()`, in.url(""), w.ID)
	var out map[string]string
	if err := json.Unmarshal([]byte(read(b, "the attack", chromedp.Evaluate[string](attack, chromedp.EvalAwaitPromise))), &out); err != nil {
		t.Fatal(err)
	}
	for name, got := range out {
		if strings.HasPrefix(got, "read:") || strings.Contains(got, "200") || strings.Contains(got, "201") {
			t.Errorf("%s succeeded: %s", name, got)
		}
	}
	if len(out) != 5 {
		t.Errorf("got %v", out)
	}
	// The user continues as if nothing had happened.
	b.do("the dashboard still works", chromedp.Navigate(in.url("/")), chromedp.WaitVisible(chromedp.CSS(fmt.Sprintf(`[data-workspace="%s"]`, w.ID))))
	b.do("the workspace, too", chromedp.Navigate(in.url("/w/"+w.ID+"/")), chromedp.WaitVisible(chromedp.CSS(`#terminal[data-state=connected]`)))
	var list struct{ Items []workspace }
	me.call(t, "GET", "/api/v1/workspaces", nil, 200, &list)
	if len(list.Items) != 1 {
		t.Errorf("there are %d workspaces", len(list.Items))
	}
}

// TestPlantedCookies: a page of a workspace sets cookies for the whole domain, including a session cookie. Its user
// continues as if nothing had happened. The test uses another domain than localhost, because browsers refuse such
// cookies for localhost.
func TestPlantedCookies(t *testing.T) {
	t.Parallel()
	in := install(t, "CODEHUB_DOMAIN="+testDomain)
	me := in.admin(t)
	w := me.create(t, "hostile")
	me.awaitPhase(t, w.ID, "RUNNING")
	b := openTab(t)
	b.do("opening the dashboard", chromedp.Navigate(in.url("/")))
	b.signIn("admin", in.password)
	b.do("being signed in", chromedp.WaitVisible(chromedp.CSS(`#new`)))
	b.do("opening the workspace", chromedp.Navigate(in.url("/w/"+w.ID+"/")), chromedp.WaitVisible(chromedp.CSS(`#terminal[data-state=connected]`)))
	planted := read(b, "the cookies", chromedp.Evaluate[int](fmt.Sprintf(`(() => {
		for (let i = 0; i < 8; i++) document.cookie = 'planted' + i + '=' + 'x'.repeat(4000) + '; Domain=%[1]s; Path=/';
		document.cookie = 'session=evil; Domain=%[1]s; Path=/';
		return document.cookie.match(/planted|evil/g).length;
	})()`, testDomain)))
	if planted != 9 {
		t.Fatalf("the page planted %d cookies", planted)
	}
	b.do("the dashboard still works", chromedp.Navigate(in.url("/")), chromedp.WaitVisible(chromedp.CSS(fmt.Sprintf(`[data-workspace="%s"]`, w.ID))))
	b.do("the workspace, too", chromedp.Navigate(in.url("/w/"+w.ID+"/")), chromedp.WaitVisible(chromedp.CSS(`#terminal[data-state=connected]`)))
}

// TestAPortInABrowser: a user starts a hot-reloading server in the workspace. The browser reaches the server and its
// WebSocket at an origin of their own.
func TestAPortInABrowser(t *testing.T) {
	t.Parallel()
	in := install(t)
	me := in.admin(t)
	w := me.create(t, "ports")
	me.awaitPhase(t, w.ID, "RUNNING")
	b := openTab(t)
	b.do("opening the dashboard", chromedp.Navigate(in.url("/")))
	b.signIn("admin", in.password)
	b.do("being signed in", chromedp.WaitVisible(chromedp.CSS(`#new`)))
	own := fmt.Sprintf("http://%%d--ws-%s.localhost:%d/", w.ID, in.port)
	b.do("opening a port without a listener", chromedp.Navigate(fmt.Sprintf(own, 3000)),
		chromedp.WaitVisible(chromedp.CSS(`main`)))
	wait.For(t, "the page says that nothing listens", func() error {
		if text := read(b, "the page", chromedp.Evaluate[string](`document.body.innerText`)); !strings.Contains(text, "Nothing listens on port 3000") {
			return errors.New(text)
		}
		return nil
	})
	wait.For(t, "the page that tries again by itself is left", func() error {
		b.do("the application's own port", chromedp.Navigate(fmt.Sprintf(own, 8080)))
		if at := read(b, "the address", chromedp.Location()); strings.HasPrefix(at, fmt.Sprintf(own, 3000)) {
			return errors.New(at)
		}
		return nil
	})
	b.do("its terminal", chromedp.WaitVisible(chromedp.CSS(`#terminal[data-state=connected]`)))
	if at := read(b, "the address", chromedp.Location()); !strings.HasPrefix(at, fmt.Sprintf("http://ws-%s.", w.ID)) {
		t.Errorf("the application's port is at %s", at)
	}
	name := fmt.Sprintf("http://ports--admin.localhost:%d/", in.port)
	b.do("by its name", chromedp.Navigate(name), chromedp.WaitVisible(chromedp.CSS(`#terminal[data-state=connected]`)))
	if at := read(b, "the address", chromedp.Location()); !strings.HasPrefix(at, fmt.Sprintf("http://ws-%s.", w.ID)) {
		t.Errorf("the name leads to %s", at)
	}
	b.inTerminal("echo served >index.html; httpd -p 3000; echo s$((1+1))d", "s2d")
	b.do("its page", chromedp.Navigate(in.url("/#/w/"+w.ID)))
	b.click("its log", `.logs summary`)
	b.shows("what it printed before", `.logs pre`, "listening on")
	me.run(t, in.url("/w/"+w.ID+"/"), "echo printed >/proc/1/fd/1")
	b.shows("what it prints now", `.logs pre`, "printed")
	b.shows("what it uses", `.stats`, "cores")
	wait.Until(t, "each plot has a line", func() bool {
		return read(b, "the plots", chromedp.Evaluate[int](`document.querySelectorAll(".plot path").length`)) >= 2
	})
	const link = `.stats a[href*="3000--"]`
	b.do("the port that listens", chromedp.WaitVisible(chromedp.CSS(link)))
	b.do("opening it", chromedp.Navigate(read(b, "its address", chromedp.AttributeValue(chromedp.CSS(link), "href")).Value))
	b.shows("the server", `body`, "served")
}

// shows waits until an element has a text.
func (b *tab) shows(what, selector, text string) {
	b.t.Helper()
	wait.For(b.t, what, func() error {
		shown := read(b, what, chromedp.Evaluate[string](fmt.Sprintf(`String(document.querySelector(%q)?.textContent)`, selector)))
		if !strings.Contains(shown, text) {
			return errors.New(shown)
		}
		return nil
	})
}
