package site_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/codehub/gateway/caddymodule/internal/site"
)

func TestCookie(t *testing.T) {
	h := http.Header{"Cookie": {"a=1; codehub_ws=; x", "b=2;codehub_ws=tok=en ; codehub_ws=other"}}
	if got := site.Cookie(h, "codehub_ws"); got != "tok=en" {
		t.Errorf("got %q", got)
	}
	if got := site.Cookie(h, "none"); got != "" {
		t.Errorf("got %q", got)
	}
}

func TestSessionCookieIsSecureUnderTLS(t *testing.T) {
	s := site.New(site.Options{Domain: "h.example", Trusted: trustForwarded})
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
		at := s.Parse(r)
		at.SetSession(w, site.SessionCookie, "token", 60)
		cookie := w.Result().Cookies()[0]
		if cookie.Secure != c.want || !cookie.HttpOnly || cookie.Domain != "" || cookie.MaxAge != 60 {
			t.Errorf("%s %q: got %s", c.url, c.headers, cookie)
		}
	}
}

func TestEmptyTokenDeletesTheCookie(t *testing.T) {
	w := httptest.NewRecorder()
	at := site.New(site.Options{Domain: "h.example"}).Parse(httptest.NewRequest(http.MethodPost, "/", nil))
	at.SetSession(w, site.WorkspaceCookie, "", 60)
	if cookie := w.Result().Cookies()[0]; cookie.Value != "" || cookie.MaxAge != -1 || cookie.Name != site.WorkspaceCookie {
		t.Errorf("got %s", cookie)
	}
}

// Under TLS the cookie's name has a prefix. A browser accepts a cookie with that prefix only from the host for which it
// is set.
func TestCookiesAreOfTheHostUnderTLS(t *testing.T) {
	s := site.New(site.Options{Domain: "h.example"})
	for _, name := range []string{site.SessionCookie, site.WorkspaceCookie, site.BrowserCookie, site.SignInCookie} {
		r := httptest.NewRequest(http.MethodGet, "https://h.example/", nil)
		w := httptest.NewRecorder()
		at := s.Parse(r)
		at.SetSession(w, name, "token", 60)
		c := w.Result().Cookies()[0]
		if c.Name != "__Host-"+name || !c.Secure || c.Path != "/" || c.Domain != "" {
			t.Errorf("got %s", c)
		}
		r.Header.Set("Cookie", name+"=planted; __Host-"+name+"=ours")
		if got, err := at.Token(r.Header, name); got != "ours" || err != nil {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
		r.TLS = nil
		plain := s.Parse(r)
		if got, err := plain.Token(r.Header, name); got != "planted" || err != nil { // the only one of that name
			t.Errorf("%s without TLS: got %q, %v", name, got, err)
		}
		r.Header.Add("Cookie", name+"=second")
		if got, err := plain.Token(r.Header, name); got != "" || err != site.ErrTwoCookies {
			t.Errorf("%s twice: got %q, %v", name, got, err)
		}
		if n := testing.AllocsPerRun(100, func() { _, _ = plain.Token(r.Header, name) }); n != 0 {
			t.Errorf("%v allocations", n)
		}
	}
}

// Browsers refuse an answer with headers of 256 KiB, so many cookies with long names are deleted in several rounds.
func TestCookiesWithLongNamesAreClearedInRounds(t *testing.T) {
	s := site.New(site.Options{Domain: "h.example"})
	var left []string
	for i := range 60 {
		left = append(left, fmt.Sprintf("p%02d%s=x", i, strings.Repeat("n", 4000)))
	}
	marker := ""
	for round := 1; ; round++ {
		r := request("GET", "http://ws-1.h.example/a/b/c/d/", "")
		r.Header.Set("Cookie", strings.Join(left, "; ")+marker)
		w := httptest.NewRecorder()
		at := s.Parse(r)
		again := at.ClearPlanted(w, r, "")
		size, gone := 0, make(map[string]bool)
		for _, line := range w.Header()["Set-Cookie"] {
			size += len(line)
			name, value, _ := strings.Cut(line, "=")
			if name == "codehub_cleared" {
				value, _, _ = strings.Cut(value, ";")
				marker = "; codehub_cleared=" + value
			} else if strings.HasSuffix(line, "; Path=/; Domain=h.example") {
				gone[name] = true
			}
		}
		if size > 128<<10 {
			t.Fatalf("round %d: the answer has %d bytes of cookies", round, size)
		}
		left = slices.DeleteFunc(left, func(c string) bool { return gone[strings.TrimSuffix(c, "=x")] })
		if len(left) <= 2 {
			break
		}
		if !again || round == 15 {
			t.Fatalf("after round %d, %d cookies are left", round, len(left))
		}
	}
}

// On a workspace's own host, the name of the session's cookie is the application's to use. A cookie of that name counts
// there neither as a session nor as planted, and there may be two of them.
func TestTheSessionIsOfTheMainSite(t *testing.T) {
	s := site.New(site.Options{Domain: "h.example"})
	const id = "0123abcd-0000-4000-8000-00000000000a"
	large := "; p=" + strings.Repeat("x", 9000)
	for _, c := range []struct {
		url, token string
		ours       bool
	}{
		{"http://h.example/", "a", true},
		{"http://h.example/w/" + id + "/", "a", true},
		{"http://ws-" + id + ".h.example/", "", false},
		{"http://5000--ws-" + id + ".h.example/", "", false},
		{"http://name--ann.h.example/", "", false},
	} {
		r := request("GET", c.url, "Cookie: session=a"+large)
		at, w := s.Parse(r), httptest.NewRecorder()
		if token, err := at.Token(r.Header, site.SessionCookie); token != c.token || err != nil {
			t.Errorf("%s: the session is %q, %v", c.url, token, err)
		}
		at.ClearPlanted(w, r, at.Prefix)
		cleared := strings.Contains(strings.Join(w.Header()["Set-Cookie"], "\n"), "\nsession=;") // which deletes only cookies for a domain
		if cleared == c.ours {
			t.Errorf("%s: deleted is %q", c.url, w.Header()["Set-Cookie"])
		}
		r.Header.Set("Cookie", "session=a; session=b")
		if token, err := at.Token(r.Header, site.SessionCookie); token != "" || (err == nil) == c.ours {
			t.Errorf("%s: of two the session is %q, %v", c.url, token, err)
		}
		for _, name := range []string{"session", "__Host-session", "__Secure-session", "__hoSt-session"} {
			if site.IsOwnCookie(name, at.OwnHost) != c.ours {
				t.Errorf("%s: the cookie %s is taken for %v", c.url, name, !c.ours)
			}
		}
		for name, want := range map[string]bool{"codehub_ws": true, "__Host-codehub_browser": true, "codehub_": true, "sessions": false, "Session": false, "codehub": false} {
			if site.IsOwnCookie(name, at.OwnHost) != want {
				t.Errorf("%s: the cookie %s is taken for %v", c.url, name, !want)
			}
		}
	}
}
