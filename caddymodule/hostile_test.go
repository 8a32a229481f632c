package codehub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/codehub/gateway/caddymodule/internal/gateway/gatewaytest"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/wait"
)

// rawApp starts an application. It answers a user's request by calling serve with the connection, once the request's
// header has arrived. It answers normally when the gateway itself asks whether it is up.
func rawApp(t *testing.T, serve func(net.Conn)) *httptest.Server {
	t.Helper()
	return gatewaytest.App(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(gatewaytest.UserHeader) == "" {
			return
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		serve(conn)
	})
}

// endless returns a serve function that writes begin, and then writes again over and over until the other side closes
// the connection.
func endless(begin, again string) func(net.Conn) {
	return func(c net.Conn) {
		if _, err := io.WriteString(c, begin); err != nil {
			return
		}
		for {
			if _, err := io.WriteString(c, again); err != nil {
				return
			}
		}
	}
}

// silent returns a serve function that writes begin, and then nothing until the other side closes the connection.
func silent(begin string) func(net.Conn) {
	return func(c net.Conn) {
		if _, err := io.WriteString(c, begin); err == nil {
			_, _ = io.Copy(io.Discard, c)
		}
	}
}

// TestHostileWorkspaceHarmsOnlyItself: a hostile workspace can make only its own requests fail or wait. The process
// does not end, and its memory does not grow.
func TestHostileWorkspaceHarmsOnlyItself(t *testing.T) {
	s := startGateway(t, nil)
	s.Run(gatewaytest.Two, gatewaytest.Echo(t))
	for _, tt := range []struct {
		name  string
		serve func(net.Conn)
		// answered says that the workspace's own request must get the gateway's answer: 502.
		answered bool
	}{
		{"headers without an end", endless("HTTP/1.1 200 OK\r\n", "X-Long: "+strings.Repeat("x", 4096)+"\r\n"), true},
		{"one header without an end", endless("HTTP/1.1 200 OK\r\nX-Long: ", strings.Repeat("x", 4096)), true},
		{"informational responses without an end", endless("", "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"), false},
		{"no HTTP", endless("\x00\x01\x02", strings.Repeat("\xff", 4096)), true},
		{"nothing", silent(""), false},
		{"half a header", silent("HTTP/1.1 200 OK\r\nContent-Le"), false},
		{"a body that does not come", silent("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"), false},
		{"a body without an end", endless("HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775807\r\n\r\n", strings.Repeat("x", 4096)), false},
		{"chunks without an end", endless("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "1\r\nx\r\n"), false},
		{"a chunk of a wrong length", silent("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\nx"), false},
		{"a half-closed connection", func(c net.Conn) {
			_ = c.(*net.TCPConn).CloseWrite()
			_, _ = io.Copy(io.Discard, c)
		}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s.Run(gatewaytest.One, rawApp(t, tt.serve))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			own := make(chan int, 1)
			go func() { own <- s.status(ctx, gatewaytest.OnePath) }()
			if tt.answered {
				if got := <-own; got != http.StatusBadGateway {
					t.Errorf("its own request got %d, want 502", got)
				}
			}
			for range 20 {
				if got := s.status(t.Context(), gatewaytest.TwoPath); got != http.StatusOK {
					t.Fatalf("a request to another workspace got %d", got)
				}
			}
			cancel()
			if !tt.answered {
				<-own
			}
		})
	}
	if grown := heap(); grown > 200<<20 {
		t.Errorf("the process has %d MiB in its heap at the end", grown>>20)
	}
}

// status sends a request and returns the status of the answer, or 0 if there is no answer. It does not read the answer
// to its end.
func (s *gatewayServer) status(ctx context.Context, path string) int {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path+"/", nil)
	if err != nil {
		return 0
	}
	r.Header.Set(gatewaytest.UserHeader, "alice")
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	if err != nil {
		return 0
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestSlowClientsHarmOnlyThemselves: clients that send their headers byte by byte, or do not read, do not keep other
// clients waiting.
func TestSlowClientsHarmOnlyThemselves(t *testing.T) {
	s := startGateway(t, nil)
	s.Run(gatewaytest.One, gatewaytest.Echo(t))
	s.Run(gatewaytest.Two, rawApp(t, endless("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "1000\r\n"+strings.Repeat("x", 4096)+"\r\n")))
	for i := range 500 {
		conn, err := net.Dial("tcp", s.url[len("http://"):])
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		text := "GET " + gatewaytest.OnePath + "/ HTTP/1.1\r\nHost: a\r\nX-Slow"
		if i%2 == 0 { // it does not read what it gets
			text = "GET " + gatewaytest.TwoPath + "/ HTTP/1.1\r\nHost: a\r\n" + gatewaytest.UserHeader + ": alice\r\n\r\n"
		}
		if _, err := io.WriteString(conn, text); err != nil {
			t.Fatal(err)
		}
	}
	for range 100 {
		if got := s.status(t.Context(), gatewaytest.OnePath); got != http.StatusOK {
			t.Fatalf("a request among slow ones got %d", got)
		}
	}
	if grown := heap(); grown > 300<<20 {
		t.Errorf("500 slow clients cost %d MiB", grown>>20)
	}
}

// TestTenThousandHeldRequests: ten thousand requests wait for a sleeping workspace. The requests above the limit are
// refused immediately, and running workspaces can be reached as before.
func TestTenThousandHeldRequests(t *testing.T) {
	const requests, limit = 10_000, 1_000
	s := startGateway(t, nil)
	s.load(nil, map[string]any{"protocols": []string{"h1", "h2c"}})
	s.Wakes.SetMaxHeld(limit, limit)
	s.Run(gatewaytest.One, gatewaytest.Echo(t))
	if got := s.status(t.Context(), gatewaytest.OnePath); got != http.StatusOK {
		t.Fatalf("before, the workspace that runs gives %d", got)
	}
	s.Change(gatewaytest.Two, func(*store.Route) {})
	ctx, cancel := context.WithTimeout(t.Context(), 2*wait.Timeout)
	defer cancel()
	refused := make(chan error, requests)
	// All connections are opened before the requests are sent at the same time, because a server closes a connection if
	// the client takes more than two seconds for its first frames.
	transports := make([]*http.Transport, requests/200)
	for i := range transports {
		transport := &http.Transport{Protocols: new(http.Protocols)}
		transport.Protocols.SetUnencryptedHTTP2(true)
		defer transport.CloseIdleConnections()
		transports[i] = transport
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+gatewaytest.OnePath+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set(gatewaytest.UserHeader, "alice")
		wait.For(t, "a connection stands", func() error {
			resp, err := transport.RoundTrip(r)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			_, err = io.Copy(io.Discard, resp.Body)
			return err
		})
	}
	var clients sync.WaitGroup
	for _, transport := range transports {
		for range 200 {
			clients.Go(func() {
				r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+gatewaytest.TwoPath+"/", nil)
				if err != nil {
					refused <- err
					return
				}
				r.Header.Set(gatewaytest.UserHeader, "alice")
				resp, err := transport.RoundTrip(r)
				switch {
				case ctx.Err() != nil:
				case err != nil:
					refused <- err
				default:
					_ = resp.Body.Close()
					if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
						refused <- fmt.Errorf("status %s, Retry-After %q", resp.Status, resp.Header.Get("Retry-After"))
						return
					}
					refused <- nil
				}
			})
		}
	}
	for i := range requests - limit {
		select {
		case err := <-refused:
			if err != nil {
				t.Fatal(err)
			}
		case <-ctx.Done():
			t.Fatalf("%d of %d requests were refused in time", i, requests-limit)
		}
	}
	s.WaitHeld(limit)
	for range 20 {
		if got := s.status(t.Context(), gatewaytest.OnePath); got != http.StatusOK {
			t.Fatalf("a request to a workspace that runs got %d", got)
		}
	}
	cancel()
	clients.Wait()
	s.WaitHeld(0)
	if len(refused) > 0 {
		t.Errorf("another one was answered: %v", errors.Join(<-refused))
	}
}
