package codehub

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/codehub/gateway/caddymodule/internal/gateway/gatewaytest"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// bareApplication is an application that writes its answers as plain bytes, so that no library adds anything to them.
type bareApplication struct {
	net.Listener
	mu   sync.Mutex
	seen string // the last request but the probes of the gateway, as it was sent
}

// serveBare runs the workspace with an application that answers each request with what answer returns, and then closes
// the connection.
func (s *gatewayServer) serveBare(t *testing.T, answer func(r *http.Request) string) *bareApplication {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	app := &bareApplication{Listener: l}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go app.serve(c, answer)
		}
	}()
	s.Change(gatewaytest.One, func(r *store.Route) {
		r.Phase, r.Desired, r.Operation = workspace.PhaseRunning, workspace.DesiredRunning, workspace.OpNone
		r.Endpoint, r.PhaseChangedAt = l.Addr().String(), time.Now()
	})
	return app
}

func (a *bareApplication) serve(c net.Conn, answer func(r *http.Request) string) {
	defer c.Close()
	var raw bytes.Buffer
	r, err := http.ReadRequest(bufio.NewReader(io.TeeReader(c, &raw)))
	if err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, r.Body)
	if r.Header.Get(gatewaytest.UserHeader) != "" {
		a.mu.Lock()
		a.seen = raw.String()
		a.mu.Unlock()
	}
	_, _ = io.WriteString(c, answer(r))
}

// Seen returns the last request.
func (a *bareApplication) Seen() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.seen
}

// raw sends a request of the user alice for a path of the workspace, over a new connection, and returns the bytes of
// the answer. Each element of lines is a line of the header.
func (s *gatewayServer) raw(method, path string, lines ...string) string {
	s.t.Helper()
	conn, err := net.Dial("tcp", s.url[len("http://"):])
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(wait.Timeout))
	lines = append(lines, gatewaytest.UserHeader+": alice", "Host: localhost", "Connection: close")
	fmt.Fprintf(conn, "%s %s%s HTTP/1.1\r\n%s\r\n\r\n", method, gatewaytest.OnePath, path, strings.Join(lines, "\r\n"))
	got, err := io.ReadAll(conn)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(got)
}

// asPerson are the header lines that a browser sends to open a page.
var asPerson = []string{
	"Accept: text/html,*/*;q=0.8", "Accept-Encoding: gzip, br", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document",
	"Sec-Fetch-Site: none", "Sec-Fetch-User: ?1",
}

func packed(text string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = io.WriteString(z, text)
	_ = z.Close()
	return b.String()
}

// withLength returns an answer that consists of these header lines, its length and a body.
func withLength(body string, lines ...string) string {
	return strings.Join(append([]string{"HTTP/1.1 200 OK", fmt.Sprint("Content-Length: ", len(body))}, lines...), "\r\n") + "\r\n\r\n" + body
}

