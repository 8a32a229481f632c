package decision

import (
	"net/http"
	"strings"

	"github.com/codehub/gateway/caddymodule/internal/site"
)

// ClientKind is the kind of client that sends a request: a column of the decision
// table (SPEC 8). It decides whether a request wakes a workspace, and whether the
// answer is a page or a problem.
type ClientKind uint8

const (
	// Program is every other client: git, curl, the remote connection of an editor. It wakes the workspace and is held
	// until the workspace is ready.
	Program ClientKind = iota
	// Navigation is a person who opens a page. It wakes the workspace and gets a page
	// that shows the progress.
	Navigation
	// SelfNavigation is a page of the workspace that loads itself or another of its pages
	// without a person: a meta refresh, location.reload(). As a [Subresource] it never wakes
	// the workspace, and as a [Navigation] it gets a page.
	SelfNavigation
	// Subresource is a request of an open page: a script, an image, a poll, a WebSocket.
	// It never wakes a workspace: a forgotten browser tab would keep it running forever.
	Subresource
)

// IsPage reports whether a person sees the answer as a page.
func (k ClientKind) IsPage() bool { return k == Navigation || k == SelfNavigation }

// Classify returns the kind of client that sends r. The pages of the workspace are below prefix, which is empty on a
// host of its own. It does not allocate.
//
// Browsers describe their requests with Sec-Fetch-Mode. Older browsers do not, and programs never do. For requests
// without it, the Origin of a WebSocket and the Accept header decide.
func Classify(r *http.Request, prefix string) ClientKind {
	if mode := site.HeaderValue(r.Header, "Sec-Fetch-Mode"); mode != "" {
		switch isGet := r.Method == http.MethodGet; {
		case mode != "navigate" || isPrefetch(r):
			return Subresource
		case isGet && isByItself(r, prefix):
			return SelfNavigation
		case isGet:
			return Navigation
		case isByItself(r, prefix):
			return Subresource
		}
		// A person has sent a form. The request is held, because a page shown instead of the answer would lose the
		// form's contents.
		return Program
	}
	if site.IsWebSocket(r) {
		if site.HeaderValue(r.Header, "Origin") != "" {
			return Subresource
		}
		return Program
	}
	if r.Method == http.MethodGet && site.AcceptsHTML(r.Header) {
		if isPrefetch(r) {
			return Subresource
		}
		return Navigation
	}
	return Program
}

// isByItself reports whether a page of the workspace navigates without a person (SPEC 8). A click, the reload button
// and a sent form have Sec-Fetch-User; a typed address and a restored tab have no origin. Safari never sends
// Sec-Fetch-User. With Safari, a click in a page of a sleeping workspace only leads to the page with the button that
// wakes the workspace. There the person has to click once more.
//
// Below the main site's paths, the dashboard and the pages of the workspace have one origin.
// There the Referer tells them apart. A page that hides its Referer counts as a page of the workspace.
//
// A service worker that repeats a navigation hides Sec-Fetch-User, and reports same-origin even for a
// typed address. Such a navigation is recognized by a Sec-Fetch-Dest of "empty". Without a Referer its address counts
// as typed, although a page that hides its address may have sent it.
func isByItself(r *http.Request, prefix string) bool {
	if site.HeaderValue(r.Header, "Sec-Fetch-Site") != "same-origin" || site.HeaderValue(r.Header, "Sec-Fetch-User") == "?1" {
		return false
	}
	referer := site.HeaderValue(r.Header, "Referer")
	if referer == "" {
		return site.HeaderValue(r.Header, "Sec-Fetch-Dest") != "empty"
	}
	if prefix == "" {
		return true
	}
	_, rest, _ := strings.Cut(referer, "://")
	_, path, _ := strings.Cut(rest, "/")
	own, isBelow := strings.CutPrefix(path, prefix[1:])
	return isBelow && (own == "" || strings.ContainsAny(own[:1], "/?"))
}

// isPrefetch reports whether a browser fetches a page ahead of time, before a person
// has opened it.
func isPrefetch(r *http.Request) bool {
	return strings.HasPrefix(site.HeaderValue(r.Header, "Sec-Purpose"), "prefetch") || site.HeaderValue(r.Header, "Purpose") == "prefetch"
}
