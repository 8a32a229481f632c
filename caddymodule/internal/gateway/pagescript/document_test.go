package pagescript

import (
	"net/http"
	"strings"
	"testing"
)

// header builds a header from lines like "Name: value", joined by |.
func header(lines string) http.Header {
	h := make(http.Header)
	for line := range strings.SplitSeq(lines, "|") {
		if name, value, ok := strings.Cut(line, ": "); ok {
			h.Add(name, value)
		}
	}
	return h
}

func TestWanted(t *testing.T) {
	for _, c := range []struct {
		method, lines string
		want          bool
	}{
		{"GET", "Sec-Fetch-Dest: document", true},
		{"GET", "Accept: text/html", true}, // a browser that does not tell the purpose
		{"HEAD", "Sec-Fetch-Dest: document", false},
		{"GET", "Sec-Fetch-Dest: document|Range: bytes=0-", false},
		{"GET", "Sec-Fetch-Dest: iframe|Sec-Fetch-Site: same-origin", false},
		{"GET", "Sec-Fetch-Dest: iframe|Sec-Fetch-Site: same-site", true},
		{"GET", "Sec-Fetch-Dest: frame|Sec-Fetch-Site: cross-site", true},
		{"GET", "Sec-Fetch-Dest: object", false},
		{"GET", "Sec-Fetch-Dest: serviceworker", false},
		{"GET", "Service-Worker: script", false},
		{"POST", "Sec-Fetch-Dest: document", true},
		{"POST", "Accept: text/html|Upgrade-Insecure-Requests: 1", true},
		{"POST", "Accept: text/html", false},
		{"PUT", "Sec-Fetch-Dest: document", false},
		{"GET", "Sec-Fetch-Dest: empty|Sec-Fetch-Mode: navigate", true}, // repeated by a service worker
		{"GET", "Sec-Fetch-Dest: empty|Sec-Fetch-Mode: same-origin|Accept: text/html|Upgrade-Insecure-Requests: 1", true},
		{"GET", "Sec-Fetch-Dest: empty|Sec-Fetch-Mode: cors|Accept: text/html", false},
		{"GET", "Sec-Fetch-Dest: document|Sec-Purpose: prefetch;prerender", true},
		{"GET", "Accept: text/html|Upgrade: websocket", false},
	} {
		if got := Wanted(&http.Request{Method: c.method, Header: header(c.lines)}); got != c.want {
			t.Errorf("%s %s: %v", c.method, c.lines, got)
		}
	}
}

func TestJudge(t *testing.T) {
	const page = "Content-Type: text/html; charset=utf-8|"
	for _, c := range []struct {
		status  int
		headers string
		want    Verdict
	}{
		{200, page, Carries}, {201, page, Carries}, {200, "Content-Type: TEXT/HTML", Carries}, {200, page + "Content-Length: 10", Carries},
		{200, page + "Content-Disposition: inline; filename=a.html", Carries}, {200, page + "Content-Encoding: identity", Carries},
		{200, "Content-Type: text/html; charset=euc-kr", Carries},
		{204, page, Other}, {205, page, Other}, {206, page, Other}, {304, page, Other}, {302, page, Other}, {404, page, Carries}, {500, page, Carries}, {700, page, Carries}, {101, page, Other},
		{200, page + "Content-Length: 0", Other}, {200, page + "Content-Disposition: attachment", Other}, {200, page + "Content-Disposition: x", Other},
		{200, "", Other}, {200, "Content-Type: application/xhtml+xml; charset=utf-8", Forbidden}, {404, "Content-Type: Application/XHTML+XML", Forbidden},
		{200, "Content-Type: image/svg+xml", Forbidden}, {200, "Content-Type: text/xml", Forbidden}, {200, "Content-Type: application/xml", Forbidden},
		{200, "Content-Type: application/rss+xml", Other}, {404, "Content-Type: application/json", Other}, {404, page + "Content-Length: 0", Other},
		{200, "Content-Type: text/htmlx", Other}, {200, "Content-Type: text/plain", Other},
		{200, page + "Content-Encoding: gzip", Forbidden}, {200, "Content-Type: text/html; charset=UTF-16LE", Forbidden},
		{200, page + "Content-Security-Policy: script-src 'none'", Forbidden},
	} {
		if got, _ := Judge(c.status, header(c.headers), false); got != c.want {
			t.Errorf("%d %s: %v", c.status, c.headers, got)
		}
	}
}

