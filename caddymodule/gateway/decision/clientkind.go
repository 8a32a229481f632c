package decision

import (
	"net/http"
	"strings"

	"github.com/codehub/gateway/caddymodule/web"
)

// ClientKind is the kind of client that sends a request: a column of the decision
// table (SPEC 8). It decides whether a request wakes a workspace, and whether the
// answer is a page or a problem.
type ClientKind uint8

const (
	// Program is every client that is neither of the others: git, curl, the remote
	// connection of an editor. It wakes the workspace and is held until that is ready.
	Program ClientKind = iota
	// Navigation is a person who opens a page. It wakes the workspace and gets a page
	// that shows the progress.
	Navigation
	// Subresource is a request of an open page: a script, an image, a poll, a WebSocket.
	// It never wakes a workspace: a forgotten browser tab would keep it running forever.
	Subresource
)

// Classify returns the kind of client that sends r. It does not allocate.
//
// Browsers describe their requests with Sec-Fetch-Mode. Older ones do not, and
// programs never do; for those the Origin of a WebSocket and the Accept header decide.
func Classify(r *http.Request) ClientKind {
	if mode := r.Header.Get("Sec-Fetch-Mode"); mode != "" {
		switch {
		case mode != "navigate" || isPrefetch(r):
			return Subresource
		case r.Method == http.MethodGet:
			return Navigation
		}
		// A form that a person has sent. It is held: a page in its place would lose it.
		return Program
	}
	if web.IsWebSocket(r) {
		if r.Header.Get("Origin") != "" {
			return Subresource
		}
		return Program
	}
	if r.Method == http.MethodGet && web.AcceptsHTML(r.Header) {
		if isPrefetch(r) {
			return Subresource
		}
		return Navigation
	}
	return Program
}

// isPrefetch reports whether a browser fetches a page ahead of time, before a person
// has opened it.
func isPrefetch(r *http.Request) bool {
	return strings.HasPrefix(r.Header.Get("Sec-Purpose"), "prefetch") || r.Header.Get("Purpose") == "prefetch"
}
