package site

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// fuzzed is a site with an address of each kind.
var fuzzed = New(Options{Domain: "ws.example", MainHost: "main.example", PerHost: true})

// FuzzLocalPath asserts that a link back never leads to another host, in the way in which browsers interpret it.
func FuzzLocalPath(f *testing.F) {
	for _, s := range []string{"/", "/w/1/?a=b#c", "//evil.example", "/\\evil.example", "/\t/evil.example", "https:evil.example",
		"/%2f%2fevil.example", "/..//evil.example", "/.//evil.example", "javascript:alert(1)", "/a:b@c"} {
		f.Add(s)
	}
	base, err := url.Parse("https://main.example/login")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p := LocalPath(s)
		if again := LocalPath(p); again != p {
			t.Errorf("%q becomes %q, and that %q", s, p, again)
		}
		u, err := base.Parse(p)
		if err != nil || u.Scheme != "https" || u.Host != "main.example" || u.User != nil {
			t.Errorf("%q leads to %v, %v", p, u, err)
		}
		// Browsers take \ for / and drop invisible characters.
		if !strings.HasPrefix(p, "/") || strings.HasPrefix(p, "//") || strings.ContainsAny(p, "\\\t\r\n\x00 ") {
			t.Errorf("%q may lead elsewhere", p)
		}
	})
}

// FuzzWorkspaceHost asserts that only one host stands for a workspace: writing a parsed host gives the same
// host.
func FuzzWorkspaceHost(f *testing.F) {
	for _, host := range []string{"ws-0a1b2c3d.ws.example", "3000--ws-0a1b2c3d.ws.example", "name--ann.ws.example", "main.example",
		"WS-0A1B2C3D.WS.EXAMPLE.:443", "ws-0a1b2c3d.ws.example.evil.example", "xn--a.ws.example", "[::1]:80", "00--ws-0a1b2c3d.ws.example"} {
		f.Add(host)
	}
	f.Fuzz(func(t *testing.T, host string) {
		h, ok := fuzzed.WorkspaceHost(host)
		if !ok {
			if h != (WorkspaceHost{}) {
				t.Errorf("%q is no workspace's and has %+v", host, h)
			}
			return
		}
		name, _ := splitHost(host)
		if !strings.HasSuffix(strings.ToLower(name), ".ws.example") || h.ID != "" && h.Alias != "" || h.Port != 0 && h.ID == "" {
			t.Errorf("%q stands for %+v", host, h)
		}
		if h.ID == "" {
			return
		}
		a := fuzzed.Parse(&http.Request{Host: host, URL: &url.URL{Path: "/"}, Header: http.Header{}})
		u, err := url.Parse(a.PortOrigin(h.ID, h.Port))
		if err != nil || u.Hostname() != strings.ToLower(name) {
			t.Errorf("%q becomes %v, %v", host, u, err)
		}
	})
}

// FuzzCrossOrigin asserts that no page of another origin can make a browser send a request that is let
// through and may change something.
func FuzzCrossOrigin(f *testing.F) {
	for _, c := range [][2]string{{"https://main.example", "main.example"}, {"https://evil.example", "main.example"}, {"null", "main.example"},
		{"https://ws-0a1b2c3d.ws.example", "ws-0a1b2c3e.ws.example"}, {"http://main.example", "main.example:80"}, {"https://MAIN.example:443", "main.example"}} {
		f.Add(c[0], c[1], "", http.MethodPost)
		f.Add(c[0], c[1], "same-site", http.MethodPost)
	}
	f.Fuzz(func(t *testing.T, origin, host, fetchSite, method string) {
		r := &http.Request{Method: method, Host: host, URL: &url.URL{Path: "/"}, Header: http.Header{}}
		if origin != "" {
			r.Header.Set("Origin", origin)
		}
		if fetchSite != "" {
			r.Header.Set("Sec-Fetch-Site", fetchSite)
		}
		a := fuzzed.Parse(r)
		if a.CrossOrigin(r) || origin == "" || fetchSite == "same-origin" || fetchSite == "none" {
			return
		}
		if fetchSite != "" {
			t.Errorf("%s by a page of %q, which the browser calls %q, is let through to %q", method, origin, fetchSite, host)
		}
		u, err := url.Parse(origin)
		if err != nil || !strings.EqualFold(plainHost(u.Host), plainHost(host)) && !strings.EqualFold(plainHost(u.Host), "main.example") {
			t.Errorf("%s by a page of %q is let through to %q", method, origin, host)
		}
	})
}

// plainHost is a host without the port of its scheme.
func plainHost(host string) string {
	return strings.TrimSuffix(strings.TrimSuffix(host, ":443"), ":80")
}

// FuzzCookie asserts that a cookie of the product is found only by its whole name. If there are two cookies with this
// name, neither is used.
// On a workspace's own host the name is the application's.
func FuzzCookie(f *testing.F) {
	for _, line := range []string{"session=a", "a=b; session=c", "session=a; session=b", " session = x ;", "__Host-session=y", "session"} {
		f.Add(line)
	}
	a := fuzzed.Parse(&http.Request{Host: "main.example", URL: &url.URL{Path: "/"}, Header: http.Header{}})
	own := fuzzed.Parse(&http.Request{Host: "ws-0123abcd-0000-4000-8000-00000000000a.ws.example", URL: &url.URL{Path: "/"}, Header: http.Header{}})
	f.Fuzz(func(t *testing.T, line string) {
		h := http.Header{"Cookie": {line}}
		token, err := a.Token(h, SessionCookie)
		named := 0
		for part := range strings.SplitSeq(line, ";") {
			name, value, _ := strings.Cut(part, "=")
			if strings.TrimSpace(name) == SessionCookie && strings.TrimSpace(value) != "" {
				named++
			}
		}
		if (err != nil) != (named > 1) || (token != "") != (named == 1) {
			t.Errorf("%q: %q, %v, and %d cookies have the name", line, token, err, named)
		}
		if token, err := own.Token(h, SessionCookie); token != "" || err != nil {
			t.Errorf("%q on a workspace's own host: %q, %v", line, token, err)
		}
	})
}
