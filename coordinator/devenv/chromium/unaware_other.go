//go:build !linux

package chromium

import "github.com/chromedp/chromedp"

// unaware are the browser's usual settings: only on Linux do containers change the addresses of the machine that runs
// the tests.
func unaware() []chromedp.ExecAllocatorOption {
	return []chromedp.ExecAllocatorOption{chromedp.ExecPath(path)}
}
