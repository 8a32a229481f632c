package codehub

//lint:file-ignore SA1019 the client of net/http refuses the field :protocol, which makes a CONNECT an extended one

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/net/http2"

	"github.com/codehub/gateway/caddymodule/internal/gateway/gatewaytest"
	"github.com/codehub/gateway/coordinator/wait"
)

// extendedConnect is a variable that must be in a process's environment from the start, so that the process supports
// WebSockets over HTTP/2.
const extendedConnect = "GODEBUG=http2xconnect=1"

// TestWebSocketOverHTTP2 runs its body in a process of its own, because Go reads extendedConnect only once, before any
// test.
func TestWebSocketOverHTTP2(t *testing.T) {
	if os.Getenv("GODEBUG") != "http2xconnect=1" {
		again := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestWebSocketOverHTTP2$", "-test.count=1")
		again.Env = append(os.Environ(), extendedConnect)
		if out, err := again.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("PASS")) {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	w := startGateway(t, nil)
	w.encode = gatewaytest.AdaptedServer(t, readExample(t)).Encode
	w.load(nil, map[string]any{"protocols": []string{"h1", "h2c"}})
	pinged := make(chan struct{}, 10)
	app := gatewaytest.EchoWebSocket(t, pinged)
	w.Run(gatewaytest.One, app)
	ctx, cancel := context.WithTimeout(t.Context(), wait.Timeout)
	defer cancel()
	transport := &http2.Transport{AllowHTTP: true, DialTLSContext: dialPlain}
	defer transport.CloseIdleConnections()
	connect := func(origin string) (*http.Response, io.WriteCloser) {
		t.Helper()
		out, in := io.Pipe()
		r, err := http.NewRequest("CONNECT", w.url+gatewaytest.OnePath+"/ws", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{gatewaytest.UserHeader: {"alice"}, "Accept": {"text/html"}, "Accept-Encoding": {"gzip"}, "Sec-Websocket-Version": {"13"}, ":protocol": {"websocket"}}
		if origin != "" {
			r.Header.Set("Origin", origin)
		}
		r.Body, r.ContentLength = out, -1
		resp, err := transport.RoundTrip(r.WithContext(ctx))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = in.Close(); _ = resp.Body.Close() })
		return resp, in
	}
	if resp, _ := connect("http://evil.example"); resp.StatusCode != 403 {
		t.Errorf("from another origin: %d", resp.StatusCode)
	}
	resp, in := connect(w.url)
	if resp.StatusCode != 200 || resp.ProtoMajor != 2 {
		t.Fatalf("got %d %s", resp.StatusCode, resp.Proto)
	}
	countMessages(w, struct {
		io.Reader
		io.Writer
	}{resp.Body, in}, pinged)
}

// dialPlain lets an HTTP/2 client connect without TLS.
func dialPlain(ctx context.Context, network, addr string, _ *tls.Config) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, network, addr)
}

// countMessages exchanges messages with an echo server over a page's WebSocket. It checks which messages count as use,
// first before the page reports people's input and then afterwards.
func countMessages(w *gatewayServer, socket io.ReadWriter, pinged <-chan struct{}) {
	t := w.t
	t.Helper()
	exchange := func(opcode, answer byte, n int) {
		t.Helper()
		if _, err := socket.Write(masked(opcode, strings.Repeat("x", n))); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(masked(answer, strings.Repeat("x", n)))-4)
		if _, err := io.ReadFull(socket, got); err != nil || got[0] != 0x80|answer || !strings.HasSuffix(string(got), strings.Repeat("x", n)) {
			t.Fatalf("got %.20q %v", got, err)
		}
	}
	w.Used(gatewaytest.One) // the handshake
	exchange(1, 1, 5)
	if !w.Used(gatewaytest.One) {
		t.Error("a message is not activity")
	}
	for range 3 {
		exchange(9, 10, 5)
		<-pinged
	}
	if w.Used(gatewaytest.One) {
		t.Error("pings and pongs are activity")
	}
	exchange(2, 2, 5)
	if !w.Used(gatewaytest.One) {
		t.Error("a message after pings is not activity")
	}
	if err := w.SetPageActivity(t.Context(), gatewaytest.One, "presence"); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "presence holds", func() bool {
		e, ok := w.Table.Lookup(gatewaytest.One)
		return ok && e.State().Route.PageActivity == "presence"
	})
	exchange(1, 1, 5)
	if w.Used(gatewaytest.One) {
		t.Error("a message of a page that reports is activity")
	}
	exchange(2, 2, 20<<10)
	if !w.Used(gatewaytest.One) {
		t.Error("a part of a transfer is not activity")
	}
}

// masked is a frame as clients send it.
func masked(opcode byte, text string) []byte {
	b := []byte{0x80 | opcode}
	if len(text) < 126 {
		b = append(b, 0x80|byte(len(text)))
	} else {
		b = binary.BigEndian.AppendUint16(append(b, 0x80|126), uint16(len(text)))
	}
	b = binary.BigEndian.AppendUint32(b, 0) // a mask that changes nothing
	return append(b, text...)
}
