package site_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/codehub/gateway/caddymodule/internal/site"
)

// Proxies write the scheme in several ways, but the application always gets the same value.
func TestForwardedProto(t *testing.T) {
	for _, c := range []struct {
		scheme  string // of public_url
		lines   []string
		trusted bool
		https   bool
	}{
		{"", nil, true, false},
		{"", []string{"https"}, true, true},
		{"", []string{"HTTPS"}, true, true},
		{"", []string{"wss"}, true, true},
		{"", []string{"Wss"}, true, true},
		{"", []string{"ws"}, true, false},
		{"", []string{"http"}, true, false},
		{"", []string{"https, https"}, true, true},
		{"", []string{"https,http"}, true, true},
		{"", []string{"http, https"}, true, true},
		{"", []string{"http,ws"}, true, false},
		{"", []string{"https", "http"}, true, true},
		{"", []string{"http", "wss"}, true, true},
		{"", []string{` "https" ,`}, true, true},
		{"", []string{", ,https"}, true, true},
		{"", []string{"httpss", "gopher", "https:"}, true, false},
		{"", []string{""}, true, false},
		{"", []string{"https"}, false, false},
		// If the hops differ, public_url decides. If public_url is https, it always decides.
		{"http", []string{"http, https"}, true, false},
		{"http", []string{"https"}, true, true},
		{"https", nil, false, true},
		{"https", []string{"http"}, true, true},
		{"https", []string{"ws"}, false, true},
	} {
		s := site.New(site.Options{Domain: "h.example", Scheme: c.scheme, Trusted: func(*http.Request) bool { return c.trusted }})
		r := request("GET", "http://h.example/", "")
		if c.lines != nil {
			r.Header["X-Forwarded-Proto"] = slices.Clone(c.lines)
		}
		at := s.Parse(r)
		if at.IsHTTPS() != c.https {
			t.Errorf("%+v: https is %v", c, at.IsHTTPS())
		}
		want := slices.Clone(c.lines) // the proxy to the application replaces headers from untrusted sources
		if c.trusted && c.lines != nil {
			want = []string{map[bool]string{true: "https", false: "http"}[c.https]}
		}
		if at.NormalizeForwarded(r.Header); !slices.Equal(r.Header["X-Forwarded-Proto"], want) {
			t.Errorf("%+v: the application gets %q, want %q", c, r.Header["X-Forwarded-Proto"], want)
		}
	}
}

func TestForwardedHost(t *testing.T) {
	s := site.New(site.Options{Domain: "h.example", MainHost: "main.example", Trusted: trustForwarded})
	for _, c := range []struct {
		lines []string
		host  string
	}{
		{[]string{"main.example"}, "main.example"},
		{[]string{"Main.Example:443"}, "Main.Example:443"},
		{[]string{"evil.example, main.example"}, "main.example"},
		{[]string{"evil.example", "main.example"}, "main.example"},
		{[]string{"main.example,"}, "main.example"},
		{[]string{"main.example", ""}, "main.example"},
		{[]string{"main.example, evil.example"}, "evil.example"},
		{[]string{""}, "inner:8080"},
		{[]string{" , "}, "inner:8080"},
		{[]string{"https://main.example"}, "inner:8080"},
		{[]string{"ann@main.example"}, "inner:8080"},
	} {
		r := request("GET", "http://inner:8080/", "X-Test-Proxy: trusted|X-Forwarded-Proto: wss")
		r.Header["X-Forwarded-Host"] = slices.Clone(c.lines)
		at := s.Parse(r)
		if want := c.host == "main.example" || c.host == "Main.Example:443"; at.IsMain() != want {
			t.Errorf("%q: the main site is %v", c.lines, at.IsMain())
		}
		if at.NormalizeForwarded(r.Header); !slices.Equal(r.Header["X-Forwarded-Host"], []string{c.host}) {
			t.Errorf("%q: the application gets %q, want %q", c.lines, r.Header["X-Forwarded-Host"], c.host)
		}
	}
}

func TestUsualForwardedHeadersCostNothing(t *testing.T) {
	s := site.New(site.Options{Domain: "h.example", Trusted: trustForwarded})
	r := request("GET", "http://h.example/", "X-Test-Proxy: trusted|X-Forwarded-Proto: https|X-Forwarded-Host: h.example")
	if n := testing.AllocsPerRun(100, func() { at := s.Parse(r); at.NormalizeForwarded(r.Header) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
