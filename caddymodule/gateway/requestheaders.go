package gateway

import (
	"net/http"
	"strings"

	"github.com/codehub/gateway/caddymodule/web"
)

// isOwnCookie reports whether a cookie belongs to the gateway.
func isOwnCookie(part string) bool {
	name, _, _ := strings.Cut(part, "=")
	name = strings.TrimSpace(name)
	return name == web.SessionCookie || name == web.WorkspaceCookie
}

// cleanRequestHeaders removes what a workspace must not see or must not believe: the
// gateway's cookies, headers in which proxies state who the user is, and, if
// authorization is set, the Authorization header. Other cookies stay byte for byte the
// same. It does not allocate when there is nothing to remove.
func cleanRequestHeaders(h http.Header, authorization bool) {
	if lines, ok := h["Cookie"]; ok {
		cleanCookies(h, lines)
	}
	for name := range h {
		if isClaim(name) {
			delete(h, name)
		}
	}
	if authorization {
		delete(h, "Authorization")
	}
}

// cleanCookies removes the gateway's cookies from the Cookie lines. Lines without one
// stay untouched.
func cleanCookies(h http.Header, lines []string) {
	found := false
	for _, line := range lines {
		found = found || hasOwnCookie(line)
	}
	if !found {
		return
	}
	kept := lines[:0]
	for _, line := range lines {
		if line = withoutOwnCookies(line); line != "" {
			kept = append(kept, line)
		}
	}
	if len(kept) == 0 {
		delete(h, "Cookie")
		return
	}
	h["Cookie"] = kept
}

// hasOwnCookie reports whether a Cookie line carries one of the gateway's cookies.
func hasOwnCookie(line string) bool {
	for len(line) > 0 {
		var part string
		part, line, _ = strings.Cut(line, ";")
		if isOwnCookie(part) {
			return true
		}
	}
	return false
}

// withoutOwnCookies returns a Cookie line without the gateway's cookies; empty if
// nothing else was in it.
func withoutOwnCookies(line string) string {
	if !hasOwnCookie(line) {
		return line
	}
	var kept []string
	for part := range strings.SplitSeq(line, ";") {
		if !isOwnCookie(part) {
			kept = append(kept, part)
		}
	}
	return strings.TrimLeft(strings.Join(kept, ";"), " \t")
}

// Headers that applications trust because normally only a proxy sets them: complete
// names, and prefixes of names. All begin with F, R or X; isClaim relies on that.
var (
	claims        = []string{"Forwarded", "X-Forwarded-Prefix", "X-Forwarded-Groups"}
	claimPrefixes = []string{"X-Codehub-", "Remote-", "X-Remote-", "X-Forwarded-User", "X-Forwarded-Email", "X-Forwarded-Preferred-", "X-Auth-Request-"}
)

// isClaim reports whether a header makes a claim that only a proxy may make.
// Underscores count as hyphens, because many servers do not distinguish them.
func isClaim(name string) bool {
	if name == "" {
		return false
	}
	switch name[0] | 0x20 {
	case 'f', 'r', 'x':
	default:
		return false
	}
	for _, claim := range claims {
		if sameHeader(name, claim) {
			return true
		}
	}
	for _, prefix := range claimPrefixes {
		if len(name) >= len(prefix) && sameHeader(name[:len(prefix)], prefix) {
			return true
		}
	}
	return false
}

// sameHeader compares two names without regard to case, with _ equal to -.
func sameHeader(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		x, y := a[i], b[i]
		if x == '_' {
			x = '-'
		}
		if x|0x20 != y|0x20 {
			return false
		}
	}
	return true
}
