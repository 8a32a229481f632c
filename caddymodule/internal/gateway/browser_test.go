package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/coder/websocket"

	"github.com/codehub/gateway/caddymodule/internal/gateway/gatewaytest"
	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/coordinator/dataplane/auth"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/devenv/chromium"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// These tests run the script in a real browser with a small application, so that any state of the
// workspace can be set immediately. The end-to-end tests use real workspaces.

// editor is an application that behaves like an editor. It has a strict policy, a WebSocket, a frame of its own origin
// and a frame of another origin, and it sends requests without end.
type editor struct {
	loads, messages, polls atomic.Int64
	other                  string // the other origin
}

const editorPage = `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Editor</title></head>
<body><textarea id="text" autofocus></textarea><iframe id="own" src="frame"></iframe><iframe id="other" src="%s/"></iframe>
<script src="app.js"></script></body></html>`

const editorScript = `
window.keys = 0;
addEventListener("keydown", () => keys++);
const ws = new WebSocket(new URL("ws", location.href).href.replace("http", "ws"));
ws.onopen = () => setInterval(() => ws.readyState === 1 && ws.send("ping"), 50);
setInterval(() => fetch("poll").catch(() => {}), 200);
`

func (e *editor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/ws":
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer func() { _ = c.CloseNow() }()
		for {
			kind, msg, err := c.Read(r.Context())
			if err != nil || c.Write(r.Context(), kind, msg) != nil {
				return
			}
			e.messages.Add(1)
		}
	case "/poll":
		e.polls.Add(1)
	case "/app.js":
		w.Header().Set("Content-Type", "text/javascript")
		_, _ = io.WriteString(w, editorScript)
	case "/frame":
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, `<!doctype html><input id="in" autofocus>`)
	default:
		if r.Header.Get("Sec-Fetch-Mode") == "navigate" {
			e.loads.Add(1)
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", "default-src 'none'; script-src 'self' 'nonce-x'; style-src 'self'; connect-src 'self' ws:; frame-src *; require-trusted-types-for 'script'")
		fmt.Fprintf(w, editorPage, e.other)
	}
}

// browser is a tab of a real browser in front of a gateway with an editor.
type browser struct {
	*harness
	*editor
	ctx   context.Context
	run   func()       // makes the workspace RUNNING
	ahead atomic.Int64 // how far the clock of the pages that report is ahead
	asked atomic.Int64 // how often the tab has asked for the state
	away  atomic.Bool  // the session cannot be checked when the tab reports
	lost  atomic.Int64 // reports that got no other answer
}

// openEditor starts both and opens the editor. Flags are the browser's command-line flags.
func openEditor(t *testing.T, flags ...chromedp.ExecAllocatorOption) *browser {
	t.Helper()
	b := &browser{editor: &editor{}}
	h := newHarness(t, func(o *Options) {
		o.Identity = func(r *http.Request, _ *site.Address) (auth.Grant, error) {
			if strings.HasSuffix(r.URL.Path, "/.codehub/presence") {
				if r.Method == http.MethodGet {
					b.asked.Add(1)
				} else if b.away.Load() {
					b.lost.Add(1)
					return auth.Grant{}, errors.New("the database does not answer")
				}
			}
			return auth.Grant{User: auth.User{ID: "alice"}}, nil
		}
	})
	other := gatewaytest.App(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, `<!doctype html><style>*{margin:0}button{width:200px;height:100px}</style><button>other</button>`)
	})
	b.other = other.URL
	app := gatewaytest.App(t, b.ServeHTTP)
	b.harness, b.run = h, func() { h.Run(one, app) }
	h.gateway.tabs.Now = func() time.Time { return time.Now().Add(time.Duration(b.ahead.Load())) }
	b.run()
	options := append(slices.Concat(chromedp.DefaultExecAllocatorOptions[:], chromium.Options(t)),
		chromedp.UserDataDir(t.TempDir()), chromedp.WSURLReadTimeout(wait.Timeout),
		chromedp.Env("TMPDIR="+t.TempDir()), chromedp.WindowSize(1000, 700), chromedp.Flag("lang", "en-US"))
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), append(options, flags...)...)
	t.Cleanup(cancel)
	b.ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	if err := chromedp.Do(b.ctx); err != nil {
		t.Fatalf("starting the browser: %v", err)
	}
	b.open()
	return b
}

