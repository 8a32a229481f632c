// Package chromium has the settings with which tests start Debian's Chromium. It is the one that only runs without
// a window: the same pages take it little more than half of the processor time.
//
// A browser that learns of each address that comes or goes on its machine fails what it is loading
// (net::ERR_NETWORK_CHANGED). Beside other tests that start containers one comes or goes all the
// time. So this one may not ask the kernel about addresses. The package owns how: a program that
// imports it becomes the browser when it is started with the mark.
package chromium

import (
	"os"
	"testing"

	"github.com/chromedp/chromedp"
)

// path is not /usr/bin/chromium-headless-shell, a script that would stay the browser's parent.
const path = "/usr/lib/chromium/chromium-headless-shell"

// Options are those that every test gives the browser, besides chromedp's own. A test without a browser ends here.
// Nothing moves in it: without a graphics card, each picture of something that turns costs the processor of all tests.
func Options(t testing.TB) []chromedp.ExecAllocatorOption {
	t.Helper()
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v: install the browser (Debian's chromium-headless-shell), as `make test` does", err)
	}
	return append(unaware(), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("force-prefers-reduced-motion", true))
}
