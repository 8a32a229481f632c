package gateway

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/codehub/gateway/caddymodule/internal/gateway/gatewaytest"
	"github.com/codehub/gateway/coordinator/workspace"
)

// A client that disconnects during its upload gets no answer and counts as gone, not as silent or malformed.
func TestAClientThatLeavesDuringItsUploadIsGone(t *testing.T) {
	var mu sync.Mutex
	var answers []string
	h := newHarness(t, func(o *Options) {
		o.Answered = func(_ *http.Request, _ workspace.ID, _, answer string, _ time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			answers = append(answers, answer)
		}
	})
	arrived := make(chan struct{})
	h.Run(one, gatewaytest.App(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost { // the gateway asks whether it answers
			return
		}
		_, _ = io.ReadFull(r.Body, make([]byte, len("hello")))
		arrived <- struct{}{}
		_, _ = io.Copy(io.Discard, r.Body)
	}))
	for _, c := range []struct {
		header, body, then string
		reset              bool
		want               []string
	}{
		{"Content-Length: 100", "hello", "", false, []string{"proxy"}},
		{"Content-Length: 100", "hello", "", true, []string{"proxy"}},
		{"Transfer-Encoding: chunked", "5\r\nhello\r\n", "", false, []string{"proxy"}},
		{"Transfer-Encoding: chunked", "5\r\nhello\r\n", "no length\r\n", false, []string{"proxy", "bad_body"}},
	} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(h.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "POST %s/x HTTP/1.1\r\nHost: localhost\r\n%s\r\nConnection: close\r\n%s\r\n\r\n%s", onePath, asAlice, c.header, c.body)
		<-arrived
		if c.then != "" {
			fmt.Fprint(conn, c.then)
			if got, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(got), "HTTP/1.1 400 ") {
				t.Errorf("%+v: %s %v", c, got, err)
			}
		}
		if c.reset {
			_ = conn.(*net.TCPConn).SetLinger(0)
		}
		conn.Close()
		h.waitServed()
		mu.Lock()
		if !slices.Equal(answers, c.want) {
			t.Errorf("%+v: answered %q", c, answers)
		}
		answers = nil
		mu.Unlock()
	}
}