// open loads the editor. It waits until the page reports input, so that the page's traffic no longer counts as use.
func (b *browser) open() {
	b.t.Helper()
	b.do("opening the editor", chromedp.Navigate(b.url+onePath+"/"), chromedp.WaitVisible(chromedp.CSS(`#text`)))
	wait.Until(b.t, "the page reports", func() bool { return b.mode(one) == workspace.PagePresence })
	wait.Until(b.t, "its frames are there", func() bool { return b.holds(`document.readyState === "complete"`) })
	wait.Until(b.t, "the page is loaded", func() bool { return !b.Used(one) && b.messages.Load() > 3 && b.polls.Load() > 1 })
	js[bool](b, recorder)
}

func (b *browser) do(what string, actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, wait.Timeout)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.t.Fatalf("%s: %v", what, err)
	}
}

// js returns the value of an expression in the page.
func js[T any](b *browser, expression string) T {
	b.t.Helper()
	v, err := evaluate[T](b, expression)
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// holds reports whether a condition is true in the open page. It is false during a navigation,
// which ends the evaluation.
func (b *browser) holds(condition string) bool {
	b.t.Helper()
	v, err := evaluate[bool](b, condition)
	var refused *cdproto.Error
	if errors.As(err, &refused) && slices.Contains(betweenPages, refused.Message) {
		return false
	}
	if err != nil {
		b.t.Fatalf("%s: %v", condition, err)
	}
	return v
}

func evaluate[T any](b *browser, expression string) (T, error) {
	ctx, cancel := context.WithTimeout(b.ctx, wait.Timeout)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[T](expression))
}

// betweenPages are the errors of the DevTools protocol for a script whose page is replaced while it runs.
var betweenPages = []string{
	"Inspected target navigated or closed",
	"Execution context was destroyed.",
	"Cannot find context with specified id",
}

// said returns the text that the script shows, "" for none.
const said = `(document.querySelector("codehub-notice")?.shadowRoot.querySelector(".card").innerText || "")`

// recorder makes the page collect every text that the script shows from now on, even if only for a moment, in the
// variable heard.
const recorder = `(() => {
	window.heard = [];
	new MutationObserver((changes) => changes.forEach((change) => change.addedNodes.forEach((node) => {
		if (node.localName !== "codehub-notice") return;
		const hear = () => { heard.push(node.shadowRoot.textContent); sessionStorage.heard = heard.join("\n"); };
		new MutationObserver(hear).observe(node.shadowRoot, { childList: true, characterData: true, subtree: true });
		hear();
	}))).observe(document.documentElement, { childList: true });
	return true;
})()`

// awaitHeard waits until the script has shown a text since the page was opened.
func (b *browser) awaitHeard(want string) {
	b.t.Helper()
	wait.For(b.t, "the page says "+want, func() error {
		if got := js[[]string](b, `heard`); !strings.Contains(strings.Join(got, "\n"), want) {
			return fmt.Errorf("%q", got)
		}
		return nil
	})
}

// awaitSaid waits until the script shows a text.
func (b *browser) awaitSaid(want string) {
	b.t.Helper()
	wait.For(b.t, "the page says "+want, func() error {
		if got := js[string](b, said); want == "" && got != "" || !strings.Contains(got, want) {
			return errors.New(got)
		}
		return nil
	})
}

// press clicks a button of the script.
func (b *browser) press(label string) {
	b.t.Helper()
	at := js[[]float64](b, `(() => {
		const r = [...document.querySelector("codehub-notice").shadowRoot.querySelectorAll("button")].find((e) => [e.textContent, e.ariaLabel].includes("`+label+`")).getBoundingClientRect();
		return [r.x + r.width / 2, r.y + r.height / 2];
	})()`)
	b.click(at[0], at[1])
}

