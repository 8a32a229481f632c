package codehub

import (
	"net/http"
	"strings"
	"testing"

	"github.com/codehub/gateway/caddymodule/internal/gateway/gatewaytest"
)

// answering is an application that answers everything with these bytes.
func answering(t *testing.T, raw string) *gatewayServer {
	t.Helper()
	s := startGateway(t, nil)
	s.Run(gatewaytest.One, gatewaytest.App(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = conn.Write([]byte(raw))
		_ = conn.Close()
	}))
	return s
}

// TestAnswersThatAreNone covers answers that Caddy alone does not handle: net/http panics when a handler sends a status
// below 100, and reverse_proxy does not answer if the application switches protocols without being asked.
func TestAnswersThatAreNone(t *testing.T) {
	for name, raw := range map[string]string{
		"a status below 100":         "HTTP/1.1 099 Evil\r\nContent-Length: 4\r\nX-Evil: 1\r\n\r\nevil",
		"a status of zero":           "HTTP/1.1 000 Evil\r\nContent-Length: 4\r\nX-Evil: 1\r\n\r\nevil",
		"protocols switch unasked":   "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nX-Evil: 1\r\n\r\nevil",
		"to a protocol without name": "HTTP/1.1 101 Switching Protocols\r\nX-Evil: 1\r\n\r\nevil",
	} {
		t.Run(name, func(t *testing.T) {
			s := answering(t, raw)
			if status, got := s.send("GET", gatewaytest.OnePath+"/", ""); status != 502 || !strings.Contains(got, "problem:no-answer") || strings.Contains(got, "evil") {
				t.Errorf("a program: %d %s", status, got)
			}
			if status, got := s.send("GET", gatewaytest.OnePath+"/", "", "Sec-Fetch-Mode", "navigate"); status != 502 || !strings.Contains(got, "gave no answer") {
				t.Errorf("a page: %d %s", status, got)
			}
		})
	}
}
