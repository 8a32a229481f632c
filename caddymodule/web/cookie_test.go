package web_test

import (
	"net/http"
	"net/http/httptest"
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

func TestSessionCookieIsSecureUnderTLS(t *testing.T) {
	site := web.NewSite("h.example", "", trustForwarded)
	for _, c := range []struct {
		url, headers string
		want         bool
	}{
		{"http://codehub.test/", "", false},
		{"https://codehub.test/", "", true},
		{"http://codehub.test/", "X-Forwarded-Proto: https", false},
		{"http://codehub.test/", "X-Forwarded-Proto: https|X-Test-Proxy: trusted", true},
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, c.url, nil)
		r.Header = request(http.MethodPost, c.url, c.headers).Header
		site.SetSession(w, r, web.SessionCookie, "token", 60)
		cookie := w.Result().Cookies()[0]
		if cookie.Secure != c.want || !cookie.HttpOnly || cookie.Domain != "" || cookie.MaxAge != 60 {
			t.Errorf("%s %q: got %s", c.url, c.headers, cookie)
		}
	}
}

func TestEmptyTokenDeletesTheCookie(t *testing.T) {
	w := httptest.NewRecorder()
	web.NewSite("h.example", "", nil).SetSession(w, httptest.NewRequest(http.MethodPost, "/", nil), web.WorkspaceCookie, "", 60)
	if cookie := w.Result().Cookies()[0]; cookie.Value != "" || cookie.MaxAge != -1 || cookie.Name != web.WorkspaceCookie {
		t.Errorf("got %s", cookie)
	}
}
