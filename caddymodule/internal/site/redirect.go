package site

import (
	"net/http"
	"net/url"
	"strings"
)

// Redirect sends the client to another address. The response is not cached, because the address
// depends on the signed-in user.
func Redirect(w http.ResponseWriter, to string, status int) {
	h := w.Header()
	h.Set("Location", to)
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	w.WriteHeader(status)
}

// LoginPath returns the address of the login page on the same host. After the sign-in
// it leads back to the address of r.
func LoginPath(r *http.Request) string {
	return "/login?return=" + url.QueryEscape(r.URL.RequestURI())
}

// Here returns the path and query of r, with which a page can link to itself. Browsers would interpret some paths, such
// as //example.com, as another host: for those it returns the start page.
func Here(r *http.Request) string { return LocalPath(r.URL.RequestURI()) }

// LocalPath returns s if it is a path of the same host, else "/". A path that browsers would take for another host or
// for a scheme does not count as one.
func LocalPath(s string) string {
	if len(s) == 0 || s[0] != '/' || len(s) > 1 && s[1] == '/' || strings.ContainsRune(s, '\\') {
		return "/"
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] == 0x7f {
			return "/"
		}
	}
	if u, err := url.Parse(s); err != nil || u.Host != "" || u.Scheme != "" {
		return "/"
	}
	return s
}
