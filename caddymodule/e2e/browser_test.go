package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// tab is a page in a real browser. It remembers the status of every document it
// loaded.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	statuses []int64
}

// browse opens a browser with one tab.
func browse(t *testing.T) *tab {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath("/usr/bin/chromium"), chromedp.UserDataDir(t.TempDir()), chromedp.NoSandbox,
		chromedp.Env("TMPDIR="+t.TempDir()), // where it leaves folders when it is ended
		chromedp.DisableGPU, chromedp.WindowSize(1200, 800),
		chromedp.Flag("lang", "en-US"), chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true))
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx}
	// The browser's life is that of the context of its first call.
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("starting the browser: %v", err)
	}
	err := chromedp.Listen(ctx, func(event any) {
		if e, ok := event.(*network.EventResponseReceived); ok && e.Type == network.ResourceTypeDocument {
			b.mu.Lock()
			b.statuses = append(b.statuses, e.Response.Status)
			b.mu.Unlock()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Call(ctx, network.Enable, network.EnableParams{}); err != nil {
		t.Fatal(err)
	}
	return b
}

// do carries out actions in the page. When they fail, a picture of the page is
// kept in .codehub, which git ignores.
func (b *tab) do(what string, actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.t.Fatalf("%s: %v\n%s", what, err, b.picture())
	}
}

// read returns what the page says.
func read[T any](b *tab, what string, a chromedp.Action[T]) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, a)
	if err != nil {
		b.t.Fatalf("reading %s: %v\n%s", what, err, b.picture())
	}
	return v
}

// picture says where a picture of the page was put.
func (b *tab) picture() string {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	page, err := chromedp.Run(ctx, chromedp.Location())
	if err != nil {
		return "no picture: " + err.Error()
	}
	png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		return "no picture: " + err.Error()
	}
	path := filepath.Join("..", "..", ".codehub", strings.ReplaceAll(b.t.Name(), "/", "-")+".png")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "no picture: " + err.Error()
	}
	if err := os.WriteFile(path, png, 0o600); err != nil {
		return "no picture: " + err.Error()
	}
	return "the page " + page + " looked like " + path
}

// documents returns the statuses since the last call.
func (b *tab) documents() []int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.statuses
	b.statuses = nil
	return s
}

// inTerminal types a command into the page's terminal and waits for its output.
func (b *tab) inTerminal(command, want string) {
	b.t.Helper()
	b.do("the terminal is connected", chromedp.WaitVisible(chromedp.CSS(`#terminal[data-state=connected]`)))
	b.do("focusing the terminal", chromedp.Focus(chromedp.CSS(`.xterm-helper-textarea`)))
	b.typeLine(command)
	eventually(b.t, "the terminal prints "+want, func() error {
		screen := read(b, "the terminal", chromedp.Evaluate[string](`(() => {
			const b = terminal.buffer.active; let s = '';
			for (let i = 0; i < b.length; i++) s += b.getLine(i).translateToString(true) + '\n';
			return s;
		})()`))
		if !slices.Contains(strings.Split(screen, "\n"), want) {
			return errors.New(screen)
		}
		return nil
	})
}

// typeLine types a line. The text goes in as from an input method: a key that is
// pressed and a character that arrives are two events, and the terminal takes both.
func (b *tab) typeLine(line string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if _, err := chromedp.Call(ctx, input.InsertText, input.InsertTextParams{Text: line}); err != nil {
		b.t.Fatalf("typing %s: %v", line, err)
	}
	b.do("pressing Enter", chromedp.KeyEvent(kb.Enter))
}

// TestInTheBrowser is the main job as a person sees it.
func TestInTheBrowser(t *testing.T) {
	t.Parallel()
	in := install(t, "TTL_STANDBY_SECONDS=12", "TTL_ARCHIVE_SECONDS=8")
	me := in.admin(t)
	b := browse(t)

	b.do("signing in", chromedp.Navigate(in.url("/")),
		chromedp.WaitVisible(chromedp.CSS(`#username`)),
		chromedp.SendKeys(chromedp.CSS(`#username`), "admin"),
		chromedp.SendKeys(chromedp.CSS(`#password`), in.password),
		chromedp.Click(chromedp.CSS(`button[type=submit]`)))
	b.do("creating a workspace", chromedp.WaitVisible(chromedp.CSS(`#create-name`)),
		chromedp.SendKeys(chromedp.CSS(`#create-name`), "from the browser"),
		chromedp.Click(chromedp.CSS(`#create`)))
	b.do("seeing it run, live", chromedp.WaitVisible(chromedp.CSS(`[data-workspace][data-phase=RUNNING]`)))
	id := read(b, "its id", chromedp.AttributeValue(chromedp.CSS(`[data-workspace]`), "data-workspace")).Value
	href := read(b, "its address", chromedp.AttributeValue(chromedp.CSS(`[data-workspace] a.open`), "href")).Value
	address := in.url(href)
	if strings.HasPrefix(href, "http") {
		address = href
	}

	b.do("opening it", chromedp.Navigate(address))
	b.inTerminal("echo kept > file; echo s$((1+1))d", "s2d")

	// Leaving the page open and untouched does not keep it awake.
	me.await(t, id, "STANDBY")
	b.documents()
	b.do("opening it again", chromedp.Navigate(address))
	b.inTerminal("cat file", "kept")
	if s := b.documents(); len(s) < 2 || s[0] != 502 || s[len(s)-1] != 200 {
		t.Errorf("the documents came with %v, want 502 and at last 200", s)
	}

	b.do("leaving", chromedp.Navigate(in.url("/")))
	w := me.await(t, id, "ARCHIVED")
	if keys := in.objects(t, id); in.hasVolume(t, id) || len(keys) != 2 {
		t.Errorf("archived (%s) with volume %v and objects %v", w.ArchiveKey, in.hasVolume(t, id), keys)
	}
	b.documents()
	b.do("opening the archived one", chromedp.Navigate(address))
	b.inTerminal("cat file", "kept")
	if s := b.documents(); len(s) < 2 || s[0] != 502 || s[len(s)-1] != 200 {
		t.Errorf("the documents came with %v, want 502 and at last 200", s)
	}

	card := fmt.Sprintf(`[data-workspace="%s"]`, id)
	b.do("deleting it", chromedp.Navigate(in.url("/")),
		chromedp.WaitVisible(chromedp.CSS(card+`[data-operation=NONE] [data-action=delete]`)),
		chromedp.Click(chromedp.CSS(card+` [data-action=delete]`)),
		chromedp.WaitVisible(chromedp.CSS(`dialog[open] #confirm-ok`)),
		chromedp.Click(chromedp.CSS(`dialog[open] #confirm-ok`)),
		chromedp.WaitNotPresent(chromedp.CSS(card)))
	eventually(t, "container and volume are gone", func() error { return in.leftovers(t, id) })
}
