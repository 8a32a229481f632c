package codehub

import (
	"net/http"
	"strings"
)

// workspaceCookie is the session on a workspace's own host.
const workspaceCookie = "codehub_ws"

// cookieValue returns the first non-empty cookie of that name. Unlike
// [http.Request.Cookie] it does not parse the others, nor allocate.
func cookieValue(h http.Header, name string) string {
	for _, line := range h["Cookie"] {
		for len(line) > 0 {
			var part string
			part, line, _ = strings.Cut(line, ";")
			n, value, _ := strings.Cut(part, "=")
			if value = strings.TrimSpace(value); value != "" && strings.TrimSpace(n) == name {
				return value
			}
		}
	}
	return ""
}

// ownCookie reports whether a cookie belongs to the gateway.
func ownCookie(part string) bool {
	name, _, _ := strings.Cut(part, "=")
	name = strings.TrimSpace(name)
	return name == sessionCookie || name == workspaceCookie
}

// cleanHeaders removes what a workspace must not see, or must not believe: our
// cookies, and headers by which proxies tell who somebody is. Other cookies stay
// as they are, byte for byte.
func cleanHeaders(h http.Header, authorization bool) {
	if lines, ok := h["Cookie"]; ok {
		cleanCookies(h, lines)
	}
	for name := range h {
		if identityHeader(name) {
			delete(h, name)
		}
	}
	if authorization {
		delete(h, "Authorization")
	}
}

func cleanCookies(h http.Header, lines []string) {
	found := false
	for _, line := range lines {
		found = found || hasOwnCookie(line)
	}
	if !found {
		return
	}
	kept := make([]string, 0, len(lines))
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

func hasOwnCookie(line string) bool {
	for len(line) > 0 {
		var part string
		part, line, _ = strings.Cut(line, ";")
		if ownCookie(part) {
			return true
		}
	}
	return false
}

func withoutOwnCookies(line string) string {
	if !hasOwnCookie(line) {
		return line
	}
	var kept []string
	for part := range strings.SplitSeq(line, ";") {
		if !ownCookie(part) {
			kept = append(kept, part)
		}
	}
	return strings.TrimLeft(strings.Join(kept, ";"), " \t")
}

// identityHeader reports whether a header claims something that only a proxy may
// say. Underscores count as hyphens: many servers take them for the same.
func identityHeader(name string) bool {
	switch len(name) {
	case len("Forwarded"):
		return strings.EqualFold(name, "Forwarded")
	case len("X-Forwarded-Prefix"): // as long as X-Forwarded-Groups
		if sameHeader(name, "X-Forwarded-Prefix") || sameHeader(name, "X-Forwarded-Groups") {
			return true
		}
	}
	for _, prefix := range [...]string{"X-Codehub-", "Remote-", "X-Remote-", "X-Forwarded-User", "X-Forwarded-Email", "X-Forwarded-Preferred-", "X-Auth-Request-"} {
		if len(name) >= len(prefix) && sameHeader(name[:len(prefix)], prefix) {
			return true
		}
	}
	return false
}

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
