package gateway

import (
	"net/http"
	"strings"
	"testing"
)

// request builds a request from lines like "Name: value".
func request(method, target string, lines ...string) *http.Request {
	r, err := http.NewRequest(method, target, nil)
	if err != nil {
		panic(err)
	}
	r.ProtoMajor = 1
	for _, l := range lines {
		name, value, _ := strings.Cut(l, ": ")
		r.Header[http.CanonicalHeaderKey(name)] = append(r.Header[http.CanonicalHeaderKey(name)], value)
	}
	return r
}

func TestClassify(t *testing.T) {
	const html = "Accept: text/html,application/xhtml+xml;q=0.9,*/*;q=0.8"
	for _, c := range []struct {
		name string
		r    *http.Request
		want visitor
	}{
		{"a page is opened", request("GET", "/", "Sec-Fetch-Mode: navigate", html), navigation},
		{"an old browser opens a page", request("GET", "/", html), navigation},
		{"html in another case, with a weight", request("GET", "/", "Accept: image/png, Text/HTML;q=0.5"), navigation},
		{"a form is sent", request("POST", "/", "Sec-Fetch-Mode: navigate", html), program},
		{"an old browser sends a form", request("POST", "/", html), program},
		{"a script asks", request("GET", "/", "Sec-Fetch-Mode: cors"), tab},
		{"a script asks for html", request("GET", "/", "Sec-Fetch-Mode: cors", html), tab},
		{"an image", request("GET", "/", "Sec-Fetch-Mode: no-cors"), tab},
		{"a page fetched in advance", request("GET", "/", "Sec-Fetch-Mode: navigate", "Sec-Purpose: prefetch;prerender", html), tab},
		{"a page fetched in advance, the old way", request("GET", "/", "Purpose: prefetch", html), tab},
		{"a websocket of a page", request("GET", "/", "Upgrade: websocket", "Origin: http://x", "Sec-Fetch-Mode: websocket"), tab},
		{"a websocket of an old browser's page", request("GET", "/", "Upgrade: WebSocket", "Origin: http://x"), tab},
		{"a websocket of a program", request("GET", "/", "Upgrade: websocket"), program},
		{"curl", request("GET", "/", "Accept: */*"), program},
		{"git", request("POST", "/git-upload-pack", "Accept: application/x-git-upload-pack-result"), program},
		{"nothing said", request("HEAD", "/"), program},
		{"html is asked for with HEAD", request("HEAD", "/", html), program},
		{"html inside another word", request("GET", "/", "Accept: text/htmlx"), program},
	} {
		if got := classify(c.r); got != c.want {
			t.Errorf("%s: got %d, want %d", c.name, got, c.want)
		}
	}
}

func TestClassifyExtendedConnect(t *testing.T) {
	h2 := request("CONNECT", "/", "Origin: https://x")
	h2.ProtoMajor = 2
	h2.Header[":protocol"] = []string{"websocket"}
	h3 := request("CONNECT", "/", "Origin: https://x")
	h3.ProtoMajor, h3.Proto = 3, "websocket"
	plain := request("CONNECT", "/", "Origin: https://x")
	plain.ProtoMajor = 2
	if classify(h2) != tab || classify(h3) != tab || classify(plain) != program {
		t.Error("a WebSocket over HTTP/2 or HTTP/3 is not recognised")
	}
}

func BenchmarkClassify(b *testing.B) {
	r := request("GET", "/", "Accept: application/json, text/plain, */*")
	b.ReportAllocs()
	for b.Loop() {
		if classify(r) != program {
			b.Fatal("class")
		}
	}
}
