package main

import (
	"context"
	"errors"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/codehub/gateway/coordinator/devenv/chromium"
	"github.com/codehub/gateway/coordinator/wait"
)

// TestThePageConnectsAgain: the page reconnects by itself after a broken connection, for example when a server
// restarts. After the shell has ended, it reconnects when a key is pressed.
func TestThePageConnectsAgain(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	server := httptest.NewServer(newHandler())
	t.Cleanup(server.Close)
	options := append(slices.Concat(chromedp.DefaultExecAllocatorOptions[:], chromium.Options(t)),
		chromedp.UserDataDir(t.TempDir()), chromedp.WSURLReadTimeout(wait.Timeout), chromedp.Env("TMPDIR="+t.TempDir()))
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	do := func(what string, steps ...chromedp.Action[chromedp.Void]) {
		t.Helper()
		if err := chromedp.Do(ctx, steps...); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	until := func(what, expression string) {
		t.Helper()
		wait.For(t, what, func() error {
			is, err := chromedp.Run(ctx, chromedp.Evaluate[bool](expression))
			if err == nil && !is {
				err = errors.New("it is not so")
			}
			return err
		})
	}
	do("opening it", chromedp.Navigate(server.URL))
	const (
		state = `document.getElementById("terminal").dataset.state === `
		shown = `Array.from({ length: terminal.buffer.active.length }, (_, i) => terminal.buffer.active.getLine(i).translateToString(true)).join("\n")`
	)
	until("it is connected", state+`"connected"`)
	if _, err := chromedp.Run(ctx, chromedp.Evaluate[bool](`(window.first = socket, true)`)); err != nil {
		t.Fatal(err)
	}
	until("it is broken off", `(socket.close(4000, "as a server that restarts"), true)`)
	until("it is connected again", state+`"connected" && socket !== first && document.getElementById("notice").hidden`)
	enter := func(line string) { // as an input method does: of simulated keys the terminal takes both the key and its character
		t.Helper()
		if _, err := chromedp.Call(ctx, input.InsertText, input.InsertTextParams{Text: line}); err != nil {
			t.Fatal(err)
		}
		do("pressing Enter", chromedp.KeyEvent(kb.Enter))
	}
	enter("echo $((6*7))-done")
	answers := func() {
		t.Helper()
		wait.For(t, "it answers", func() error {
			said, err := chromedp.Run(ctx, chromedp.Evaluate[string](shown))
			if err == nil && !strings.Contains(said, "42-done") {
				err = errors.New(said)
			}
			return err
		})
	}
	answers()

	enter("exit")
	until("it stays ended", state+`"closed" && again === 0 && !document.getElementById("notice").hidden`)
	do("a key", chromedp.KeyEvent("x"))
	until("another one", state+`"connected"`)
}
