package site

import (
	"net/http"
	"strings"
)

// IsNavigation reports whether r opens a page or sends a form for a person, so that the person sees the answer.
// Browsers say so; for older ones the Accept header decides.
func IsNavigation(r *http.Request) bool {
	if mode := HeaderValue(r.Header, "Sec-Fetch-Mode"); mode != "" {
		return mode == "navigate"
	}
	return AcceptsHTML(r.Header)
}

// AcceptsHTML reports whether the client asks for HTML by name. Programs accept */*,
// which does not count. It does not allocate.
func AcceptsHTML(h http.Header) bool {
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
