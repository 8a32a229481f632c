package browser

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/codehub/gateway/caddymodule/internal/preview"
	"github.com/codehub/gateway/caddymodule/internal/preview/previewtest"
	"github.com/codehub/gateway/coordinator/devenv/chromium"
	"github.com/codehub/gateway/coordinator/seed"
	"github.com/codehub/gateway/coordinator/wait"
)

// source is the root of the repository.
const source = "../../../.."

// shown returns what a page shows: its title, and each visible text, label and hint, one per line. It leaves out texts
// that are the same in every language: the words of the API, and the names that people and servers have given.
const shown = `(() => {
	const names = "script, style, bdi, code, .brand, h1:has(> img), #user, #language, .description, #running-list strong";
	const lines = [document.title];
	const read = (root) => {
		const walker = document.createTreeWalker(root, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT);
		for (let node = walker.currentNode; node; node = walker.nextNode()) {
			const element = node.nodeType === Node.TEXT_NODE ? node.parentElement : node;
			if (!element?.checkVisibility?.() || element.closest(names) || element.closest("[lang]")?.lang === "en") continue;
			if (node.nodeType === Node.TEXT_NODE) lines.push(node.data);
			else for (const name of ["aria-label", "title", "alt"]) lines.push(node.getAttribute(name) ?? "");
			if (node.shadowRoot) read(node.shadowRoot);
		}
	};
	read(document.documentElement);
	return lines.map((line) => line.trim().replaceAll("\n", " ")).filter(Boolean).join("\n");
})()`

// loaded reports whether a page and its scripts have loaded.
const loaded = `document.readyState === "complete" && (document.querySelector("[aria-busy=true]:not([hidden])") === null ||
	document.querySelector("#connection[data-state=lost]") !== null)`

// said matches texts in the fixtures that stand for messages of servers and output of programs.
var said = regexp.MustCompile(`what the server said, for administrators|exit status 1|npm install|A page of a workspace`)

// site is the preview with a view of the browsers' requests.
type site struct {
	http.Handler
	mu         sync.Mutex
	open, held int  // requests in progress: ordinary ones, and those that wait for a change
	polls      bool // the page has polled for changes
	last       time.Time
	gate       chan struct{} // the API does not answer until it is closed
	failing    int           // how many requests for assets still have to fail
}

// ServeHTTP implements [http.Handler].
func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	waits := r.URL.Query().Has("seen") || r.URL.Query().Has("follow") || strings.HasSuffix(r.URL.Path, "/events")
	count := func(n int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.last = time.Now()
		if waits {
			s.held, s.polls = s.held+n, true
		} else {
			s.open += n
		}
	}
	count(1)
	defer count(-1)
	s.mu.Lock()
	gate := s.gate
	fails := s.failing > 0 && strings.HasPrefix(r.URL.Path, "/assets/")
	if fails {
		s.failing--
	}
	s.mu.Unlock()
	if fails {
		panic(http.ErrAbortHandler)
	}
	if gate != nil && strings.HasPrefix(r.URL.Path, "/api/") {
		select {
		case <-gate:
		case <-r.Context().Done():
		}
	}
	s.Handler.ServeHTTP(w, r)
}

// fail aborts the next n requests for assets.
func (s *site) fail(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failing = n
}

// failed reports whether all of them have failed.
func (s *site) failed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failing == 0
}

// hold makes the API wait with its answers until the returned function is called.
func (s *site) hold() (answer func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	gate := make(chan struct{})
	s.gate = gate
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.gate = nil
		close(gate)
	})
}

// atRest reports whether the page has finished its requests: none is in progress, and none arrived for a while. A page
// that polls asks again within 1.5 s, unless its poll is in progress.
func (s *site) atRest() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	quiet := 200 * time.Millisecond
	if s.polls && s.held == 0 {
		quiet = 1500 * time.Millisecond
	}
	return s.open == 0 && time.Since(s.last) > quiet
}

// tab is a tab of a real browser.
type tab struct {
	t    *testing.T
	ctx  context.Context
	site *site
	url  string

	server  *httptest.Server
	network *network
}

func open(t *testing.T) *tab {
	t.Helper()
	p, err := preview.New(source)
	if err != nil {
		t.Fatal(err)
	}
	b := &tab{t: t, site: &site{Handler: p}}
	server := httptest.NewUnstartedServer(b.site)
	b.network = &network{Listener: server.Listener}
	server.Listener = b.network
	server.Start()
	t.Cleanup(server.Close)
	b.url, b.server = server.URL, server
	options := append(slices.Concat(chromedp.DefaultExecAllocatorOptions[:], chromium.Options(t)),
		chromedp.UserDataDir(t.TempDir()), chromedp.WSURLReadTimeout(wait.Timeout),
		chromedp.Env("TMPDIR="+t.TempDir()), chromedp.WindowSize(1200, 800), chromedp.Flag("lang", "en-US"))
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	b.ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	if err := chromedp.Do(b.ctx); err != nil {
		t.Fatalf("starting the browser: %v", err)
	}
	return b
}

