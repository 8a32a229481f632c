package site

import (
	"strings"
	"testing"
)

func TestAdvise(t *testing.T) {
	plain, tls := Server{Name: "srv0", MaxHeader: HeaderRoom}, Server{Name: "srv1", MaxHeader: HeaderRoom, TLS: true}
	loose, strict := Server{Name: "srv2", MaxHeader: HeaderRoom, Trusts: true}, Server{Name: "srv3", MaxHeader: HeaderRoom, Trusts: true, Strict: true}
	small := Server{Name: "srv4", MaxHeader: HeaderRoom - 1, Trusts: true, Strict: true}
	for _, c := range []struct {
		public, main string
		servers      []Server
		want         string // a part of each text
	}{
		{"", "", []Server{plain, tls, strict}, ""},
		{"", "", []Server{small}, "srv4 refuses large headers"},
		{"", "codehub.example.com", []Server{plain}, ""},
		{"http://localhost:8080", "localhost:8080", []Server{plain}, ""},
		{"http://127.0.0.1", "127.0.0.1", nil, ""},
		{"https://codehub.example.com", "codehub.example.com", []Server{tls, strict}, ""},
		{"https://codehub.example.com", "CodeHub.example.com:443", []Server{tls}, ""},
		{"", "", []Server{loose}, "srv2 has trusted_proxies without trusted_proxies_strict"},
		{"http://codehub.example.com", "codehub.example.com", []Server{plain}, "in the clear"},
		{"https://codehub.example.com", "inside.example", []Server{strict}, "people sign in at inside.example alone"},
		{"https://codehub.example.com:8443", "codehub.example.com", []Server{strict}, ""},
		{"https://codehub.example.com", "codehub.example.com", []Server{plain}, "srv0 has no certificate"},
		{"http://codehub.example.com", "inside.example", []Server{loose, plain, tls}, "in the clear|people sign in at|srv2 has trusted_proxies without"},
	} {
		got, want := Advise(c.public, c.main, c.servers), strings.Split(c.want, "|")
		if c.want == "" {
			want = nil
		}
		if len(got) != len(want) {
			t.Errorf("%q at %q: got %+v, want %q", c.public, c.main, got, want)
			continue
		}
		for i, part := range want {
			if !strings.Contains(got[i].Text, part) || got[i].Remedy == "" {
				t.Errorf("%q at %q: got %+v, want %q", c.public, c.main, got[i], part)
			}
		}
	}
}
