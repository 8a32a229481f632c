package e2e

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/codehub/gateway/coordinator/wait"
)

// TestPresence: an open tab's own requests do not keep its workspace awake, and a person's input in it does. The tab
// reports that the workspace sleeps, and wakes it when a person presses a key. If the workspace is woken in another
// way, the tab comes back by itself (SPEC 6, 8).
func TestPresence(t *testing.T) {
	t.Parallel()
	in := install(t, "TTL_STANDBY_SECONDS=12")
	me := in.admin(t)
	w := me.create(t, "tab")
	b := openTab(t)
	b.do("opening it", chromedp.Navigate(in.url("/")))
	b.signIn("admin", in.password)
	b.do("the list is shown", chromedp.WaitVisible(chromedp.CSS(`[data-workspace]`)))
	connected := func() {
		t.Helper()
		b.do("the terminal is connected", chromedp.WaitVisible(chromedp.CSS(`#terminal[data-state=connected]`)))
	}
	asleep := func() {
		t.Helper()
		me.awaitPhase(t, w.ID, "STANDBY")
		wait.For(t, "the tab says so", func() error {
			said := read(b, "what the tab says", chromedp.Evaluate[string](`document.querySelector("codehub-notice")?.shadowRoot.textContent || ""`))
			if !strings.Contains(said, "Asleep since ") {
				return errors.New(said)
			}
			return nil
		})
		// The page has noticed that the terminal's connection is gone: the next connection is new.
		b.do("the terminal is not connected", chromedp.WaitVisible(chromedp.CSS(`#terminal[data-state=closed]`)))
	}
	b.do("opening it", chromedp.Navigate(byPath.base(in, w.ID)))
	connected()

	// Typing keeps the workspace awake for longer than the TTL, although the terminal runs nothing.
	b.do("focusing the terminal", chromedp.Focus(chromedp.CSS(`.xterm-helper-textarea`)))
	for start := time.Now(); time.Since(start) < 20*time.Second; {
		b.do("typing", chromedp.KeyEvent(" "), chromedp.Sleep(time.Second))
		if got := me.workspace(t, w.ID); got.DesiredState != "RUNNING" {
			t.Fatalf("it is put to sleep while a person types: %+v", got)
		}
	}

	// The page's own messages do not.
	read(b, "making it talk", chromedp.Evaluate[bool](`setInterval(sendSize, 200) > 0`))
	asleep()
	b.documents()
	b.do("pressing a key", chromedp.KeyEvent("w"))
	connected()
	if s := b.documents(); len(s) != 1 || s[0] != 200 {
		t.Errorf("the tab has loaded documents with the statuses %v, want the workspace alone", s)
	}

	// If the workspace is woken elsewhere, the tab comes back, too.
	asleep()
	me.setDesiredState(t, w.ID, "RUNNING")
	connected()
}
