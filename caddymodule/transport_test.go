package codehub

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"
	"time"

	"github.com/codehub/gateway/caddymodule/internal/gateway/gatewaytest"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/wait"
)

// serveConnections runs the workspace with an application that calls serve for each connection. Each of the gateway's
// probes has a connection of its own.
func (s *gatewayServer) serveConnections(t *testing.T, serve func(c *net.TCPConn, r *bufio.Reader)) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				r := bufio.NewReader(c)
				if start, err := r.Peek(len("GET / HTTP/1.1\r\n")); err != nil || string(start) == "GET / HTTP/1.1\r\n" {
					_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
					return
				}
				serve(c.(*net.TCPConn), r)
			}()
		}
	}()
	s.Run(gatewaytest.One, gatewaytest.Echo(t)) // for the phase
	s.Change(gatewaytest.One, func(r *store.Route) { r.Endpoint = l.Addr().String() })
}

// upload returns a POST of the user alice with a body of n bytes.
func (s *gatewayServer) upload(t *testing.T, n int, chunked bool) *http.Request {
	t.Helper()
	r := gatewaytest.NewRequest("POST", s.url+gatewaytest.OnePath+"/x", gatewaytest.UserHeader+": alice").WithContext(t.Context())
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(pattern(n))), int64(n)
	if chunked {
		r.ContentLength = -1
	}
	return r
}

// pattern returns n bytes in which missing or swapped bytes would be noticed.
func pattern(n int) []byte {
	b := make([]byte, 0, n+8)
	for i := 0; len(b) < n; i++ {
		b = fmt.Appendf(b, "%08x", i)
	}
	return b[:n]
}

// TestAnAnswerThatBeginsBeforeItsUploadHasEnded gives every byte back, as Node's q.pipe(r) does. Go's server stops reading
// the body of a request over HTTP/1 when the answer begins.
func TestAnAnswerThatBeginsBeforeItsUploadHasEnded(t *testing.T) {
	s := startGateway(t, nil)
	s.encode = gatewaytest.AdaptedServer(t, readExample(t)).Encode
	s.load(nil, nil)
	s.Run(gatewaytest.One, gatewaytest.App(t, func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		_ = c.EnableFullDuplex()
		_ = c.Flush()
		b := make([]byte, 16<<10)
		for {
			n, err := r.Body.Read(b)
			_, _ = w.Write(b[:n])
			_ = c.Flush()
			if err != nil {
				return
			}
		}
	}))
	client := &http.Client{Transport: new(http.Transport), Timeout: time.Minute}
	defer client.CloseIdleConnections()
	for _, accept := range []string{"*/*", "text/html"} {
		for _, chunked := range []bool{false, true} {
			for _, n := range []int{1, 70_000, 300_000, 1_000_000, 3_000_000} {
				for range 4 {
					r := s.upload(t, n, chunked)
					r.Header.Set("Accept", accept)
					resp, err := client.Do(r)
					if err != nil {
						t.Fatal(n, chunked, err)
					}
					got, err := io.ReadAll(resp.Body)
					_ = resp.Body.Close()
					if err != nil || !bytes.Equal(got, pattern(n)) {
						t.Errorf("of %d bytes (chunked: %v) %d come back: %v", n, chunked, len(got), err)
					}
				}
			}
		}
	}
}

// TestClientsKeepTheirConnections: a client can send any number of requests over one connection, with and without a
// body. The application answers each request only after it has read the body.
func TestClientsKeepTheirConnections(t *testing.T) {
	s := startGateway(t, nil)
	s.Run(gatewaytest.One, gatewaytest.App(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	client := &http.Client{Transport: new(http.Transport), Timeout: time.Minute}
	defer client.CloseIdleConnections()
	made := 0
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		if !info.Reused {
			made++
		}
	}})
	for i := range 300 {
		r := s.upload(t, 1000, i%2 == 0)
		if i%3 != 0 {
			r.Method, r.Body, r.ContentLength = http.MethodGet, nil, 0
		}
		resp, err := client.Do(r.WithContext(ctx))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != 200 {
			t.Fatalf("request %d: %s", i, resp.Status)
		}
	}
	if made != 1 {
		t.Errorf("300 requests took %d connections", made)
	}
}

// TestAnEarlyRefusalReachesTheClient: the application reads no body, answers 413 and closes the connection. Writing to
// it then fails, possibly before its answer has been read.
func TestAnEarlyRefusalReachesTheClient(t *testing.T) {
	s := startGateway(t, nil)
	s.serveConnections(t, func(c *net.TCPConn, r *bufio.Reader) {
		for { // the header
			if line, err := r.ReadString('\n'); err != nil || line == "\r\n" {
				break
			}
		}
		_, _ = io.WriteString(c, "HTTP/1.1 413 Payload Too Large\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ntoo large\r\n0\r\n\r\n")
		_ = c.SetLinger(0) // what was not read makes the kernel send a reset in any case
	})
	client := &http.Client{Transport: new(http.Transport), Timeout: time.Minute}
	defer client.CloseIdleConnections()
	for i := range 20 {
		resp, err := client.Do(s.upload(t, 3_000_000, i%2 == 1))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusRequestEntityTooLarge || string(got) != "too large" {
			t.Errorf("%d: got %d %q %v", i, resp.StatusCode, got, err)
		}
	}
	// This client reads nothing before it has sent everything.
	body := pattern(8_000_000)
	for range 3 {
		conn, err := net.Dial("tcp", s.url[len("http://"):])
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(wait.Timeout))
		fmt.Fprintf(conn, "POST %s/x HTTP/1.1\r\nHost: localhost\r\n%s: alice\r\nContent-Length: %d\r\n\r\n", gatewaytest.OnePath, gatewaytest.UserHeader, len(body))
		_, sent := conn.Write(body) // fails where this process stands still for too long
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusRequestEntityTooLarge || string(got) != "too large" {
			t.Errorf("a client that sends first (%v): %d %q %v", sent, resp.StatusCode, got, err)
		}
	}
}

