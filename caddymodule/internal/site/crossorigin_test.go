package site_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/codehub/gateway/caddymodule/internal/site"
)

// request builds a request from header lines such as "Name: value", which are separated by "|".
func request(method, target, lines string) *http.Request {
	r, err := http.NewRequest(method, target, nil)
	if err != nil {
		panic(err)
	}
	for l := range strings.SplitSeq(lines, "|") {
		if name, value, ok := strings.Cut(l, ": "); ok {
			r.Header.Add(name, value)
		}
	}
	return r
}

func trustForwarded(r *http.Request) bool { return r.Header.Get("X-Test-Proxy") == "trusted" }

func TestCrossOrigin(t *testing.T) {
	const workspaceHost = "http://ws-1.h.example/"
	own := site.New(site.Options{Domain: "h.example", Trusted: trustForwarded})
	main := site.New(site.Options{Domain: "h.example", MainHost: "front.example:8443", Trusted: trustForwarded})
	for _, c := range []struct {
		name            string
		site            *site.Site
		method, url     string
		headers         string
		wantCrossOrigin bool
	}{
		{"a program", own, "POST", "http://h.example/", "", false},
		{"the same origin", own, "POST", "http://h.example/", "Origin: http://h.example", false},
		{"the host in capitals, the port that https implies", own, "POST", "http://H.example:443/", "Origin: https://h.example", false},
		{"http, where the browser uses https", own, "POST", "http://h.example/", "Origin: http://h.example|X-Forwarded-Proto: https|X-Test-Proxy: trusted", true},
		{"https, where the browser uses it", own, "POST", "http://h.example/", "Origin: https://h.example|X-Forwarded-Proto: https|X-Test-Proxy: trusted", false},
		{"http, where anybody says https", own, "POST", "http://h.example/", "Origin: http://h.example|X-Forwarded-Proto: https", false},
		{"another host", own, "POST", "http://h.example/", "Origin: http://evil.example", true},
		{"another port", own, "POST", "http://h.example/", "Origin: http://h.example:8080", true},
		{"a longer host", own, "POST", "http://h.example/", "Origin: http://h.example.evil.example", true},
		{"an opaque origin", own, "POST", "http://h.example/", "Origin: null", true},
		{"a form of a page without a referrer", own, "POST", "http://h.example/", "Origin: null|Sec-Fetch-Site: same-origin", false},
		{"an app whose origin looks like the host", own, "POST", "http://h.example/", "Origin: capacitor://h.example", true},
		{"an extension, as browsers tell", own, "POST", "http://h.example/", "Origin: chrome-extension://h.example|Sec-Fetch-Site: cross-site", true},
		{"an IPv6 address, the port that http implies", own, "POST", "http://[::1]:80/", "Origin: http://[::1]", false},
		{"an IPv6 address, another port", own, "POST", "http://[::1]:80/", "Origin: http://[::1]:8080", true},
		{"a bookmark", own, "POST", "http://h.example/", "Sec-Fetch-Site: none", false},
		{"a sibling host", own, "DELETE", "http://h.example/", "Sec-Fetch-Site: same-site", true},
		{"another site", own, "PATCH", "http://h.example/", "Sec-Fetch-Site: cross-site", true},
		{"another site, whatever the origin says", own, "POST", "http://h.example/", "Sec-Fetch-Site: cross-site|Origin: http://h.example", true},
		{"another site opens an address", own, "GET", "http://h.example/", "Sec-Fetch-Site: cross-site|Sec-Fetch-Mode: navigate|Sec-Fetch-Dest: document", false},
		{"a sibling host opens an address", own, "GET", "http://h.example/", "Sec-Fetch-Site: same-site|Sec-Fetch-Mode: navigate|Sec-Fetch-Dest: document", false},
		{"a sibling host sends a form in a window", own, "POST", "http://h.example/", "Sec-Fetch-Site: same-site|Sec-Fetch-Mode: navigate|Sec-Fetch-Dest: document", true},
		{"a sibling host frames it", own, "GET", "http://h.example/", "Sec-Fetch-Site: same-site|Sec-Fetch-Mode: navigate|Sec-Fetch-Dest: iframe", true},
		{"a sibling host embeds it", own, "GET", "http://h.example/", "Sec-Fetch-Site: same-site|Sec-Fetch-Mode: navigate|Sec-Fetch-Dest: object", true},
		{"a sibling host reads it", own, "GET", "http://h.example/", "Sec-Fetch-Site: same-site|Sec-Fetch-Mode: cors|Sec-Fetch-Dest: empty", true},
		{"a sibling host uses it as a script", own, "GET", "http://h.example/", "Sec-Fetch-Site: same-site|Sec-Fetch-Mode: no-cors|Sec-Fetch-Dest: script", true},
		{"a sibling host asks what it may do", own, "OPTIONS", "http://h.example/", "Sec-Fetch-Site: same-site|Sec-Fetch-Mode: cors|Origin: http://ws-1.h.example", true},
		{"a sibling host, a workspace's", own, "GET", workspaceHost, "Sec-Fetch-Site: same-site|Sec-Fetch-Mode: cors", true},
		{"another origin reads it, as an old browser tells", own, "GET", "http://h.example/", "Origin: http://evil.example", true},
		{"another origin asks with HEAD", own, "HEAD", "http://h.example/", "Origin: http://evil.example", true},
		{"the page itself reads it", own, "GET", "http://h.example/", "Sec-Fetch-Site: same-origin|Sec-Fetch-Mode: cors|Origin: http://h.example", false},
		{"a word that no browser says", own, "GET", "http://h.example/", "Sec-Fetch-Site: same-planet", true},
		{"a WebSocket of a program", own, "GET", "http://h.example/", "Upgrade: websocket", false},
		{"a WebSocket of another origin", own, "GET", "http://h.example/", "Upgrade: WebSocket|Origin: http://evil.example", true},
		{"a WebSocket of a sibling host", own, "GET", "http://h.example/", "Upgrade: websocket|Sec-Fetch-Site: same-site|Origin: http://ws-1.h.example", true},
		{"a WebSocket of the same origin", own, "GET", "http://h.example/", "Upgrade: websocket|Origin: http://h.example", false},
		{"X-Forwarded-Host of anybody", own, "POST", "http://h.example/", "Origin: http://front.example|X-Forwarded-Host: front.example", true},
		{"X-Forwarded-Host of a trusted proxy", own, "POST", "http://inner:80/", "Origin: http://front.example|X-Forwarded-Host: front.example|X-Test-Proxy: trusted", false},
		{"another origin behind a trusted proxy", own, "POST", "http://inner:80/", "Origin: http://evil.example|X-Forwarded-Host: front.example|X-Test-Proxy: trusted", true},
		{"a proxy that rewrites Host, with main_host set", main, "POST", "http://inner:80/", "Origin: https://front.example:8443", false},
		{"main_host set, reached directly", main, "POST", "http://127.0.0.1:8080/", "Origin: http://127.0.0.1:8080", false},
		{"main_host set, another origin", main, "POST", "http://inner:80/", "Origin: https://evil.example:8443", true},
		{"the main site acts on a workspace's own host", main, "POST", workspaceHost, "Origin: https://front.example:8443", true},
		{"the main site acts on a workspace's own host, and a proxy names the main one", main, "POST", workspaceHost, "Origin: https://front.example:8443|X-Forwarded-Host: front.example|X-Test-Proxy: trusted", true},
		{"a workspace acts on its own host", main, "POST", workspaceHost, "Origin: http://ws-1.h.example", false},
	} {
		r := request(c.method, c.url, c.headers)
		at := c.site.Parse(r)
		if got := at.CrossOrigin(r); got != c.wantCrossOrigin {
			t.Errorf("%s: %s %s %q: cross origin is %v", c.name, c.method, c.url, c.headers, got)
		}
	}
	// HTTP/1.0 needs no Host.
	for headers, want := range map[string]bool{"": false, "Origin: http://h.example": true, "Origin: null": true} {
		r := request("POST", "http://h.example/", headers)
		r.Host = ""
		at := own.Parse(r)
		if got := at.CrossOrigin(r); got != want {
			t.Errorf("without a host, %q: cross origin is %v", headers, got)
		}
	}
	h2 := request("CONNECT", "http://h.example/", "Origin: https://evil.example")
	h2.ProtoMajor, h2.Header[":protocol"] = 2, []string{"websocket"}
	h3 := request("CONNECT", "http://h.example/", "Origin: https://evil.example")
	h3.ProtoMajor, h3.Proto = 3, "websocket"
	for _, r := range []*http.Request{h2, h3} {
		if at := own.Parse(r); !at.CrossOrigin(r) {
			t.Errorf("a WebSocket of another origin passes over HTTP/%d", r.ProtoMajor)
		}
	}
}
