package site

import (
	"net/http"
	"strings"
)

// Bearer reports whether the request carries Bearer credentials that begin with prefix, and returns them. They are ""
// if the request also carries other credentials, because it is unknown which of them count. Without the header this
// costs one look-up.
func Bearer(h http.Header, prefix string) (credentials string, ok bool) {
	lines := h["Authorization"]
	if len(lines) == 0 {
		return "", false
	}
	parts := 0
	for _, line := range lines {
		for part := range strings.SplitSeq(line, ",") { // a proxy may have joined two headers
			parts++
			if scheme, rest := splitCredentials(part); strings.EqualFold(scheme, "Bearer") && strings.HasPrefix(rest, prefix) {
				credentials, ok = rest, true
			}
		}
	}
	if parts > 1 {
		credentials = ""
	}
	return credentials, ok
}

// splitCredentials splits one value of Authorization into its scheme and the rest. Some servers take a tab for the space between them.
func splitCredentials(text string) (scheme, rest string) {
	text = strings.TrimSpace(text)
	if at := strings.IndexAny(text, " \t"); at >= 0 {
		return text[:at], strings.TrimSpace(text[at:])
	}
	return text, ""
}
