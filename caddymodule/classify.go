package codehub

import (
	"net/http"
	"strings"
)

// visitor is who is behind a request, as far as it decides what a workspace that
// does not run should do (SPEC 8).
type visitor int

const (
	// program is everything that is neither of the others: git, curl, an editor's
	// remote connection. It wakes, and is held meanwhile.
	program visitor = iota
	// navigation is a person who opens a page. It wakes, and shows a page meanwhile.
	navigation
	// tab is what an open page sends by itself. It never wakes: otherwise a forgotten
	// tab would keep its workspace up for ever.
	tab
)

// classify tells who is behind r.
func classify(r *http.Request) visitor {
	if mode := r.Header.Get("Sec-Fetch-Mode"); mode != "" {
		switch {
		case mode != "navigate" || speculative(r):
			return tab
		case r.Method == http.MethodGet:
			return navigation
		}
		return program // a form that a person has sent
	}
	if isWebSocket(r) {
		if r.Header.Get("Origin") != "" {
			return tab
		}
		return program
	}
	if r.Method == http.MethodGet && acceptsHTML(r.Header) {
		if speculative(r) {
			return tab
		}
		return navigation
	}
	return program
}

// speculative reports whether a browser only fetches a page that somebody may
// open later. Nobody has asked for it yet.
func speculative(r *http.Request) bool {
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

// isWebSocket reports whether r opens a WebSocket, over any version of HTTP.
func isWebSocket(r *http.Request) bool {
	return isExtendedConnect(r) || strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
}

// isExtendedConnect reports whether r opens a WebSocket over HTTP/2 or HTTP/3
// (RFC 8441, RFC 9220). The servers put the protocol in different places.
func isExtendedConnect(r *http.Request) bool {
	return r.Method == http.MethodConnect &&
		(r.ProtoMajor == 2 && r.Header.Get(":protocol") == "websocket" ||
			r.ProtoMajor == 3 && r.Proto == "websocket")
}
