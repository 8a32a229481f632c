package gateway

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/codehub/gateway/caddymodule/internal/gateway/gatewaytest"
)

func TestWorkspaceSetsNoneOfOurCookies(t *testing.T) {
	h := newHarness(t)
	app := gatewaytest.App(t, func(rw http.ResponseWriter, r *http.Request) {
		h := rw.Header()
		for _, c := range []string{"a=1", "session=evil; Path=/", " session =evil", "codehub_ws=evil", "=session=evil", "session=; Max-Age=0", "sessions=2; Path=/", "b=session=3",
			"codehub_session=evil", "__Host-codehub_session=evil; Path=/; Secure", "__Host-session=evil; Path=/; Secure", "__Secure-session=evil; Secure", "__hOsT-codehub_ws=evil", "codehub_browser=evil", "codehub_oidc=evil", "__Host-codehub_oidc=evil", "codehub_lang=evil", "tossed=1; domain = localhost; HttpOnly"} {
			h.Add("Set-Cookie", c)
		}
		h.Set("Clear-Site-Data", `"cookies"`)
		h.Set("Service-Worker-Allowed", "/")
		if r.URL.Path == "/stream" {
			rw.WriteHeader(http.StatusEarlyHints)
			fmt.Fprint(rw, "first")
			_ = http.NewResponseController(rw).Flush()
			<-r.Context().Done()
			return
		}
	})
	h.Run(one, app)
	check := func(what string, h http.Header, scope string) {
		t.Helper()
		want := []string{"a=1", "sessions=2; Path=" + scope, "b=session=3", "tossed=1; HttpOnly"}
		if what == "host" { // where the name is the application's
			want = []string{"a=1", "session=evil; Path=/", "session =evil", "=session=evil", "session=; Max-Age=0", "sessions=2; Path=/", "b=session=3",
				"__Host-session=evil; Path=/; Secure", "__Secure-session=evil; Secure", "tossed=1; HttpOnly"}
		}
		if got := h["Set-Cookie"]; !slices.Equal(got, want) {
			t.Errorf("%s: cookies %q", what, got)
		}
		if h.Get("Clear-Site-Data") != "" || h.Get("Service-Worker-Allowed") != scope {
			t.Errorf("%s: %v", what, h)
		}
	}
	got, err := h.send("GET", onePath+"/", "", asAlice)
	if err != nil {
		t.Fatal(err)
	}
	check("path", got.Header, onePath+"/")
	if got, err = h.send("GET", "/", "", asAlice, oneHost); err != nil {
		t.Fatal(err)
	}
	check("host", got.Header, "/")

	// The first part of a stream arrives before its end.
	resp, err := client.Do(gatewaytest.NewRequest("GET", h.url+onePath+"/stream", asAlice).WithContext(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	first := make([]byte, 5)
	if _, err := resp.Body.Read(first); err != nil || string(first) != "first" {
		t.Errorf("the stream: %q %v", first, err)
	}
	check("stream", resp.Header, onePath+"/")
}

// The gateway judges the conditions of a GET that loads a page, and leaves those of a POST to the application.
func TestAPostIsNotAnsweredWith304(t *testing.T) {
	h := newHarness(t)
	h.Run(one, gatewaytest.App(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Content-Security-Policy", "script-src 'none'") // without the script the page keeps its tag
		w.Header().Set("Etag", `"a"`)
		fmt.Fprintf(w, "seen: %s", r.Header.Get("If-None-Match"))
	}))
	for method, want := range map[string]int{"GET": 304, "POST": 200} {
		got, err := h.send(method, onePath+"/", "", asAlice, asPage, "Sec-Fetch-Dest: document", `If-None-Match: "a"`)
		if err != nil || got.StatusCode != want || want == 200 && got.body != `seen: "a"` {
			t.Errorf("%s: got %v %q %v", method, got.Response, got.body, err)
		}
	}
}
