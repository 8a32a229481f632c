package site

import (
	"net"
	"net/http"
	"strconv"
	"strings"
)

// A page of a workspace can plant cookies for the host that it is served from. With the attribute Domain it can plant
// them for its siblings and parents, too. Such cookies may have the name of the session's cookie. They may also be so
// large that servers refuse every request that carries them (431). Here they are deleted. A browser deletes a cookie
// only if the answer names its exact domain and path. The browser reveals neither, so the answer names all possible
// ones.

const (
	// cookieRoom is how many bytes of a request's headers may be cookies that are not ours. Applications, such as those
	// on Node.js, refuse headers of 16 KiB.
	cookieRoom = 8 << 10
	// maxExpired bounds how many names one answer deletes, and deepestPath how many
	// levels of the path are tried.
	maxExpired, deepestPath = 50, 6
	// expiryRoom bounds the bytes that an answer may spend on deleting cookies. A page can choose long names, and
	// browsers refuse an answer whose headers are larger than 256 KiB.
	expiryRoom = 96 << 10
	// clearedCookie counts how many times in a row the browser has just been asked to delete cookies.
	clearedCookie = "codehub_cleared"
	// maxRounds bounds this count, because browsers follow only 20 redirects.
	maxRounds = 9
)

// ExpireCopies deletes all cookies with this name in the request except the one that the product has set. The others
// differ from it, because they were set for a domain or for only some paths.
func (a *Address) ExpireCopies(w http.ResponseWriter, r *http.Request, name string) {
	name = a.CookieName(name)
	for _, path := range pathsOf(r) {
		if path != "/" {
			a.expire(w, name, path, "")
		}
		for domain := range domainsOf(a.name) {
			a.expire(w, name, path, domain)
		}
	}
}

// ClearPlanted deletes cookies that are not ours when there are so many that requests may be
// refused for them. It reports whether it did and the browser should ask again. It keeps the cookies that the
// application at prefix (the path of a workspace, or "") may have set for itself. Such cookies have no domain, and on
// the main site they have a path below the prefix. On the main site's own pages (prefix "/"), which have no
// application, it keeps none.
func (a *Address) ClearPlanted(w http.ResponseWriter, r *http.Request, prefix string) (again bool) {
	if size(r.Header) <= cookieRoom {
		return false
	}
	names := make(map[string]bool)
	for _, line := range r.Header["Cookie"] {
		for part := range strings.SplitSeq(line, ";") {
			name, _, _ := strings.Cut(part, "=")
			if name = strings.TrimSpace(name); !a.isKept(name) && len(names) < maxExpired {
				names[name] = true
			}
		}
	}
	room := expiryRoom
	for _, path := range pathsOf(r) {
		for name := range names {
			if prefix != "" && !strings.HasPrefix(path, prefix) || prefix == "/" {
				room -= a.expire(w, name, path, "")
			}
			for domain := range domainsOf(a.name) {
				room -= a.expire(w, name, path, domain)
			}
			if room <= 0 {
				break
			}
		}
		if room <= 0 {
			break
		}
	}
	rounds, _ := strconv.Atoi(Cookie(r.Header, clearedCookie))
	if rounds > 0 && (room > 0 || rounds >= maxRounds) {
		return false // it has already asked again, and the cookies fit now
	}
	http.SetCookie(w, &http.Cookie{
		Name: clearedCookie, Value: strconv.Itoa(max(rounds, 0) + 1),
		Path: "/", MaxAge: 10, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	})
	return true
}

// isKept reports whether the product itself sets the cookie. Another one with a similar name is
// planted.
func (a *Address) isKept(name string) bool {
	switch strings.TrimPrefix(name, hostOnly) {
	case WorkspaceCookie, BrowserCookie, SignInCookie, LanguageCookie, clearedCookie:
		return true
	case SessionCookie:
		return !a.OwnHost
	}
	return false
}

// size is the number of bytes of all cookies.
func size(h http.Header) (n int) {
	for _, line := range h["Cookie"] {
		n += len(line)
	}
	return n
}

// expire deletes one cookie and returns how many bytes that takes. It does not use package http to write the header
// line: a page has chosen the cookie's name, and package http may not accept it.
func (a *Address) expire(w http.ResponseWriter, name, path, domain string) int {
	line := name + "=; Max-Age=0; Path=" + path
	if domain != "" {
		line += "; Domain=" + domain
	}
	if a.https {
		line += "; Secure"
	}
	w.Header().Add("Set-Cookie", line)
	return len("Set-Cookie: \r\n") + len(line)
}

// pathsOf returns the paths for which a cookie in r may have been set.
func pathsOf(r *http.Request) []string {
	paths := []string{"/"}
	path := r.URL.EscapedPath()
	if strings.ContainsAny(path, "; ,") {
		return paths
	}
	for i := 1; i < len(path) && len(paths) < 2*deepestPath; i++ {
		if path[i] == '/' {
			paths = append(paths, path[:i], path[:i+1])
		}
	}
	if !strings.HasSuffix(path, "/") {
		paths = append(paths, path)
	}
	return paths
}

// domainsOf yields the domains for which a cookie may have been set if a browser sends it to this host. These are the
// host's own name and the names of its parents. The host has no port.
func domainsOf(host string) func(yield func(string) bool) {
	host = strings.ToLower(host)
	return func(yield func(string) bool) {
		if net.ParseIP(host) != nil {
			return
		}
		for name := host; name != ""; {
			parent, rest, more := strings.Cut(name, ".")
			// A name with only one label is a public suffix. Browsers accept a cookie for it only if it is the name of
			// the host itself.
			if !more && parent != host && parent != DefaultDomain || !yield(name) {
				return
			}
			name = rest
		}
	}
}
