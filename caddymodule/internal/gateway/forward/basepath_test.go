package forward

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/codehub/gateway/caddymodule/internal/gateway/gatewaytest"
)

func TestThePrefixIsStrippedWithItsEscapes(t *testing.T) {
	for in, want := range map[string]string{
		"/":                "/",
		"/a%2Fb/%E2%82%AC": "/a%2Fb/%E2%82%AC",
		"/a b":             "/a%20b",
		"//x":              "//x",
		"/%2e%2e/a":        "/%2e%2e/a",
	} {
		u, err := url.Parse(gatewaytest.OnePath + in)
		if err != nil {
			t.Fatal(err)
		}
		r := &http.Request{Host: "x", URL: u}
		toApplication(r, gatewaytest.OnePath, "")
		if got := r.URL.EscapedPath(); got != want {
			t.Errorf("%s became %s", in, got)
		}
	}
}