// TestConnectionsAreGivenUpSoon: an application may close an idle connection at any time. A POST that is sent just then
// fails, because it is not repeated. So the gateway closes idle connections before applications do.
func TestConnectionsAreGivenUpSoon(t *testing.T) {
	s := startGateway(t, nil)
	type end struct {
		requests int
		idle     time.Duration
	}
	ended := make(chan end, 100)
	s.serveConnections(t, func(c *net.TCPConn, r *bufio.Reader) {
		e, last := end{}, time.Now()
		for {
			q, err := http.ReadRequest(r)
			if err != nil {
				e.idle = time.Since(last)
				ended <- e
				return
			}
			_, _ = io.Copy(io.Discard, q.Body)
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nKeep-Alive: timeout=0\r\n\r\nok")
			last = time.Now()
			e.requests++
		}
	})
	for _, method := range []string{"POST", "GET", "PATCH"} {
		for range 3 { // at once after each other they share a connection
			if status, got := s.send(method, gatewaytest.OnePath+"/x", "body"); status != 200 || got != "ok" {
				t.Fatalf("%s: %d %s", method, status, got)
			}
		}
		select {
		case e := <-ended:
			t.Logf("%s: %d requests, then given up after %v", method, e.requests, e.idle)
		case <-time.After(wait.Timeout):
			t.Fatalf("%s: the connection is kept", method)
		}
	}
	if idleConnection > 100*time.Millisecond {
		t.Errorf("connections are kept for %v: an application whose keepAliveTimeout is 200 ms breaks off requests", idleConnection)
	}
}

// TestExpectContinueIsTheApplications: the client sends its body when the application asks for it.
func TestExpectContinueIsTheApplications(t *testing.T) {
	s := startGateway(t, map[string]any{"proxy": map[string]any{
		"handler": "reverse_proxy", "dynamic_upstreams": map[string]any{"source": "codehub"},
		"transport": map[string]any{"protocol": "http", "expect_continue_timeout": "300ms"},
	}})
	header := func(r *bufio.Reader) (all string) {
		for {
			line, err := r.ReadString('\n')
			if all += line; err != nil || line == "\r\n" {
				return all
			}
		}
	}
	ask := func() (net.Conn, *bufio.Reader) {
		conn, err := net.Dial("tcp", s.url[len("http://"):])
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_ = conn.SetDeadline(time.Now().Add(wait.Timeout))
		fmt.Fprintf(conn, "POST %s/x HTTP/1.1\r\nHost: localhost\r\n%s: alice\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n", gatewaytest.OnePath, gatewaytest.UserHeader)
		return conn, bufio.NewReader(conn)
	}
	// It refuses.
	for _, connection := range []string{"close", "keep-alive"} {
		s.serveConnections(t, func(c *net.TCPConn, r *bufio.Reader) {
			if got := header(r); !strings.Contains(got, "Expect: 100-continue\r\n") {
				t.Errorf("it is told %q", got)
			}
			fmt.Fprintf(c, "HTTP/1.1 417 No\r\nContent-Length: 2\r\nConnection: %s\r\n\r\nno", connection)
			_, _ = io.Copy(io.Discard, r)
		})
		_, r := ask()
		got, err := io.ReadAll(r)
		if err != nil || !strings.HasPrefix(string(got), "HTTP/1.1 417 ") || !strings.HasSuffix(string(got), "no") || !strings.Contains(string(got), "Connection: close\r\n") {
			t.Errorf("%s: got %q %v", connection, got, err)
		}
	}
	// It accepts, or it ignores the header, as HTTP/1.0 does.
	for _, accepts := range []bool{true, false} {
		s.serveConnections(t, func(c *net.TCPConn, r *bufio.Reader) {
			header(r)
			if accepts {
				_, _ = io.WriteString(c, "HTTP/1.1 100 Continue\r\n\r\n")
			}
			body := make([]byte, 4)
			_, _ = io.ReadFull(r, body)
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\n%s", body)
		})
		conn, r := ask()
		if line := header(r); !strings.HasPrefix(line, "HTTP/1.1 100 ") {
			t.Errorf("it accepts: %v, got %q", accepts, line)
		}
		_, _ = io.WriteString(conn, "body")
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(resp.Body); err != nil || string(got) != "body" || resp.StatusCode != 200 {
			t.Errorf("it accepts: %v, got %d %q %v", accepts, resp.StatusCode, got, err)
		}
	}
}
