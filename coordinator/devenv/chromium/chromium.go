// Package chromium has the settings with which tests start Debian's Chromium. They use the build without a window,
// which needs little more than half of the processor time for the same pages.
//
// A browser that hears of an address change on its machine aborts the requests in flight (net::ERR_NETWORK_CHANGED),
// and addresses change all the time while other tests start containers. So this browser may not ask the kernel about
// addresses. The package ensures this as follows: tests start their own program again, with a mark in its environment.
// The package then removes the right to ask, and turns the program into the browser.
package chromium

import (
	"os"
	"testing"

	"github.com/chromedp/chromedp"
)

// path is the browser itself, and not /usr/bin/chromium-headless-shell: that is a script, which would remain the
// browser's parent process.
const path = "/usr/lib/chromium/chromium-headless-shell"

// Options returns the options that every test gives the browser, in addition to chromedp's own. They fail the test if
// there is no browser. They turn animations off: without a graphics card, each frame costs processor time that the
// other tests need.
func Options(t testing.TB) []chromedp.ExecAllocatorOption {
	t.Helper()
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v: install the browser (Debian's chromium-headless-shell), as `make test` does", err)
	}
	return append(unaware(), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("force-prefers-reduced-motion", true))
}