// click presses the mouse at a point, without moving it there first.
func (b *browser) click(x, y float64) {
	b.t.Helper()
	b.do("clicking", chromedp.MouseClickXY(x, y))
}

// key presses a key.
func (b *browser) key(keys string) {
	b.t.Helper()
	b.do("pressing "+keys, chromedp.KeyEvent(keys))
}

// picture saves a picture of the page for people to look at, if the variable CODEHUB_TEST_PICTURES names a folder.
func (b *browser) picture(name string) {
	folder := os.Getenv("CODEHUB_TEST_PICTURES")
	if folder == "" {
		return
	}
	png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, name+".png"), png, 0o600)
	}
	if err != nil {
		b.t.Error(err)
	}
}

// asleep puts the workspace to sleep.
func (b *browser) asleep() {
	b.Change(one, func(r *store.Route) {
		r.SleepAt, r.Desired, r.Phase, r.Endpoint = time.Time{}, workspace.DesiredStandby, workspace.PhaseStandby, ""
	})
}

// flows waits until the tab has by itself sent more messages and more requests.
func (b *browser) flows() {
	b.t.Helper()
	messages, polls := b.messages.Load()+5, b.polls.Load()+2
	wait.Until(b.t, "the tab sends by itself", func() bool { return b.messages.Load() > messages && b.polls.Load() > polls })
}

func TestOnlyAPersonCountsInAnOpenTab(t *testing.T) {
	b := openEditor(t)
	idle := func() {
		t.Helper()
		for range 3 {
			if b.flows(); b.Used(one) {
				t.Error("an idle tab counts")
			}
		}
	}
	counts := func(what string) {
		t.Helper()
		wait.Until(t, what+" counts", func() bool { return b.Used(one) })
		idle()
		b.open() // the next input is reported immediately again
	}
	idle()
	const text = "hello, world"
	b.key(text)
	if got := js[string](b, `text.value`); got != text || js[int](b, `keys`) != len(text) {
		t.Errorf("the page got %q", got)
	}
	counts("typing")
	b.do("moving the mouse", chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, 700, 500))
	b.do("moving the mouse", chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, 710, 510))
	counts("a moved mouse")
	js[bool](b, `own.contentDocument.getElementById("in").focus() || true`)
	b.key("x")
	if got := js[string](b, `own.contentDocument.getElementById("in").value`); got != "x" {
		t.Errorf("the frame got %q", got)
	}
	counts("a key in a frame of the same origin")
	at := js[[]float64](b, `(() => { const r = other.getBoundingClientRect(); return [r.x + 30, r.y + 30]; })()`)
	b.click(at[0], at[1])
	counts("a click in a frame of another origin")
	// Events made up by pages are not input.
	js[bool](b, `[...Array(5)].forEach(() => dispatchEvent(new KeyboardEvent("keydown", {key: "a"}))) || true`)
	idle()
	if n := b.PageWrites(); n != 1 {
		t.Errorf("%d writes", n)
	}
}