// js returns the value of an expression in the page.
func js[T any](b *tab, expression string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, wait.Timeout)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// load loads a page of the preview in a language.
func (b *tab) load(path, language string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, wait.Timeout)
	defer cancel()
	b.site.mu.Lock()
	b.site.polls = false
	b.site.mu.Unlock()
	if err := chromedp.Do(ctx, chromedp.Navigate(b.url+path+"?lang="+language)); err != nil {
		b.t.Fatalf("%s: %v", path, err)
	}
}

// rest waits until the page is at rest, and returns its texts.
func (b *tab) rest(about string) string {
	b.t.Helper()
	before := ""
	wait.For(b.t, about+" comes to rest", func() error {
		if !b.site.atRest() {
			return errors.New("it asks for more")
		}
		if !js[bool](b, loaded) {
			return errors.New("it is not loaded")
		}
		if now := js[string](b, shown); now != before {
			before = now
			return errors.New("it changes")
		}
		return nil
	})
	return before
}

// check reports texts of the page that are not in the made-up language.
func (b *tab) check(about string) {
	b.t.Helper()
	text := b.rest(about)
	if other := previewtest.Unspoken(said.ReplaceAllString(text, "")); other != "" {
		b.t.Errorf("%s says %q", about, strings.Join(strings.Fields(other), " "))
	}
	if !strings.Contains(text, "⟦") && !strings.HasSuffix(about, "/notice/running") {
		b.t.Errorf("%s says nothing", about)
	}
}

// deed is an action on the first element that matches a selector. leave is the selector of the element to press
// afterwards.
type deed struct{ name, on, does, leave string }

// deeds are the actions that a person takes in a page, in this order.
var deeds = []deed{
	{"beginning to create one", "#new", `e.click()`, ""},
	{"creating one without a name", "#create", `e.click()`, ""},
	{"creating one", "#create", `(document.getElementById("create-name").value = "x", e.click())`, ""},
	{"giving a place", "#swap[open] button[value=ok]", `e.click()`, "#swap[open] [value=cancel]"},
	{"giving up", "#create-dialog[open] [value=cancel]", `e.click()`, ""},
	{"the menu of one that runs", "[data-phase=RUNNING] [data-menu]", `e.click()`, ""},
	{"putting one to sleep", "[data-action=sleep]", `e.click()`, ""},
	{"the menu of one that runs", "[data-phase=RUNNING] [data-menu]", `e.click()`, ""},
	{"keeping one awake", "[data-action=keep_awake_4]", `e.click()`, ""},
	{"the menu of one that sleeps", "[data-phase=STANDBY] [data-menu]", `e.click()`, ""},
	{"starting one", "[data-action=start]", `e.click()`, "#swap[open] [value=cancel]"},
	{"the menu of one that sleeps", "[data-phase=STANDBY] [data-menu]", `e.click()`, ""},
	{"archiving one", "[data-action=archive]", `e.click()`, ""},
	{"the menu of one", "[data-menu]", `e.click()`, ""},
	{"editing one", "[data-action=edit]", `e.click()`, "#edit[open] [value=cancel]"},
	{"the menu of one", "[data-menu]", `e.click()`, ""},
	{"deleting one", "[data-action=delete]", `e.click()`, ""},
	{"recovering one", "[data-action=recover]", `e.click()`, "#recovery[open] [value=cancel]"},
	{"undoing a deletion", "#deleted-list button", `e.click()`, ""},
	{"the shortcuts", "#keys-open", `e.click()`, "#keys[open] [value=ok]"},
	{"finding nothing", "#search", `(e.value = "no such", e.oninput({ target: e }))`, ""},
	{"finding all", "#search", `(e.value = "", e.oninput({ target: e }))`, ""},
	{"the table", "[data-view=table]", `e.click()`, ""},
	{"selecting all", "#select-all", `e.click()`, ""},
	{"archiving all", "[data-bulk=archive]", `e.click()`, ""},
	{"the cards", "[data-view=cards]", `e.click()`, ""},
	{"the page of one", "h3 a", `e.click()`, ""},
	{"the page of one that runs", "[data-phase=RUNNING] h3 a", `e.click()`, ""},
	{"the log", ".logs summary", `e.click()`, ""},
	{"restoring an archive", ".archives button", `e.click()`, "#confirm[open] [value=cancel]"},
	{"the administrator's view", "nav [data-view=admin]", `e.click()`, ""},
	{"recovering another's", "#failed-list button", `e.click()`, "#recovery[open] [value=cancel]"},
	{"recovering all", "[data-reason]", `e.click()`, ""},
	{"the overview", "[data-tab=overview]", `e.click()`, ""},
	{"looking for archives", "#gc-look", `e.click()`, ""},
	{"looking what to read back", "#scrub-look", `e.click()`, ""},
	{"reading it back", "#scrub-now", `e.click()`, ""},
	{"the recent events", "[data-tab=recent]", `e.click()`, ""},
	{"all workspaces", "[data-tab=workspaces]", `e.click()`, ""},
	{"all workspaces in another order", "#everyone-sort", `(e.value = "name", e.onchange({ target: e }))`, ""},
	{"the users", "[data-tab=users]", `e.click()`, ""},
	{"beginning to add a user", "#user-new", `e.click()`, ""},
	{"adding a user", "#user-dialog[open] [value=ok]", `e.click()`, "#user-dialog[open] [value=cancel]"},
	{"changing a user", "#users-list button", `e.click()`, ""},
	{"saving a user", "#user-dialog[open] [value=ok]", `e.click()`, "#user-dialog[open] [value=cancel]"},
	{"signing a user out", "[data-sign-out]", `e.click()`, ""},
	{"the usage of all", "[data-tab=usage]", `e.click()`, ""},
	{"the usage of another time", "#usage-all-period", `(e.value = "week", e.onchange({ target: e }))`, ""},
	{"the audit", "[data-tab=audit]", `e.click()`, ""},
	{"the audit of one", "#audit button", `e.click()`, ""},
	{"the audit of all again", "#audit-every", `e.click()`, ""},
	{"the audit of the installation", "#audit-action", `(e.value = "system", e.onchange({ target: e }))`, ""},
	{"the usage", "nav [data-view=usage]", `e.click()`, ""},
	{"the usage as a table", ".days summary", `e.click()`, ""},
	{"the account", "nav [data-view=account]", `e.click()`, ""},
	{"beginning a token", "#token-new > summary", `e.click()`, ""},
	{"making a token", "#token-form button", `(document.getElementById("token-name").value = "x", e.click())`, ""},
	{"revoking a token", "#tokens-list button", `e.click()`, ""},
	{"ending a session", "#sessions-list button", `e.click()`, ""},
	{"changing the password", "#password-form button", `e.click()`, ""},
	{"signing in", "#login button[type=submit]", `(e.form.username.value = e.form.password.value = "x", e.click())`, ""},
}

