package decision

import (
	"net/http"
	"testing"

	"github.com/codehub/gateway/caddymodule/internal/gateway/gatewaytest"
)

func TestClassify(t *testing.T) {
	const (
		html         = "Accept: text/html,application/xhtml+xml;q=0.9,*/*;q=0.8"
		asNavigation = "Sec-Fetch-Mode: navigate"
		same         = "Sec-Fetch-Site: same-origin"
		byPerson     = "Sec-Fetch-User: ?1"
	)
	navigation := func(lines ...string) *http.Request {
		return gatewaytest.NewRequest("GET", "/", append(lines, asNavigation, html)...)
	}
	for _, c := range []struct {
		name   string
		prefix string
		r      *http.Request
		want   ClientKind
	}{
		{"a page is opened", "", gatewaytest.NewRequest("GET", "/", "Sec-Fetch-Mode: navigate", html), Navigation},
		{"an old browser opens a page", "", gatewaytest.NewRequest("GET", "/", html), Navigation},
		{"html in another case, with a weight", "", gatewaytest.NewRequest("GET", "/", "Accept: image/png, Text/HTML;q=0.5"), Navigation},
		{"a form is sent", "", gatewaytest.NewRequest("POST", "/", "Sec-Fetch-Mode: navigate", html), Program},
		{"an old browser sends a form", "", gatewaytest.NewRequest("POST", "/", html), Program},
		{"a script asks", "", gatewaytest.NewRequest("GET", "/", "Sec-Fetch-Mode: cors"), Subresource},
		{"a script asks for html", "", gatewaytest.NewRequest("GET", "/", "Sec-Fetch-Mode: cors", html), Subresource},
		{"an image", "", gatewaytest.NewRequest("GET", "/", "Sec-Fetch-Mode: no-cors"), Subresource},
		{"a page fetched in advance", "", gatewaytest.NewRequest("GET", "/", "Sec-Fetch-Mode: navigate", "Sec-Purpose: prefetch;prerender", html), Subresource},
		{"a page fetched in advance, the old way", "", gatewaytest.NewRequest("GET", "/", "Purpose: prefetch", html), Subresource},
		{"a websocket of a page", "", gatewaytest.NewRequest("GET", "/", "Upgrade: websocket", "Origin: http://x", "Sec-Fetch-Mode: websocket"), Subresource},
		{"a websocket of an old browser's page", "", gatewaytest.NewRequest("GET", "/", "Upgrade: WebSocket", "Origin: http://x"), Subresource},
		{"a websocket of a program", "", gatewaytest.NewRequest("GET", "/", "Upgrade: websocket"), Program},
		{"curl", "", gatewaytest.NewRequest("GET", "/", "Accept: */*"), Program},
		{"git", "", gatewaytest.NewRequest("POST", "/git-upload-pack", "Accept: application/x-git-upload-pack-result"), Program},
		{"nothing said", "", gatewaytest.NewRequest("HEAD", "/"), Program},
		{"html is asked for with HEAD", "", gatewaytest.NewRequest("HEAD", "/", html), Program},
		{"html inside another word", "", gatewaytest.NewRequest("GET", "/", "Accept: text/htmlx"), Program},

		// What real browsers send is tried in TestWhatBrowsersSend.
		{"a page loads itself", "", navigation(same), SelfNavigation},
		{"a person loads it", "", navigation(same, byPerson), Navigation},
		{"a person sends a form", "", gatewaytest.NewRequest("POST", "/", asNavigation, same, byPerson), Program},
		{"a page sends a form", "", gatewaytest.NewRequest("POST", "/", asNavigation, same), Subresource},
		{"a script says that it is a person", "", gatewaytest.NewRequest("GET", "/", "Sec-Fetch-Mode: cors", same, byPerson), Subresource},
		{"a page of another workspace", "", navigation("Sec-Fetch-Site: same-site"), Navigation},
		{"a page of another site", "", navigation("Sec-Fetch-Site: cross-site"), Navigation},
		{"an address that is typed", "", navigation("Sec-Fetch-Site: none", byPerson), Navigation},
		{"a tab that is restored", "", navigation("Sec-Fetch-Site: none"), Navigation},
		{"a page below its path loads itself", "/w/1", navigation(same, "Referer: https://h.example/w/1/a?b"), SelfNavigation},
		{"the path itself", "/w/1", navigation(same, "Referer: https://h.example/w/1"), SelfNavigation},
		{"the path itself with a query", "/w/1", navigation(same, "Referer: https://h.example/w/1?a"), SelfNavigation},
		{"a page that hides its address", "/w/1", navigation(same), SelfNavigation},
		{"the dashboard leads there", "/w/1", navigation(same, "Referer: https://h.example/"), Navigation},
		{"the sign-in leads there", "/w/1", navigation(same, "Referer: https://h.example/login?return=/w/1/"), Navigation},
		{"another workspace's path", "/w/1", navigation(same, "Referer: https://h.example/w/12/"), Navigation},
		// As Chromium sends it for a service worker with e.respondWith(fetch(e.request)).
		{"a service worker repeats an address that is typed", "", navigation(same, "Sec-Fetch-Dest: empty"), Navigation},
		{"a service worker repeats it below its path", "/w/1", navigation(same, "Sec-Fetch-Dest: empty"), Navigation},
		{"a service worker repeats a link of another site", "", navigation("Sec-Fetch-Site: cross-site", "Sec-Fetch-Dest: empty", "Referer: https://o.example/"), Navigation},
		{"a service worker repeats what a page loads", "", navigation(same, "Sec-Fetch-Dest: empty", "Referer: https://h.example/"), SelfNavigation},
		{"a service worker repeats what a page below its path loads", "/w/1", navigation(same, "Sec-Fetch-Dest: empty", "Referer: https://h.example/w/1/"), SelfNavigation},
		{"a service worker asks by itself", "", gatewaytest.NewRequest("GET", "/", "Sec-Fetch-Mode: cors", same, "Sec-Fetch-Dest: empty"), Subresource},
		{"no address", "/w/1", navigation(same, "Referer: about:blank"), Navigation},
	} {
		if got := Classify(c.r, c.prefix); got != c.want {
			t.Errorf("%s: got %d, want %d", c.name, got, c.want)
		}
	}
}

func TestClassifyExtendedConnect(t *testing.T) {
	h2 := gatewaytest.NewRequest("CONNECT", "/", "Origin: https://x")
	h2.ProtoMajor = 2
	h2.Header[":protocol"] = []string{"websocket"}
	h3 := gatewaytest.NewRequest("CONNECT", "/", "Origin: https://x")
	h3.ProtoMajor, h3.Proto = 3, "websocket"
	plain := gatewaytest.NewRequest("CONNECT", "/", "Origin: https://x")
	plain.ProtoMajor = 2
	if Classify(h2, "") != Subresource || Classify(h3, "") != Subresource || Classify(plain, "") != Program {
		t.Error("a WebSocket over HTTP/2 or HTTP/3 is not recognised")
	}
}

func BenchmarkClassify(b *testing.B) {
	r := gatewaytest.NewRequest("GET", "/", "Accept: application/json, text/plain, */*")
	b.ReportAllocs()
	for b.Loop() {
		if Classify(r, "/w/x") != Program {
			b.Fatal("wrong client kind")
		}
	}
}