func TestTheTabIsToldBeforeItSleeps(t *testing.T) {
	b := openEditor(t)
	// sleepIn sets when the workspace goes to sleep, and waits until the tab shows how many seconds are left.
	sleepIn := func(d time.Duration) {
		// The browser counts a person as active for seconds after a click, and so does the tab.
		wait.Until(t, "the last click is over", func() bool { return !js[bool](b, `navigator.userActivation.isActive`) })
		at := time.Now().Add(d)
		b.Change(one, func(r *store.Route) { r.SleepAt = at })
		wait.For(t, "the tab says when it goes to sleep", func() error {
			text := js[string](b, said)
			_, number, _ := strings.Cut(text, "Going to sleep in ")
			number, _, _ = strings.Cut(number, " ")
			if in, err := strconv.ParseFloat(number, 64); err != nil || math.Abs(in-time.Until(at).Seconds()) > 3 {
				return fmt.Errorf("%s left, it says %q", time.Until(at), text)
			}
			return nil
		})
	}
	sleepIn(50 * time.Second)
	b.picture("notice")
	if focus := js[string](b, `document.activeElement.id`); focus != "text" {
		t.Errorf("the notice has taken the focus: %q has it", focus)
	}
	b.press("Stay awake")
	b.awaitSaid("")
	wait.Until(t, "Stay counts", func() bool { return b.Used(one) })
	b.Change(one, func(r *store.Route) { r.SleepAt = time.Time{} })
	sleepIn(55 * time.Second)
	b.press("4 h")
	b.awaitHeard("Kept awake for 4 h")
	if d := b.KeptAwake(one); d != 4*time.Hour {
		t.Errorf("kept awake for %s", d)
	}
	b.awaitSaid("")
	b.Used(one)
	b.Change(one, func(r *store.Route) { r.SleepAt = time.Time{} })
	sleepIn(time.Minute)
	b.do("going to the page", chromedp.Focus(chromedp.CSS(`#text`)))
	b.key("a")
	b.awaitHeard("You are here")
	wait.Until(t, "typing counts at once", func() bool { return b.Used(one) })
	b.awaitSaid("")
}

func TestTheTabSleepsAndWakesWithItsWorkspace(t *testing.T) {
	b := openEditor(t)
	b.key("unsaved")
	b.asleep()
	b.awaitSaid("Asleep since ")
	b.picture("asleep")
	b.key(kb.Control)
	b.press("Look at the page")
	b.picture("asleep-look")
	if got := js[string](b, `text.value`); got != "unsaved" || b.Woken() {
		t.Fatalf("the page has %q, woken: %v", got, b.Woken())
	}
	b.key("x") // in the visible page
	if b.Woken() {
		t.Error("a key in a page that is looked at wakes")
	}
	// When another client wakes the workspace, the tab reloads its page by itself.
	loads := b.loads.Load()
	b.run()
	wait.Until(t, "the page is loaded again", func() bool { return b.loads.Load() == loads+1 })
	b.do("it is there", chromedp.WaitVisible(chromedp.CSS(`#text`)))
	b.awaitSaid("")
	if heard := js[string](b, `sessionStorage.heard`); !strings.Contains(heard, "loading…") || strings.Contains(heard, "lost") {
		t.Errorf("before it came back, the page said %q", heard)
	}

	// A key wakes it, and does nothing else.
	b.flows()
	js[bool](b, `(window.old = true)`)
	b.asleep()
	b.awaitSaid("Asleep since ")
	keys := js[int](b, `keys`)
	b.key("k")
	wait.Until(t, "the key wakes", b.Woken)
	b.awaitSaid("Waking up")
	if js[string](b, `text.value`) != "" || js[int](b, `keys`) != keys {
		t.Error("the key went to the page, too")
	}
	b.run()
	wait.Until(t, "the page is loaded again", func() bool { return b.loads.Load() == loads+2 })
	// The application is asked before the old page is replaced.
	wait.Until(t, "it is another page", func() bool { return b.holds(`!window.old && !!document.querySelector("#text")`) })

	// At a limit, loading the address shows the way out.
	b.flows()
	b.asleep()
	b.awaitSaid("Asleep since ")
	b.Refuse(&service.LimitError{Scope: "user", Limit: 2})
	b.press("Wake")
	b.awaitSaid("It could not be woken")
	b.press("Show why")
	b.do("the limit page", chromedp.WaitVisible(chromedp.CSS(`main a`)))
}

// dozingEditor opens the editor of a workspace that dozes. The page has had no input yet: after input, the browser
// would count a person as active for some seconds.
func dozingEditor(t *testing.T) *browser {
	b := openEditor(t)
	js[bool](b, `(text.focus(), text.value = "unsaved", true)`)
	b.doze()
	b.awaitSaid("Dozing")
	return b
}

