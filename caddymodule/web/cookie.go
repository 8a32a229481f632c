package web

import (
	"net/http"
	"strings"
)

// The product's own cookies. The first two are never sent on to a workspace or set by
// one.
const (
	// SessionCookie carries the session on the main site.
	SessionCookie = "session"
	// WorkspaceCookie carries the session on a workspace's own host.
	WorkspaceCookie = "codehub_ws"
	// languageCookie carries the language that the user has chosen.
	languageCookie = "codehub_lang"
)

// Cookie returns the value of the first non-empty cookie of that name, else "".
// Unlike [http.Request.Cookie] it neither parses the other cookies nor allocates.
func Cookie(h http.Header, name string) string {
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

// SetSession gives the browser a session cookie that is bound to the host of the
// request, so that other hosts never get it. maxAge is in seconds; with 0 the cookie
// ends with the browser. An empty token deletes it.
func (s *Site) SetSession(w http.ResponseWriter, r *http.Request, name, token string, maxAge int) {
	if token == "" {
		maxAge = -1
	}
	http.SetCookie(w, &http.Cookie{
		Name: name, Value: token, Path: "/", MaxAge: maxAge,
		HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: s.Scheme(r) == "https",
	})
}
