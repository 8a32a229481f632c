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
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/codehub/gateway/coordinator/devenv/chromium"
	"github.com/codehub/gateway/coordinator/wait"
)

// tab is a tab of a real browser. It records the status of every document that it
// loads.
type tab struct {
	t   testing.TB
	ctx context.Context

	mu       sync.Mutex
	statuses []int64
	// wrong collects errors that occur in pages, so that a failed test can report them.
	wrong []string
}

// openTab starts a browser with one tab.
func openTab(t testing.TB) *tab {
	t.Helper()
	options := append(slices.Concat(chromedp.DefaultExecAllocatorOptions[:], chromium.Options(t)),
		chromedp.UserDataDir(t.TempDir()), chromedp.WSURLReadTimeout(wait.Timeout),
		chromedp.Env("TMPDIR="+t.TempDir()), // a browser that is killed leaves folders there
		chromedp.Flag("host-resolver-rules", "MAP *"+testDomain+" 127.0.0.1"), chromedp.WindowSize(1200, 800), chromedp.Flag("lang", "en-US"))
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
		b.mu.Lock()
		defer b.mu.Unlock()
		switch e := event.(type) {
		case *network.EventResponseReceived:
			if e.Type == network.ResourceTypeDocument {
				b.statuses = append(b.statuses, e.Response.Status)
			} else if e.Response.Status >= 400 {
				b.wrong = append(b.wrong, fmt.Sprintf("%d %s", e.Response.Status, e.Response.URL))
			}
		case *network.EventLoadingFailed:
			b.wrong = append(b.wrong, fmt.Sprintf("a %s: %s", e.Type, e.ErrorText))
		case *runtime.EventExceptionThrown:
			b.wrong = append(b.wrong, e.ExceptionDetails.Text+" "+e.ExceptionDetails.URL)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Call(ctx, network.Enable, network.EnableParams{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		t.Log(b.screenshot())
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(b.wrong) > 0 {
			t.Logf("what went wrong in pages:\n%s", strings.Join(b.wrong, "\n"))
		}
	})
	return b
}

// do carries out actions in the tab.
func (b *tab) do(what string, actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, wait.Timeout)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.t.Fatalf("%s: %v", what, err)
	}
}

// onceShown waits until the element that the selector matches is shown and enabled, and then runs a JavaScript
// statement in which e is that element. It uses a script instead of mouse and keyboard for two reasons: elements move
// while others load, so a mouse would miss them, and the browser does not find elements in a page that has just
// replaced another one.
func (b *tab) onceShown(what, selector, statement string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, wait.Timeout)
	defer cancel()
	script := fmt.Sprintf(`(() => {
		const e = document.querySelector(%q);
		if (!e || e.disabled || !e.checkVisibility()) return false;
		%s;
		return true;
	})()`, selector, statement)
	wait.For(b.t, what, func() error {
		done, err := chromedp.Run(ctx, chromedp.Evaluate[bool](script))
		if err == nil && !done {
			err = fmt.Errorf("%s is not shown and enabled", selector)
		}
		return err
	})
}

// click clicks the element of a selector.
func (b *tab) click(what, selector string) {
	b.t.Helper()
	b.onceShown(what, selector, "e.click()")
}

// fill writes a text into a field.
func (b *tab) fill(what, selector, text string) {
	b.t.Helper()
	b.onceShown(what, selector, fmt.Sprintf(`e.focus(); e.value = %q; e.dispatchEvent(new Event("input", { bubbles: true }))`, text))
}

// signIn fills in the sign-in form that the tab shows.
func (b *tab) signIn(username, password string) {
	b.t.Helper()
	b.fill("the user name", "#username", username)
	b.fill("the password", "#password", password)
	b.click("signing in", "button[type=submit]")
}

// read returns the result of an action in the tab. While one page replaces another, the browser answers with an error.
// In this case read repeats the action in the new page.
func read[T any](b *tab, what string, a chromedp.Action[T]) (v T) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, wait.Timeout)
	defer cancel()
	wait.For(b.t, "the browser gives "+what, func() (err error) {
		v, err = chromedp.Run(ctx, a)
		return err
	})
	return v
}

// screenshot saves a screenshot in .codehub, which git ignores, and returns a sentence with its path.
func (b *tab) screenshot() string {
	ctx, cancel := context.WithTimeout(b.ctx, wait.Timeout)
	defer cancel()
	location, err := chromedp.Run(ctx, chromedp.Location())
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
	return "a screenshot of " + location + " is in " + path
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
		// The shell asks the terminal for the position of the cursor; an answer that comes too late appears before
		// the output.
		if !slices.ContainsFunc(strings.Split(screen, "\n"), func(line string) bool { return strings.HasSuffix(line, want) }) {
			return errors.New(screen)
		}
		return nil
	})
}

// typeLine types a line and presses Enter. It inserts the text as an input method does. With simulated keys, the
// terminal would take each character twice: once from the key and once from the character.
func (b *tab) typeLine(line string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, wait.Timeout)
	defer cancel()
	if _, err := chromedp.Call(ctx, input.InsertText, input.InsertTextParams{Text: line}); err != nil {
		b.t.Fatalf("typing %s: %v", line, err)
	}
	b.do("pressing Enter", chromedp.KeyEvent(kb.Enter))
}