// TestScriptsSpeakTheLanguage checks that all texts of a page in a browser are in an added language. It checks this
// when the page is loaded and after actions in it. It checks it again for a page that was loaded in English and whose
// language is then switched.
func TestScriptsSpeakTheLanguage(t *testing.T) {
	t.Parallel()
	if !previewtest.RunWith(t, source, "TestScriptsSpeakTheLanguage") {
		return
	}
	b := open(t)
	links := pagesOf(b, previewtest.MadeUp)
	if len(links) < 100 {
		t.Fatalf("the index has only %d pages", len(links))
	}
	group := ""
	for _, path := range seed.Third(t, links) {
		b.load(path, previewtest.MadeUp)
		js[bool](b, `document.querySelectorAll("details").forEach((d) => { d.open = true; }) ?? true`)
		b.check(path)
		if strings.Contains(path, "/dashboard/") || strings.Contains(path, "/sign-in/refused") {
			b.doEverything(path)
		}
		if begins, _, _ := strings.Cut(strings.TrimPrefix(path, "/preview/"), "/"); begins != group && begins != "notice" || strings.Contains(path, "/refused-") {
			group = begins
			b.load(path, "en")
			for _, name := range []string{"beginning to create one", "creating one", "signing in"} {
				d := deeds[slices.IndexFunc(deeds, func(d deed) bool { return d.name == name })]
				b.do(d.on, d.does)
				b.rest(path)
			}
			b.rest(path)
			if b.do("#language button[value="+previewtest.MadeUp+"], select#language",
				`(e.click(), e.value = "`+previewtest.MadeUp+`", e.dispatchEvent(new Event("change")))`) {
				b.check(path + ", switched")
			}
		}
	}
}

// do performs an action on the first usable element that matches a selector, and reports whether there is one.
func (b *tab) do(on, does string) bool {
	b.t.Helper()
	done := js[bool](b, fmt.Sprintf(`((e) => { if (e) %s; return Boolean(e); })([...document.querySelectorAll(%q)]
		.find((e) => !e.disabled && e.checkVisibility()))`, does, on))
	if done { // the scripts draw changes one frame later; a page that was left meanwhile does not answer
		ctx, cancel := context.WithTimeout(b.ctx, wait.Timeout)
		defer cancel()
		_ = chromedp.Do(ctx, chromedp.Evaluate[chromedp.Void](`new Promise((drawn) => setTimeout(drawn, 20))`, chromedp.EvalAwaitPromise))
	}
	return done
}

// doEverything performs all actions that are possible in the page, and checks the result of each.
func (b *tab) doEverything(path string) {
	b.t.Helper()
	done := 0
	for _, d := range deeds {
		if !b.do(d.on, d.does) {
			continue
		}
		done++
		b.check(path + ", " + d.name)
		if d.leave != "" {
			b.do(d.leave, `e.click()`)
		}
	}
	if done == 0 {
		b.t.Errorf("nothing can be done in %s", path)
	}
}
