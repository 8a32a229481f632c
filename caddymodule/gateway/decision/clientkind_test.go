package decision

import (
	"net/http"
	"testing"

	"github.com/codehub/gateway/caddymodule/gateway/gatewaytest"
)

func TestClassify(t *testing.T) {
	const html = "Accept: text/html,application/xhtml+xml;q=0.9,*/*;q=0.8"
	for _, c := range []struct {
		name string
		r    *http.Request
		want ClientKind
	}{
		{"a page is opened", gatewaytest.NewRequest("GET", "/", "Sec-Fetch-Mode: navigate", html), Navigation},
		{"an old browser opens a page", gatewaytest.NewRequest("GET", "/", html), Navigation},
		{"html in another case, with a weight", gatewaytest.NewRequest("GET", "/", "Accept: image/png, Text/HTML;q=0.5"), Navigation},
		{"a form is sent", gatewaytest.NewRequest("POST", "/", "Sec-Fetch-Mode: navigate", html), Program},
		{"an old browser sends a form", gatewaytest.NewRequest("POST", "/", html), Program},
		{"a script asks", gatewaytest.NewRequest("GET", "/", "Sec-Fetch-Mode: cors"), Subresource},
		{"a script asks for html", gatewaytest.NewRequest("GET", "/", "Sec-Fetch-Mode: cors", html), Subresource},
		{"an image", gatewaytest.NewRequest("GET", "/", "Sec-Fetch-Mode: no-cors"), Subresource},
		{"a page fetched in advance", gatewaytest.NewRequest("GET", "/", "Sec-Fetch-Mode: navigate", "Sec-Purpose: prefetch;prerender", html), Subresource},
		{"a page fetched in advance, the old way", gatewaytest.NewRequest("GET", "/", "Purpose: prefetch", html), Subresource},
		{"a websocket of a page", gatewaytest.NewRequest("GET", "/", "Upgrade: websocket", "Origin: http://x", "Sec-Fetch-Mode: websocket"), Subresource},
		{"a websocket of an old browser's page", gatewaytest.NewRequest("GET", "/", "Upgrade: WebSocket", "Origin: http://x"), Subresource},
		{"a websocket of a program", gatewaytest.NewRequest("GET", "/", "Upgrade: websocket"), Program},
		{"curl", gatewaytest.NewRequest("GET", "/", "Accept: */*"), Program},
		{"git", gatewaytest.NewRequest("POST", "/git-upload-pack", "Accept: application/x-git-upload-pack-result"), Program},
		{"nothing said", gatewaytest.NewRequest("HEAD", "/"), Program},
		{"html is asked for with HEAD", gatewaytest.NewRequest("HEAD", "/", html), Program},
		{"html inside another word", gatewaytest.NewRequest("GET", "/", "Accept: text/htmlx"), Program},
	} {
		if got := Classify(c.r); got != c.want {
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
	if Classify(h2) != Subresource || Classify(h3) != Subresource || Classify(plain) != Program {
		t.Error("a WebSocket over HTTP/2 or HTTP/3 is not recognised")
	}
}

func BenchmarkClassify(b *testing.B) {
	r := gatewaytest.NewRequest("GET", "/", "Accept: application/json, text/plain, */*")
	b.ReportAllocs()
	for b.Loop() {
		if Classify(r) != Program {
			b.Fatal("wrong client kind")
		}
	}
}
