package site_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/coordinator/workspace"
)

func TestParse(t *testing.T) {
	const (
		one = "0123abcd-0000-4000-8000-00000000000a"
		id  = one
	)
	s := site.New(site.Options{})
	for _, c := range []struct {
		host, target string
		ours         bool
		id           workspace.ID
		inHost, bare bool
	}{
		{"x", "/w/" + id + "/a", true, one, false, false},
		{"x", "/w/" + id + "/", true, one, false, false},
		{"x", "/w/" + id, true, one, false, true},
		{"x", "/w/" + id + "?q", true, one, false, true},
		{"x", "/w/" + id + "/a%2fb", true, one, false, false},
		{"x", "/w/" + id + "%2fa", true, "", false, false},
		{"x", "/w/" + "0123ABCD-0000-4000-8000-00000000000A/", true, "", false, false},
		{"x", "/w/", true, "", false, false},
		{"x", "/w/../../etc", true, "", false, false},
		{"x", "/w", false, "", false, false},
		{"x", "/%77/" + id + "/%2f", false, "", false, false},
		{"x", "/", false, "", false, false},
		{"ws-" + id + ".localhost", "/w/x", true, one, true, false},
		{"ws-" + id + ".localhost:8080", "/", true, one, true, false},
		{"WS-0123ABCD-0000-4000-8000-00000000000A.LocalHost.", "/", true, one, true, false},
		{"ws-nothing.localhost", "/", true, "", true, false},
		{"ws-.localhost", "/", false, "", false, false},
		{"ws-" + id + ".localhost.evil.com", "/", false, "", false, false},
		{"ws-" + id + ".evillocalhost", "/", false, "", false, false},
		{"a.ws-" + id + ".localhost", "/", false, "", false, false},
		{"ws-" + id + ".a.localhost", "/", true, "", true, false},
		{"localhost", "/", false, "", false, false},
		{"", "/", false, "", false, false},
		{"ws-", "/", false, "", false, false},
	} {
		u, err := url.ParseRequestURI(c.target)
		if err != nil {
			t.Fatal(err)
		}
		p := s.Parse(&http.Request{Host: c.host, URL: u})
		ours := p.ForWorkspace()
		if ours != c.ours || p.ID != c.id || p.OwnHost != c.inHost || p.Bare != c.bare {
			t.Errorf("%s %s: got %+v, %v", c.host, c.target, p, ours)
		}
	}
}

func TestParseAllocatesNothing(t *testing.T) {
	const one = "0123abcd-0000-4000-8000-00000000000a"
	s := site.New(site.Options{})
	inPath := httptest.NewRequest("GET", "http://localhost:8080/w/"+one+"/a", nil)
	inHost := httptest.NewRequest("GET", "http://ws-"+one+".localhost/a", nil)
	for _, r := range []*http.Request{inPath, inHost} {
		if n := testing.AllocsPerRun(100, func() { s.Parse(r) }); n != 0 {
			t.Errorf("%s: %v allocations", r.URL, n)
		}
	}
}