func TestHeadersAreTrueOfWhatIsSent(t *testing.T) {
	h := header("Content-Length: 5|ETag: x|Accept-Ranges: bytes|Content-MD5: x|Digest: x|Repr-Digest: x|Content-Digest: x|Last-Modified: y|Cache-Control: z")
	if Begin(h); len(h) != 2 {
		t.Errorf("an answer with the script has %v", h)
	}
	for method, want := range map[string]int{http.MethodGet: 2, http.MethodPost: 4} { // the conditions of a POST are the application's
		h = header("Accept-Encoding: gzip|If-None-Match: x|If-Modified-Since: y|Accept: z")
		if Ask(&http.Request{Method: method, Header: h}); len(h) != want || h.Get("Accept-Encoding") != "identity" {
			t.Errorf("%s: asked with %v", method, h)
		}
	}
}

func TestPolicies(t *testing.T) {
	for _, c := range []struct {
		lines  string // joined by |
		secure bool
		nonce  string
		ok     bool
	}{
		{"", false, "", true},
		{"frame-ancestors 'self'", false, "", true},
		{"default-src 'none'; script-src 'self' 'nonce-abc'; connect-src 'self' ws:", false, "", true}, // as code-server's
		{"default-src 'none'", false, "", false},
		{"default-src 'self'", false, "", true},
		{"DEFAULT-SRC 'SELF'", false, "", true},
		{"default-src", false, "", false},
		{"script-src", false, "", false},
		{"script-src *; connect-src *", false, "", true},
		{"script-src https:", false, "", false},
		{"script-src https:", true, "", true},
		{"script-src http:", true, "", true},
		{"script-src 'unsafe-inline'", false, "", false},
		{"script-src https://cdn.example", false, "", false},
		{"script-src 'none'; script-src 'self'", false, "", false}, // the first one applies
		{"script-src 'none'; script-src-elem 'self'", false, "", true},
		{"script-src 'self'; connect-src 'none'", false, "", false},
		{"default-src 'none'; script-src 'self'", false, "", false}, // it cannot report
		{"script-src 'nonce-abc'", false, "abc", true},
		{"script-src 'self' 'nonce-abc' 'strict-dynamic'", false, "abc", true},
		{"script-src 'self' 'strict-dynamic' 'sha256-x'", false, "", false},
		{"script-src 'nonce-abc' 'nonce-x', script-src 'nonce-x'", false, "x", true},
		{"script-src 'nonce-abc'|script-src 'nonce-x'", false, "", false},
		{"script-src 'nonce-abc'|script-src 'self'", false, "abc", true},
		{"script-src 'self'|default-src *", false, "", true},
		{"script-src 'self', script-src 'none'", false, "", false},
		{`script-src 'nonce-a">'`, false, "", false},
		{"script-src 'nonce-'", false, "", false},
		{"sandbox", false, "", false},
		{"sandbox allow-scripts", false, "", false},
		{"sandbox allow-scripts allow-same-origin", false, "", true},
		{"require-trusted-types-for 'script'; trusted-types 'none'", false, "", true}, // the script needs none
		{" ; ;, ", false, "", true},
	} {
		var lines []string
		if c.lines != "" {
			lines = strings.Split(c.lines, "|")
		}
		if nonce, ok := allowed(lines, c.secure); ok != c.ok || ok && nonce != c.nonce {
			t.Errorf("%q, secure %v: %q %v", c.lines, c.secure, nonce, ok)
		}
	}
}
