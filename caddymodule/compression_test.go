package codehub

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/codehub/gateway/caddymodule/internal/gateway/gatewaytest"
	"github.com/codehub/gateway/coordinator/wait"
)

// wiki is an application whose documents have strong ETags. It serves them as HTML, JSON or text, whole or in ranges,
// and saves a file only if it has not changed meanwhile.
func wiki(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPut {
		if r.Header.Get("If-Match") != `"abc"` {
			w.WriteHeader(http.StatusPreconditionFailed)
		}
		return
	}
	kind, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	w.Header().Set("Content-Type", kind+"/"+rest)
	content := []byte("<html><head></head>" + strings.Repeat("words ", 1000))
	if r.URL.Query().Has("packed") {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write(content)
		_ = z.Close()
		w.Header().Set("Content-Encoding", "gzip")
		content = b.Bytes()
	}
	if r.URL.Query().Has("etag") {
		w.Header().Set("Etag", `"abc"`)
	}
	if r.URL.Query().Has("attachment") {
		w.Header().Set("Content-Disposition", "attachment")
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}

// TestCompressionChangesPagesOnly: Caddyfile.example compresses the pages that the gateway requests uncompressed from
// applications. Every other answer arrives as if nothing were compressed here, with the same bytes, length and ranges.
// A browser sends the application the same ETag that the application gave it.
func TestCompressionChangesPagesOnly(t *testing.T) {
	s := startGateway(t, nil)
	s.Run(gatewaytest.One, gatewaytest.App(t, wiki))
	send := func(method, path string, header map[string]string) string {
		r, err := http.NewRequest(method, s.url+gatewaytest.OnePath+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{gatewaytest.UserHeader: {"alice"}, "Accept-Encoding": {"gzip, deflate, br, zstd"}}
		for name, value := range header {
			r.Header.Set(name, value)
		}
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		resp.Header.Del("Date")
		return fmt.Sprintln(resp.Status, resp.ContentLength, resp.Header, string(body))
	}
	person := map[string]string{"Accept": "text/html,*/*;q=0.8", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document", "Sec-Fetch-Site": "same-origin", "Sec-Fetch-User": "?1"}
	script := map[string]string{"Accept": "text/html,*/*", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty", "Sec-Fetch-Site": "same-origin"}
	with := func(header map[string]string, more ...string) map[string]string {
		header = maps.Clone(header)
		for i := 0; i < len(more); i += 2 {
			header[more[i]] = more[i+1]
		}
		return header
	}
	requests := []struct {
		method, path string
		header       map[string]string
		want         string // what the answer has
		changed      bool   // by compression
	}{
		{"GET", "/text/html", person, "presence.js", true},
		{"GET", "/text/html?etag", person, "presence.js", true}, // the script changes it, so its ETag goes
		{"GET", "/text/html", with(person, "Accept-Encoding", "identity"), "presence.js", true},
		{"GET", "/text/html?packed", person, "Content-Encoding:[gzip]", false},
		{"GET", "/text/html?etag&attachment", person, `Etag:["abc"]`, false},
		{"GET", "/text/html?etag&attachment", with(person, "Range", "bytes=100-", "If-Range", `"abc"`), "206", false},
		{"GET", "/text/html?etag", script, `Etag:["abc"]`, false},
		{"GET", "/text/html?etag", with(script, "If-None-Match", `"abc"`, "Accept", "*/*"), "304", false},
		{"GET", "/text/html?etag", with(script, "Range", "bytes=100-199"), "206", false},
		{"HEAD", "/text/html?etag", script, "Content-Length:[6019]", false},
		{"GET", "/application/json?etag", script, `Etag:["abc"]`, false},
		{"GET", "/application/json", script, "Content-Length:[6019]", false},
		{"GET", "/text/plain", person, "Content-Length:[6019]", false},
		{"PUT", "/text/html", with(script, "If-Match", `"abc"`), "200", false},
		{"PUT", "/text/html", with(script, "If-Match", `"old"`), "412", false},
	}
	var plain []string
	for _, r := range requests {
		plain = append(plain, send(r.method, r.path, r.header))
	}
	s.encode = gatewaytest.AdaptedServer(t, readExample(t)).Encode
	s.load(nil, nil)
	for i, r := range requests {
		got := send(r.method, r.path, r.header)
		if !strings.Contains(plain[i], r.want) || (got != plain[i]) != r.changed {
			t.Errorf("%s %s %v:\n%.400q\nwith compression:\n%.400q", r.method, r.path, r.header, plain[i], got)
		}
	}
}

// TestStreamsPassThroughCompression checks that streams arrive immediately, even in a browser that accepts compression.
func TestStreamsPassThroughCompression(t *testing.T) {
	s := startGateway(t, nil)
	s.encode = gatewaytest.AdaptedServer(t, readExample(t)).Encode
	s.load(nil, nil)
	line := strings.Repeat("x", 1000) + "\n"
	ctx, cancel := context.WithTimeout(t.Context(), wait.Timeout)
	defer cancel()
	for kind, encoding := range map[string]string{"text/event-stream": "", "application/x-ndjson": "", "text/html": "gzip"} {
		read := make(chan bool)
		s.Run(gatewaytest.One, gatewaytest.App(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", kind)
			if r.URL.Path == "/" { // the gateway asks whether it answers: that must not take what is meant for the stream
				return
			}
			for {
				_, _ = io.WriteString(w, line)
				_ = http.NewResponseController(w).Flush()
				select {
				case <-read:
				case <-r.Context().Done():
					return
				}
			}
		}))
		r, err := http.NewRequestWithContext(ctx, "GET", s.url+gatewaytest.OnePath+"/lines", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{gatewaytest.UserHeader: {"alice"}, "Accept-Encoding": {"gzip"}, "Accept": {"text/html, " + kind}}
		resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
		if err != nil {
			t.Fatal(kind, err)
		}
		defer resp.Body.Close()
		if got := resp.Header.Get("Content-Encoding"); got != encoding {
			t.Errorf("%s has the encoding %q", kind, got)
		}
		var body io.Reader = resp.Body
		if encoding != "" {
			if body, err = gzip.NewReader(resp.Body); err != nil {
				t.Fatal(kind, err)
			}
		}
		lines := bufio.NewReader(body)
		for range 3 { // the next one is not written before this one is read
			if got, err := lines.ReadString('\n'); err != nil || !strings.HasSuffix(got, "xxx\n") {
				t.Fatalf("%s: %q %v", kind, got, err)
			}
			read <- true
		}
	}
	s.Run(gatewaytest.One, gatewaytest.EchoWebSocket(t, nil))
	c, resp, err := websocket.Dial(ctx, s.url+gatewaytest.OnePath+"/ws", &websocket.DialOptions{HTTPHeader: http.Header{
		gatewaytest.UserHeader: {"alice"}, "Accept-Encoding": {"gzip, deflate, br, zstd"}, "Accept": {"text/html"}, "Origin": {s.url},
	}})
	if err != nil {
		t.Fatal(err, resp)
	}
	defer c.CloseNow()
	if err := c.Write(ctx, websocket.MessageText, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	if _, got, err := c.Read(ctx); err != nil || string(got) != "hello" {
		t.Errorf("%q %v", got, err)
	}
}
