package gateway

import (
	"net/http"
	"strings"

	"github.com/codehub/gateway/caddymodule/web"
)

// ClientKind is what kind of client sends a request, as far as it decides what
// becomes of a workspace that does not run: a column of the decision table (SPEC 8).
type ClientKind uint8

const (
	// Program is everything that is neither of the others: git, curl, the remote
	// connection of an editor. It wakes the workspace, and is held meanwhile.
	Program ClientKind = iota
	// Navigation is a person who opens a page. It wakes the workspace, and shows a page
	// meanwhile.
	Navigation
	// Subresource is what an open page sends by itself. It never wakes a workspace:
	// otherwise a forgotten browser tab would keep it running for ever.
	Subresource
)

// Classify returns the kind of client that sends r.
func Classify(r *http.Request) ClientKind {
	if mode := r.Header.Get("Sec-Fetch-Mode"); mode != "" {
		switch {
		case mode != "navigate" || isPrefetch(r):
			return Subresource
		case r.Method == http.MethodGet:
			return Navigation
		}
		return Program // a form that a person has sent
	}
	if web.IsWebSocket(r) {
		if r.Header.Get("Origin") != "" {
			return Subresource
		}
		return Program
	}
	if r.Method == http.MethodGet && acceptsHTML(r.Header) {
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

func acceptsHTML(h http.Header) bool {
	for _, accept := range h["Accept"] {
		for len(accept) > 0 {
			var part string
			part, accept, _ = strings.Cut(accept, ",")
			part, _, _ = strings.Cut(part, ";")
			if strings.EqualFold(strings.TrimSpace(part), "text/html") {
				return true
			}
		}
	}
	return false
}
