package site

import (
	"errors"
	"net/http"
	"strings"
)

// The product's own cookies, by their plain names. They are never passed on to a workspace or set by one, see
// [IsOwnCookie]. Under TLS all but the language have the prefix __Host-. Browsers accept such a cookie only
// from the host itself, never from a sibling or a parent.
const (
	// SessionCookie carries the session on the main site. On a workspace's own host the name is the application's: Flask,
	// Starlette and others use it.
	SessionCookie = "session"
	// WorkspaceCookie carries the session on a workspace's own host.
	WorkspaceCookie = "codehub_ws"
	// BrowserCookie carries, on a workspace's own host, the secret of the browser to which
	// tickets are bound.
	BrowserCookie = "codehub_browser"
	// SignInCookie carries, on the main site, the state of a sign-in through an identity provider.
	SignInCookie = "codehub_oidc"
	// LanguageCookie carries the language that the user has chosen.
	LanguageCookie = "codehub_lang"
)

// ownPrefix is the beginning of the names of all the product's cookies except the session's.
const ownPrefix = "codehub_"

// ErrTwoCookies means that a request carries one of the product's cookies twice. A page of a sibling host has planted
// one of them, and it is unknown which.
var ErrTwoCookies = errors.New("two cookies have the name of the session's")

// hostOnly is the prefix with which browsers bind a cookie to its host.
const hostOnly = "__Host-"

// hostOnlyName returns the name under TLS. It does not allocate.
func hostOnlyName(name string) string {
	switch name {
	case SessionCookie:
		return hostOnly + SessionCookie
	case WorkspaceCookie:
		return hostOnly + WorkspaceCookie
	case BrowserCookie:
		return hostOnly + BrowserCookie
	case SignInCookie:
		return hostOnly + SignInCookie
	}
	return name
}

// IsOwnCookie reports whether one of the product's cookies has this name, with any prefix. On a workspace's own host
// these are the names that begin with codehub_, and no others. Browsers distinguish names by case, but other programs
// may not.
func IsOwnCookie(name string, ownHost bool) bool {
	for _, prefix := range [...]string{hostOnly, "__Secure-"} {
		if len(name) > len(prefix) && strings.EqualFold(name[:len(prefix)], prefix) {
			name = name[len(prefix):]
			break
		}
	}
	return strings.HasPrefix(name, ownPrefix) || name == SessionCookie && !ownHost
}

// CookieName returns the full name of one of the product's cookies in the request and in its answer.
func (a *Address) CookieName(name string) string {
	if a.https {
		return hostOnlyName(name)
	}
	return name
}

// Token returns the value of one of the product's cookies in the header of the request, "" if it is missing. It returns
// [ErrTwoCookies] if there are several, because none can be trusted. A workspace's own host has no session of the main
// site. It does not allocate.
func (a *Address) Token(h http.Header, name string) (string, error) {
	if name == SessionCookie && a.OwnHost {
		return "", nil
	}
	token, n := cookie(h, a.CookieName(name))
	if n > 1 {
		return "", ErrTwoCookies
	}
	return token, nil
}

// Cookie returns the value of the first non-empty cookie of that name, else "".
// Unlike [http.Request.Cookie] it neither parses the other cookies nor allocates.
func Cookie(h http.Header, name string) string {
	value, _ := cookie(h, name)
	return value
}

// cookie returns the first non-empty cookie of that name, and how many there are.
func cookie(h http.Header, name string) (first string, n int) {
	for _, line := range h["Cookie"] {
		for len(line) > 0 {
			var part string
			part, line, _ = strings.Cut(line, ";")
			key, value, _ := strings.Cut(part, "=")
			if value = strings.TrimSpace(value); value == "" || strings.TrimSpace(key) != name {
				continue
			}
			if n++; n == 1 {
				first = value
			}
		}
	}
	return first, n
}

// SetSession gives the browser one of the product's cookies. The cookie is bound to the host of the request, so that
// other hosts never get it. The age maxAge is in seconds; with 0 the cookie ends with the browser. An empty token
// deletes it.
func (a *Address) SetSession(w http.ResponseWriter, name, token string, maxAge int) {
	if token == "" {
		maxAge = -1
	}
	http.SetCookie(w, &http.Cookie{
		Name: a.CookieName(name), Value: token, Path: "/", MaxAge: maxAge,
		HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: a.https,
	})
}