// TestAnswersPassUnmodified tests each row of the table "What changes on the way" in docs/http.md. The table names what
// Go and Caddy would change.
func TestAnswersPassUnmodified(t *testing.T) {
	s := startGateway(t, nil)
	s.encode = gatewaytest.AdaptedServer(t, readExample(t)).Encode
	s.load(nil, nil)
	untyped := "<html><head><meta charset=\"euc-kr\"></head><body>\xbe\xc8\xb3\xe7</body></html>"
	long := untyped + strings.Repeat(" ", 100_000)
	tarball := packed("a tarball")
	described := table(t, "docs/http.md")
	shown := make(map[string]bool) // the rows that have a test
	for _, c := range []struct {
		row    string // the first cell of the row
		answer string // of the application
		person bool   // a person opens it, or else a program asks
		ask    []string
		has    []string // lines and parts of what the client gets
		lacks  []string
		sent   []string // parts of what the application gets
		spared []string // what it does not get
	}{
		{row: "`Content-Type`", answer: "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + untyped, has: []string{untyped}, lacks: []string{"Content-Type"}},
		{row: "`Content-Type`", answer: "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + untyped, person: true, has: []string{untyped}, lacks: []string{"Content-Type"}},
		{row: "`Content-Type`", answer: withLength(long), has: []string{"Content-Length: ", long}, lacks: []string{"Content-Type"}},
		{row: "`Content-Type`", answer: withLength(long), person: true, has: []string{"Content-Length: ", long}, lacks: []string{"Content-Type", "Content-Encoding"}},
		{row: "`Content-Type`", answer: withLength(long, "Content-Type:"), person: true, has: []string{"Content-Type: \r\n", long}, lacks: []string{"text/html"}},
		{row: "`Content-Type`", answer: withLength("{}", "Content-Type: x/y"), has: []string{"Content-Type: x/y\r\n"}},
		{row: "`Accept-Encoding`", answer: withLength(tarball, "Content-Encoding: gzip", `ETag: "abc"`),
			has: []string{"Content-Encoding: gzip\r\n", `Etag: "abc"`, fmt.Sprint("Content-Length: ", len(tarball)), tarball}, spared: []string{"Accept-Encoding"}},
		{row: "`Accept-Encoding`", answer: withLength(tarball, "Content-Encoding: gzip"), ask: []string{"Accept-Encoding: gzip;q=0.5, br"},
			has: []string{tarball}, sent: []string{"Accept-Encoding: gzip;q=0.5, br\r\n"}},
		{row: "`Cache-Control`", answer: withLength("x", "Pragma: no-cache"), has: []string{"Pragma: no-cache\r\n"}, lacks: []string{"Cache-Control"}},
		{row: "`Cache-Control`", answer: withLength("x", "Pragma: no-cache", "Cache-Control: no-cache"), has: []string{"Cache-Control: no-cache\r\n"}},
		{row: "`Cache-Control`", answer: withLength("x"), ask: []string{"Pragma: no-cache"}, sent: []string{"Pragma: no-cache\r\n"}, spared: []string{"Cache-Control"}},
		{row: "`Cache-Control`", answer: withLength("x"), ask: []string{"Pragma: no-cache", "Cache-Control: no-cache"}, sent: []string{"Cache-Control: no-cache\r\n"}},
		{row: "`X-A : b`", answer: withLength("x", "X-A : b", "x-b  :c", "Set-Cookie : session=evil", "Content-Type : a/b"),
			has: []string{"X-A: b\r\n", "X-B: c\r\n", "Content-Type: a/b\r\n"}, lacks: []string{"evil"}},
		{row: "`X-A : b`", answer: "HTTP/1.1 200 OK\r\nConnection : close\r\nContent-Length : 1\r\nTransfer-Encoding : chunked\r\n\r\nxy", has: []string{"xy"}, lacks: []string{"Content-Length"}},
		{row: "`If-None-Match`, `If-Modified-Since`", answer: withLength(tarball, "Content-Type: text/html", "Content-Encoding: gzip", `ETag: W/"a,b"`, "Cache-Control: private"),
			person: true, ask: []string{`If-None-Match: "x", "a,b"`}, has: []string{"HTTP/1.1 304", `Etag: W/"a,b"`, "Cache-Control: private"}, lacks: []string{tarball, "Content-Encoding"}},
		{row: "`If-None-Match`, `If-Modified-Since`", answer: withLength(tarball, "Content-Type: text/html", "Content-Encoding: gzip", "Last-Modified: Wed, 21 Oct 2015 07:28:00 GMT"),
			person: true, ask: []string{"If-Modified-Since: Wed, 21 Oct 2015 07:28:00 GMT"}, has: []string{"HTTP/1.1 304"}, lacks: []string{tarball}},
		{row: "`If-None-Match`, `If-Modified-Since`", answer: withLength(tarball, "Content-Type: text/html", "Content-Encoding: gzip", `ETag: "new"`, "Last-Modified: Wed, 21 Oct 2015 07:28:00 GMT"),
			person: true, ask: []string{`If-None-Match: "abc"`, "If-Modified-Since: Wed, 21 Oct 2015 07:28:00 GMT"}, has: []string{"HTTP/1.1 200", tarball}},
		{row: "`If-None-Match`, `If-Modified-Since`", answer: withLength("<html><head></head>", "Content-Type: text/html", `ETag: "abc"`),
			person: true, ask: []string{`If-None-Match: "abc"`}, has: []string{"HTTP/1.1 200", "presence.js"}, lacks: []string{"Etag"}},
		{row: "`If-None-Match`, `If-Modified-Since`", answer: "HTTP/1.1 304 Not Modified\r\nETag: \"abc\"\r\n\r\n", ask: []string{`If-None-Match: "abc"`},
			has: []string{"HTTP/1.1 304", `Etag: "abc"`}, sent: []string{`If-None-Match: "abc"`}},
		{row: "`Date`", answer: withLength("x", "Date: Wed, 21 Oct 2015 07:28:00 GMT"), has: []string{"Date: Wed, 21 Oct 2015 07:28:00 GMT\r\n"}},
		{row: "`Date`", answer: withLength("x"), has: []string{"Date: "}},
		{row: "`Server`", answer: withLength("x", "Server: mine"), has: []string{"Server: mine\r\n"}, lacks: []string{"Server: Caddy"}},
		{row: "`Server`", answer: withLength("x"), lacks: []string{"Server: "}},
		{row: "`User-Agent`", answer: withLength("x"), spared: []string{"User-Agent"}},
		{row: "`Via`", answer: withLength("x"), has: []string{"Via: 1.1 Caddy\r\n"}, sent: []string{"Via: 1.1 Caddy\r\n"}},
		{row: "names of header fields", answer: withLength("x", "x-lower: 1", "X_UNDER: 2", "x.dot: 3"), has: []string{"X-Lower: 1\r\n", "X_under: 2\r\n", "X.dot: 3\r\n"}},
		{row: "the reason after the status", answer: "HTTP/1.1 299 Mine\r\nContent-Length: 0\r\n\r\n", has: []string{"HTTP/1.1 299 "}, lacks: []string{"Mine"}},
		{row: "how the body is framed", answer: "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nabc", has: []string{"Transfer-Encoding: chunked\r\n", "3\r\nabc\r\n0\r\n\r\n"}},
		{row: "how the body is framed", answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 6\r\n\r\n",
			has: []string{"Trailer: X-Sum\r\n", "3\r\nabc\r\n0\r\nX-Sum: 6\r\n"}},
		{row: "`Connection`, `Keep-Alive`, `Upgrade` and the like", answer: withLength("x", "Keep-Alive: timeout=5", "Connection: X-Hop", "X-Hop: 1"), lacks: []string{"Keep-Alive", "X-Hop"}},
	} {
		t.Run(fmt.Sprintf("%s %.60q", c.row, c.answer), func(t *testing.T) {
			app := s.serveBare(t, func(*http.Request) string { return c.answer })
			ask := c.ask
			if c.person {
				ask = append(ask, asPerson...)
			}
			got := s.raw("GET", "/x", ask...)
			for _, want := range c.has {
				if !strings.Contains(unchunked(got), want) && !strings.Contains(got, want) {
					t.Errorf("the answer lacks %.60q:\n%.600q", want, got)
				}
			}
			for _, no := range c.lacks {
				if strings.Contains(got, no) {
					t.Errorf("the answer has %.60q:\n%.600q", no, got)
				}
			}
			for _, want := range c.sent {
				if !strings.Contains(app.Seen(), want) {
					t.Errorf("the application is not told %q:\n%s", want, app.Seen())
				}
			}
			for _, no := range c.spared {
				if strings.Contains(app.Seen(), no) {
					t.Errorf("the application is told %q:\n%s", no, app.Seen())
				}
			}
			if shown[c.row] = true; !strings.Contains(described, "\n| "+c.row+" |") {
				t.Errorf("the table of docs/http.md has no row %s", c.row)
			}
		})
	}
	for line := range strings.SplitSeq(described, "\n") {
		if row, _, ok := strings.Cut(strings.TrimPrefix(line, "| "), " | "); ok && !shown[row] {
			t.Errorf("no test shows the row %s", line)
		}
	}
}

// table returns the rows of a guide's table of what changes on the way.
func table(t *testing.T, guide string) string {
	t.Helper()
	text, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\n| part of the message | ")
	_, rest, _ = strings.Cut(rest, "|---|---|---|")
	found, _, _ := strings.Cut(rest, "\n\n")
	return found
}

// unchunked is the answer with its body as one piece.
func unchunked(raw string) string {
	resp, err := http.ReadResponse(bufio.NewReader(strings.NewReader(raw)), nil)
	if err != nil {
		return raw
	}
	defer resp.Body.Close()
	head, _, _ := strings.Cut(raw, "\r\n\r\n")
	body, _ := io.ReadAll(resp.Body)
	return head + "\r\n\r\n" + string(body)
}
