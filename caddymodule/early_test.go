package codehub

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/codehub/gateway/caddymodule/internal/gateway/gatewaytest"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/wait"
)

// TestEarlyDataDoesNothing: a request that may be a replay wakes nothing and does not count as use.
func TestEarlyDataDoesNothing(t *testing.T) {
	s := startGateway(t, nil)
	s.Run(gatewaytest.One, gatewaytest.Echo(t))
	s.Change(gatewaytest.Two, func(*store.Route) {})
	wait.Until(t, "the workspace answers", func() bool {
		status, _ := s.send("GET", gatewaytest.OnePath+"/", "")
		return status == 200
	})
	for s.Used(gatewaytest.One) {
	}
	for _, path := range []string{gatewaytest.OnePath, gatewaytest.TwoPath} {
		for _, kind := range []string{"navigate", "cors", ""} {
			if status, got := s.send("GET", path+"/", "", "Early-Data", "1", "Sec-Fetch-Mode", kind); status != http.StatusTooEarly || !strings.Contains(got, "problem:too-early") {
				t.Errorf("%s, %q: %d %s", path, kind, status, got)
			}
		}
	}
	if s.Used(gatewaytest.One) || s.Woken() {
		t.Error("early data counts as use or wakes")
	}
}

// TestASilentClientIsNotTheApplicationsFault: if a client stops sending in the middle of a request body, it gets 408.
// If the body becomes invalid in the middle, the client gets 400.
func TestASilentClientIsNotTheApplicationsFault(t *testing.T) {
	s := startGateway(t, nil)
	s.load(nil, map[string]any{"read_idle_timeout": "100ms"})
	s.Run(gatewaytest.One, gatewaytest.Echo(t))
	for _, c := range []struct{ header, body, want string }{
		{"Content-Length: 100", "only a part", "HTTP/1.1 408 "},
		{"Transfer-Encoding: chunked", "5\r\nhello\r\n", "HTTP/1.1 408 "},
		{"Transfer-Encoding: chunked", "5\r\nhello\r\nno length\r\n", "HTTP/1.1 400 "},
	} {
		conn, err := net.Dial("tcp", s.url[len("http://"):])
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(wait.Timeout))
		fmt.Fprintf(conn, "POST %s/x HTTP/1.1\r\nHost: localhost\r\n%s: alice\r\nConnection: close\r\n%s\r\n\r\n%s", gatewaytest.OnePath, gatewaytest.UserHeader, c.header, c.body)
		got, err := io.ReadAll(bufio.NewReader(conn))
		if err != nil || !strings.HasPrefix(string(got), c.want) || !strings.Contains(string(got), "problem:body-incomplete") || !strings.Contains(string(got), "Connection: close\r\n") {
			t.Errorf("%s: got %q %v", c.want, got, err)
		}
	}
}

// TestTheMinuteOfCaddyDoesNotApply checks that Caddy's default of one minute does not apply to clients that talk to an
// application, in either direction. Any other limit applies, except to WebSockets.
func TestTheMinuteOfCaddyDoesNotApply(t *testing.T) {
	for _, c := range []struct {
		name, proto string
		timeout     time.Duration
		minRate     int64
		want        bool // unlimited
	}{
		{"the default", "HTTP/1.1", time.Minute, 0, true},
		{"another time", "HTTP/1.1", 30 * time.Second, 0, false},
		{"a rate", "HTTP/1.1", time.Minute, 100, false},
		{"a WebSocket over HTTP/3", "websocket", 30 * time.Second, 0, true},
	} {
		r := gatewaytest.NewRequest("POST", "http://h/")
		r.Body = io.NopCloser(strings.NewReader("x"))
		if c.proto == "websocket" {
			r.Method, r.Proto, r.ProtoMajor = http.MethodConnect, c.proto, 3
		}
		reader, writer := new(caddyhttp.IdleTimeoutReader), new(caddyhttp.IdleTimeoutWriter)
		reader.Deadline = caddyhttp.IdleDeadline{Timeout: c.timeout, MinRate: c.minRate}
		writer.Deadline = reader.Deadline
		restore := noIdleTimeout(r.WithContext(caddyhttp.ContextWithIdleTimeouts(r.Context(), reader, writer)))
		for direction, d := range map[string]*caddyhttp.IdleDeadline{"reading": &reader.Deadline, "writing": &writer.Deadline} {
			if got := d.Timeout > 24*time.Hour && d.MinRate == 0; got != c.want {
				t.Errorf("%s, %s: unlimited %v", c.name, direction, got)
			}
		}
		restore()
		if times := []time.Duration{reader.Deadline.Timeout, writer.Deadline.Timeout}; !slices.Equal(times, []time.Duration{c.timeout, c.timeout}) {
			t.Errorf("%s: restored to %v", c.name, times)
		}
	}
}
