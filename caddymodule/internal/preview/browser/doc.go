// Package browser loads the preview's pages in a real browser, to test what their scripts show.
//
// It contains tests only. It is separate from package preview, whose own tests need no browser.
package browser