// TestTheTabGoesOnWithItsWorkspace checks that a key resumes a dozing workspace, and that the page also gets the key.
func TestTheTabGoesOnWithItsWorkspace(t *testing.T) {
	b := dozingEditor(t)
	loads := b.loads.Load()
	b.picture("dozing")
	if focus := js[string](b, `document.activeElement.id`); focus != "text" || b.Woken() {
		t.Errorf("%q has the focus, woken: %v", focus, b.Woken())
	}
	b.key("k")
	wait.Until(t, "the key wakes", func() bool { return b.Woken() && !b.dozing() })
	b.awaitSaid("")
	if got := js[string](b, `text.value`); !strings.Contains(got, "unsaved") || len(got) != len("unsavedk") || b.loads.Load() != loads {
		t.Errorf("the page has %q, loaded %d times since", got, b.loads.Load()-loads)
	}
}

// TestTheTabThatDozesIsToldBeforeItSleeps checks that the tab of a dozing workspace warns before the workspace goes to
// sleep, and that a person can then prevent it.
func TestTheTabThatDozesIsToldBeforeItSleeps(t *testing.T) {
	b := dozingEditor(t)
	b.Change(one, func(r *store.Route) { r.SleepAt = time.Now().Add(50 * time.Second) })
	b.awaitSaid("Going to sleep")
	b.key("k")
	wait.Until(t, "it goes on", func() bool { return !b.dozing() })
	b.Change(one, func(r *store.Route) { r.SleepAt = time.Time{} })
	b.awaitSaid("")
}

// noRoom opens the editor of a dozing workspace, which cannot resume because of the limit, and presses a key. It waits
// until the tab says that the workspace could not be woken, and has received once more that it dozes.
func noRoom(t *testing.T) *browser {
	b := dozingEditor(t)
	b.Refuse(&service.LimitError{Scope: "user", Limit: 2})
	b.key("k")
	b.awaitSaid("It could not be woken")
	b.hears()
	return b
}

// hears waits until the tab has received and shown the state of its workspace.
func (b *browser) hears() {
	b.t.Helper()
	before, at := b.asked.Load(), time.Now().Add(time.Hour)
	wait.Until(b.t, "the tab asks for the state again", func() bool {
		at = at.Add(time.Second) // a change, for which it waits
		b.Change(one, func(r *store.Route) { r.SleepAt = at })
		// It polls again after showing an answer. One answer is not enough, because it may have been on its way before
		// the change.
		return b.asked.Load() >= before+2
	})
}

// TestTheTabThatDozesWithoutRoom: the tab says that the workspace cannot resume, links to the reason, and keeps the
// contents of the page.
func TestTheTabThatDozesWithoutRoom(t *testing.T) {
	b := noRoom(t)
	loads := b.loads.Load()
	b.hears()
	b.awaitSaid("It could not be woken")
	b.picture("dozing-refused")

	// It resumes when the limit allows it, here or elsewhere.
	b.Refuse(nil)
	b.press("Wake")
	wait.Until(t, "the button wakes", func() bool { return !b.dozing() })
	b.awaitSaid("")
	b.doze()
	b.awaitSaid("Dozing")
	b.Refuse(&service.LimitError{Scope: "user", Limit: 2})
	b.key("k")
	b.awaitSaid("It could not be woken")
	b.Change(one, func(r *store.Route) { r.DozeAt = time.Time{} })
	b.awaitSaid("")
	heard := strings.Join(js[[]string](b, `heard`), "\n")
	if got := js[string](b, `text.value`); !strings.Contains(got, "unsaved") || b.loads.Load() != loads || strings.Contains(heard, "Awake again") {
		t.Errorf("the page has %q, loaded %d times since, and said %q", got, b.loads.Load()-loads, heard)
	}

	b.doze()
	b.awaitSaid("Dozing")
	b.key("k")
	b.awaitSaid("It could not be woken")
	b.press("Show why")
	b.do("the page that says so", chromedp.WaitVisible(chromedp.CSS(`main a`)))
}

