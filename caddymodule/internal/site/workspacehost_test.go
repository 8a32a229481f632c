package site_test

import (
	"testing"

	"github.com/codehub/gateway/caddymodule/internal/site"
)

func TestWorkspaceHost(t *testing.T) {
	const id = "0123abcd-0000-4000-8000-00000000000a"
	s := site.New(site.Options{Domain: "h.example", MainHost: "ws-main--site.h.example"})
	for host, want := range map[string]site.WorkspaceHost{
		"ws-" + id + ".h.example":             {ID: id},
		"WS-" + id + ".H.example.:80":         {ID: id},
		"3000--ws-" + id + ".h.example":       {ID: id, Port: 3000},
		"1--ws-" + id + ".h.example:8443":     {ID: id, Port: 1},
		"65535--ws-" + id + ".h.example":      {ID: id, Port: 65535},
		"65536--ws-" + id + ".h.example":      {},
		"0--ws-" + id + ".h.example":          {},
		"0300--ws-" + id + ".h.example":       {},
		"+300--ws-" + id + ".h.example":       {},
		"three--ws-" + id + ".h.example":      {},
		"3000--4000--ws-" + id + ".h.example": {},
		"a.3000--ws-" + id + ".h.example":     {},
		"3000--ws-nothing.h.example":          {Alias: "3000--ws-nothing"},
		"3000--ann.h.example":                 {Alias: "3000--ann"}, // a workspace named 3000
		"project--ann.h.example":              {Alias: "project--ann"},
		"Project--Ann.h.example:8080":         {Alias: "project--ann"},
		"project--.h.example":                 {},
		"ws-nothing.h.example":                {},
	} {
		if got, ok := s.WorkspaceHost(host); !ok || got != want && want != (site.WorkspaceHost{}) || got.ID != want.ID || got.Port != want.Port {
			t.Errorf("%s: got %+v, %v; want %+v", host, got, ok, want)
		}
	}
	for _, host := range []string{
		"", "h.example", "ws-.h.example", "--ann.h.example", "xn--ab.h.example", "www.h.example", "ws-main--site.h.example:80",
		"ws-" + id + ".h.example.evil.example", "project--ann.evilh.example", "[::1]:80", "127.0.0.1",
	} {
		if got, ok := s.WorkspaceHost(host); ok {
			t.Errorf("%s: got %+v", host, got)
		}
	}
}
