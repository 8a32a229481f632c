package codehub

import (
	"context"
	"crypto/tls"
	"net/http"
	"testing"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"github.com/codehub/gateway/caddymodule/internal/gateway/gatewaytest"
	"github.com/codehub/gateway/coordinator/wait"
)

func TestWebSocketOverHTTP3(t *testing.T) {
	w := startGateway(t, nil)
	pool, server := w.serveTLS(t)
	w.load(nil, server)
	pinged := make(chan struct{}, 10)
	w.Run(gatewaytest.One, gatewaytest.EchoWebSocket(t, pinged))
	ctx, cancel := context.WithTimeout(t.Context(), wait.Timeout)
	defer cancel()
	conn, err := quic.DialAddr(ctx, w.url[len("http://"):], &tls.Config{NextProtos: []string{http3.NextProtoH3}, ServerName: "localhost", RootCAs: pool}, nil)
	if err != nil {
		t.Fatal(err)
	}
	client := new(http3.Transport).NewClientConn(conn)
	defer func() { _ = client.CloseWithError(0, "") }()
	select {
	case <-client.ReceivedSettings():
	case <-ctx.Done():
		t.Fatal(ctx.Err())
	}
	connect := func(origin string) (*http.Response, *http3.RequestStream) {
		t.Helper()
		stream, err := client.OpenRequestStream(ctx)
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequestWithContext(ctx, "CONNECT", w.origin()+gatewaytest.OnePath+"/ws", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Proto = "websocket"
		r.Header = http.Header{gatewaytest.UserHeader: {"alice"}, "Sec-Websocket-Version": {"13"}, "Origin": {origin}}
		if err := stream.SendRequestHeader(r); err != nil {
			t.Fatal(err)
		}
		resp, err := stream.ReadResponse()
		if err != nil {
			t.Fatal(err)
		}
		return resp, stream
	}
	if resp, _ := connect("https://evil.example"); resp.StatusCode != 403 {
		t.Errorf("from another origin: %d", resp.StatusCode)
	}
	resp, stream := connect(w.origin())
	if resp.StatusCode != 200 || resp.ProtoMajor != 3 {
		t.Fatalf("got %d %s", resp.StatusCode, resp.Proto)
	}
	countMessages(w, stream, pinged)
}
