//go:build !linux

package chromium

import "github.com/chromedp/chromedp"

// unaware are the settings of the browser as it is: only on Linux, containers change the
// addresses of the machine of the tests.
func unaware() []chromedp.ExecAllocatorOption {
	return []chromedp.ExecAllocatorOption{chromedp.ExecPath(path)}
}
