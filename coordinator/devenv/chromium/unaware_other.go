//go:build !linux

package chromium

import "github.com/chromedp/chromedp"

// unaware returns the browser's usual options. On systems other than Linux, containers do not change the addresses of
// the machine that runs the tests.
func unaware() []chromedp.ExecAllocatorOption {
	return []chromedp.ExecAllocatorOption{chromedp.ExecPath(path)}
}
