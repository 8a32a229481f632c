package command

import (
	"testing"

	"github.com/codehub/gateway/caddymodule/internal/site"
)

// TestServerOf checks that a server's configuration tells whether the server terminates TLS, and whether and how
// strictly it trusts proxies.
func TestServerOf(t *testing.T) {
	for text, want := range map[string]site.Server{
		`{"listen": [":8080"]}`: {},
		`{"listen": [":443"], "routes": [{"match": [{"host": ["a.example"]}]}]}`:                                              {TLS: true},
		`{"listen": [":8443"], "routes": [{"match": [{"host": ["a.example"]}]}]}`:                                             {TLS: true},
		`{"listen": [":80"], "routes": [{"match": [{"host": ["a.example"]}]}]}`:                                               {},
		`{"listen": [":8080"], "routes": [{"match": [{"host": ["a.example"]}]}], "automatic_https": {"skip": ["a.example"]}}`: {},
		`{"listen": [":8080"], "routes": [{"match": [{"host": ["a.example"]}]}], "automatic_https": {"disable": true}}`:       {},
		`{"listen": ["fd/4"], "tls_connection_policies": [{}]}`:                                                               {TLS: true},
		`{"trusted_proxies": {"source": "static"}}`:                                                                           {Trusts: true},
		`{"trusted_proxies_unix": true, "trusted_proxies_strict": 1}`:                                                         {Trusts: true, Strict: true},
		`null`: {},
	} {
		want.Name = "srv0"
		if got := serverOf("srv0", []byte(text)); got != want {
			t.Errorf("%s: got %+v", text, got)
		}
	}
}
