package e2e

import (
	"context"
	"errors"
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

	"github.com/codehub/gateway/coordinator/wait"
)

// tab is a tab of a real browser. It records the status of every document that it
// loads.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	statuses []int64
}

// openTab starts a browser with one tab.
func openTab(t *testing.T) *tab {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath("/usr/bin/chromium"), chromedp.UserDataDir(t.TempDir()), chromedp.NoSandbox,
		chromedp.Env("TMPDIR="+t.TempDir()), // a browser that is killed leaves folders there
		chromedp.DisableGPU, chromedp.WindowSize(1200, 800),
		chromedp.Flag("lang", "en-US"), chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true))
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx}
	// The browser lives as long as the context of this first call.
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

// do carries out actions in the tab. If they fail, it saves a screenshot.
func (b *tab) do(what string, actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, wait.Timeout)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.t.Fatalf("%s: %v\n%s", what, err, b.screenshot())
	}
}

// read returns the result of an action in the tab.
func read[T any](b *tab, what string, a chromedp.Action[T]) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, wait.Timeout)
	defer cancel()
	v, err := chromedp.Run(ctx, a)
	if err != nil {
		b.t.Fatalf("reading %s: %v\n%s", what, err, b.screenshot())
	}
	return v
}

// screenshot saves a screenshot in .codehub, which git ignores, and returns a sentence
// that says where.
func (b *tab) screenshot() string {
	ctx, cancel := context.WithTimeout(b.ctx, wait.Timeout)
	defer cancel()
	page, err := chromedp.Run(ctx, chromedp.Location())
	if err != nil {
		return "no screenshot: " + err.Error()
	}
	png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		return "no screenshot: " + err.Error()
	}
	path := filepath.Join("..", "..", ".codehub", strings.ReplaceAll(b.t.Name(), "/", "-")+".png")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "no screenshot: " + err.Error()
	}
	if err := os.WriteFile(path, png, 0o600); err != nil {
		return "no screenshot: " + err.Error()
	}
	return "a screenshot of " + page + " is in " + path
}

// documents returns the statuses of the documents loaded since the last call.
func (b *tab) documents() []int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.statuses
	b.statuses = nil
	return s
}

// wokeUp checks that the last documents were the wake page and then the workspace.
func (b *tab) wokeUp() {
	b.t.Helper()
	if s := b.documents(); len(s) < 2 || s[0] != 502 || s[len(s)-1] != 200 {
		b.t.Errorf("the documents came with the statuses %v, want 502 first and 200 last", s)
	}
}

// inTerminal types a command into the page's terminal and waits for a line of output.
func (b *tab) inTerminal(command, want string) {
	b.t.Helper()
	b.do("the terminal is connected", chromedp.WaitVisible(chromedp.CSS(`#terminal[data-state=connected]`)))
	b.do("focusing the terminal", chromedp.Focus(chromedp.CSS(`.xterm-helper-textarea`)))
	b.typeLine(command)
	wait.For(b.t, "the terminal prints "+want, func() error {
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

// typeLine types a line and presses Enter. The text is inserted as an input method
// does: of simulated keys, the terminal would take both the key and its character.
func (b *tab) typeLine(line string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, wait.Timeout)
	defer cancel()
	if _, err := chromedp.Call(ctx, input.InsertText, input.InsertTextParams{Text: line}); err != nil {
		b.t.Fatalf("typing %s: %v", line, err)
	}
	b.do("pressing Enter", chromedp.KeyEvent(kb.Enter))
}
