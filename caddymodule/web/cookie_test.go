package web_test

import (
	"net/http"
	"testing"

	"github.com/codehub/gateway/caddymodule/web"
)

func TestCookie(t *testing.T) {
	h := http.Header{"Cookie": {"a=1; codehub_ws=; x", "b=2;codehub_ws=tok=en ; codehub_ws=other"}}
	if got := web.Cookie(h, "codehub_ws"); got != "tok=en" {
		t.Errorf("got %q", got)
	}
	if got := web.Cookie(h, "none"); got != "" {
		t.Errorf("got %q", got)
	}
}
