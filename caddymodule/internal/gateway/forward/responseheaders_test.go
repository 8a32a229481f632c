package forward

import (
	"net/http"
	"slices"
	"testing"

	"github.com/codehub/gateway/caddymodule/internal/gateway/gatewaytest"
)

// Caddy announces HTTP/3 with Alt-Svc.
func TestTheServersOwnHeadersStay(t *testing.T) {
	w := http.Header{"Alt-Svc": {"h3"}, "Strict-Transport-Security": {"ours"}}
	c := responseCleaner{prefix: gatewaytest.OnePath}
	c.note(w)
	w.Add("Alt-Svc", "theirs")
	w.Add("Strict-Transport-Security", "theirs")
	c.clean(w)
	if !slices.Equal(w["Alt-Svc"], []string{"h3"}) || !slices.Equal(w["Strict-Transport-Security"], []string{"ours"}) {
		t.Errorf("got %v", w)
	}
}

func TestCookiesAreConfined(t *testing.T) {
	for line, want := range map[string]string{
		"a=1":                  "a=1",
		"a=1; Path=/":          "a=1; Path=" + gatewaytest.OnePath + "/",
		"a=1;path=/x;HttpOnly": "a=1; Path=" + gatewaytest.OnePath + "/x;HttpOnly",
		"a=1; Path=" + gatewaytest.OnePath + "/x":          "a=1; Path=" + gatewaytest.OnePath + "/x",
		"a=1; Path=" + gatewaytest.OnePath + "x":           "a=1; Path=" + gatewaytest.OnePath + gatewaytest.OnePath + "x",
		"a=1; Path=":                                       "a=1; Path=",
		"a=1; DOMAIN=.h.example; Secure; Path=/; domain=x": "a=1; Secure; Path=" + gatewaytest.OnePath + "/",
		"a=domain=x; Domain":                               "a=domain=x",
	} {
		c := responseCleaner{prefix: gatewaytest.OnePath}
		if got := c.confine(line); got != want {
			t.Errorf("%q: got %q, want %q", line, got, want)
		}
	}
	if got := new(responseCleaner).confine("a=1; Domain=h.example; Path=/"); got != "a=1; Path=/" {
		t.Errorf("on its own host: %q", got)
	}
}