// TestTheTabOfAnotherRunIsLoadedAgain checks a tab whose dozing workspace could not be woken before. When the workspace
// has gone to sleep, the tab says since when. When the workspace runs again, the tab reloads its page.
func TestTheTabOfAnotherRunIsLoadedAgain(t *testing.T) {
	b := noRoom(t)
	b.asleep()
	b.awaitSaid("Asleep since ")
	loads := b.loads.Load()
	b.Change(one, func(r *store.Route) { r.DozeAt = time.Time{} })
	b.run()
	wait.Until(t, "the page is loaded again", func() bool { return b.loads.Load() == loads+1 })
}

// TestAnErrorIsNoRefusal checks that a tab that cannot reach its workspace retries, and meanwhile shows nothing untrue.
func TestAnErrorIsNoRefusal(t *testing.T) {
	b := dozingEditor(t)
	fails := func(says string) {
		t.Helper()
		b.away.Store(true)
		lost := b.lost.Load()
		b.key("k")
		wait.Until(t, "it is tried again", func() bool { return b.lost.Load() >= lost+2 })
		if got := js[string](b, said); !strings.Contains(got, says) || b.Woken() {
			t.Errorf("it says %q, woken: %v", got, b.Woken())
		}
	}
	fails("Dozing")
	loads := b.loads.Load()
	b.away.Store(false)
	wait.Until(t, "it goes on", func() bool { return !b.dozing() })
	b.awaitSaid("")
	if got := js[string](b, `text.value`); !strings.Contains(got, "unsaved") || b.loads.Load() != loads {
		t.Errorf("the page has %q, loaded %d times since", got, b.loads.Load()-loads)
	}
}

// TestAnErrorIsNoRefusalOfOneThatSleeps: a sleeping workspace is woken as soon as the tab can reach it again.
func TestAnErrorIsNoRefusalOfOneThatSleeps(t *testing.T) {
	b := dozingEditor(t)
	b.away.Store(true)
	b.key("k")
	wait.Until(t, "the key is reported", func() bool { return b.lost.Load() > 0 })
	b.asleep()
	b.awaitSaid("Asleep since ")
	lost := b.lost.Load()
	b.press("Wake")
	wait.Until(t, "it is tried again", func() bool { return b.lost.Load() >= lost+2 })
	b.awaitSaid("Waking up")
	if b.Woken() {
		t.Fatal("it is woken")
	}
	b.away.Store(false)
	wait.Until(t, "it is woken", b.Woken)
}

func TestTheScriptSpeaksKoreanOnAPhone(t *testing.T) {
	b := openEditor(t, chromedp.Flag("lang", "ko-KR"), chromedp.Flag("accept-lang", "ko-KR"))
	b.do("a phone", chromedp.EmulateViewport(360, 640, chromedp.EmulateMobile))
	dark := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}}
	if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, dark); err != nil {
		t.Fatal(err)
	}
	b.Change(one, func(r *store.Route) { r.SleepAt = time.Now().Add(50 * time.Second) })
	b.awaitSaid("초 후에 잠듭니다")
	b.picture("notice-ko")
	fits := `(() => { const r = document.querySelector("codehub-notice").shadowRoot.querySelector(".card").getBoundingClientRect();
		return r.left >= 0 && r.right <= innerWidth && r.top >= 0 && r.bottom <= innerHeight; })()`
	if !js[bool](b, fits) {
		t.Error("the notice does not fit")
	}
	b.asleep()
	b.awaitSaid("부터 잠들어 있습니다")
	b.picture("asleep-ko")
	if !js[bool](b, fits) {
		t.Error("the cover does not fit")
	}
	if lang := js[string](b, `document.querySelector("codehub-notice").lang`); lang != "ko" {
		t.Errorf("its language is %q", lang)
	}
}
