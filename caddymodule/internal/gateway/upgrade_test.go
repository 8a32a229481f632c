package gateway

import (
	"context"
	"net/http"
	"testing"

	"github.com/coder/websocket"

	"github.com/codehub/gateway/caddymodule/internal/gateway/gatewaytest"
	"github.com/codehub/gateway/coordinator/wait"
)

func TestWebSocketMessagesAreActivityAndPingsAreNot(t *testing.T) {
	h := newHarness(t)
	pinged := make(chan struct{}, 10)
	app := gatewaytest.EchoWebSocket(t, pinged)
	h.Run(one, app)
	ctx, cancel := context.WithTimeout(t.Context(), wait.Timeout)
	defer cancel()
	c, _, err := websocket.Dial(ctx, h.url+onePath+"/ws", &websocket.DialOptions{HTTPHeader: http.Header{"X-Test-User": {"alice"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.CloseNow() }()
	h.Used(one) // the handshake
	say := func(text string) {
		t.Helper()
		if err := c.Write(ctx, websocket.MessageText, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	hear := func() {
		t.Helper()
		if _, _, err := c.Read(ctx); err != nil {
			t.Fatal(err)
		}
	}
	say("hello")
	hear()
	if !h.Used(one) {
		t.Error("a message does not count as activity")
	}
	say("silence")
	wait.Until(t, "a message to the application counts", func() bool { return h.Used(one) })

	// The client answers pings only while it reads.
	done := make(chan error, 1)
	go func() { _, _, err := c.Read(ctx); done <- err }()
	for range 3 {
		if err := c.Ping(ctx); err != nil {
			t.Fatal(err)
		}
		<-pinged
	}
	if h.Used(one) {
		t.Error("pings and pongs count as activity")
	}
	// A message still arrives, which ends the reader.
	say("after the pings")
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if !h.Used(one) {
		t.Error("a message after pings does not count as activity")
	}
}
