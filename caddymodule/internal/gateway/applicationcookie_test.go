package gateway

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"testing"

	"github.com/codehub/gateway/caddymodule/internal/gateway/gatewaytest"
)

// visits is an application that counts visits in a cookie of that name. Flask, Starlette and cookie-session keep their
// sessions in a cookie with the name of the main site's session.
func visits(t *testing.T, name string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for _, c := range r.Cookies() {
			if c.Name != name {
				t.Errorf("the application got the cookie %s", c)
			}
		}
		n := 0
		if c, err := r.Cookie(name); err == nil {
			n, _ = strconv.Atoi(c.Value)
		}
		http.SetCookie(w, &http.Cookie{Name: name, Value: strconv.Itoa(n + 1), Path: "/", Secure: true, HttpOnly: true})
		fmt.Fprintf(w, "visit %d", n+1)
	}
}

// On a workspace's own hosts, applications may use any cookie, even one with the name of the main site's session.
func TestApplicationsKeepTheirSessions(t *testing.T) {
	for _, name := range []string{"session", "__Host-session", "__Secure-session", "Session", "session_id"} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, portsOn)
			app := gatewaytest.App(t, visits(t, name))
			h.Run(one, app)
			token, err := h.Redeem(t.Context(), gatewaytest.Ticket(one), gatewaytest.Browser, one)
			if err != nil {
				t.Fatal(err)
			}
			for _, host := range []string{oneHost, portHost(t, beside(t, app, app).URL)} {
				for _, who := range []string{"Cookie: codehub_ws=" + token, withToken} {
					theirs := ""
					for n := range 3 {
						got := h.get(200, "/", host, who, "Cookie: codehub_browser=x"+theirs)
						if want := fmt.Sprintf("visit %d", n+1); got.body != want {
							t.Errorf("%s: got %q, want %q", host, got.body, want)
						}
						set := got.Cookies()
						if len(set) != 1 || set[0].Name != name {
							t.Fatalf("%s: the browser got %q", host, got.Header["Set-Cookie"])
						}
						theirs = "; " + name + "=" + set[0].Value
					}
				}
			}
		})
	}
}

// Two cookies with that name, for different paths, do not sign the user out and are not deleted.
func TestTwoCookiesOfTheApplicationAreTheApplications(t *testing.T) {
	h := newHarness(t)
	h.Run(one, gatewaytest.Echo(t))
	for _, lines := range [][]string{{asAlice}, {}} {
		got, err := h.send("GET", "/a/b", "", append(lines, oneHost, "Cookie: session=1; session=2")...)
		if err != nil {
			t.Fatal(err)
		}
		if got.StatusCode != 200 && len(lines) > 0 || got.Header["Set-Cookie"] != nil {
			t.Errorf("%q: status %d, %q", lines, got.StatusCode, got.Header["Set-Cookie"])
		}
	}
}

// An application may clear only its own origin's data. "cookies" would clear those of the whole domain.
func TestAnApplicationClearsTheDataOfItsOwnOrigin(t *testing.T) {
	h := newHarness(t)
	var sent []string
	h.Run(one, gatewaytest.App(t, func(w http.ResponseWriter, _ *http.Request) { w.Header()["Clear-Site-Data"] = sent }))
	for _, c := range []struct{ sent, want []string }{
		{[]string{`"cookies"`}, nil},
		{[]string{`"storage"`}, []string{`"storage"`}},
		{[]string{`"cache", "cookies","storage"`}, []string{`"cache", "storage"`}},
		{[]string{`"cookies"`, ` "executionContexts" `}, []string{`"executionContexts"`}},
		{[]string{`"*"`}, []string{`"cache", "storage", "executionContexts"`}},
		{[]string{`cookies, "Cookies", "unknown", "cookies`}, nil},
	} {
		sent = c.sent
		if got := h.get(200, "/", oneHost, asAlice).Header["Clear-Site-Data"]; !slices.Equal(got, c.want) {
			t.Errorf("%q: on the own host the browser got %q, want %q", c.sent, got, c.want)
		}
		if got := h.get(200, onePath+"/", asAlice).Header["Clear-Site-Data"]; got != nil {
			t.Errorf("%q: on the main site the browser got %q", c.sent, got)
		}
	}
}
