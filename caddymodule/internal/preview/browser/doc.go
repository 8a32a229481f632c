// Package browser loads the preview's pages in a real browser, to see what their scripts write.
//
// It holds tests only. It stands beside package preview, whose own tests need no browser.
package browser
