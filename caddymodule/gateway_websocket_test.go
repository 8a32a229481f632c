package codehub

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/coder/websocket"
)

func TestWebSocketMessagesAreActivityAndPingsAreNot(t *testing.T) {
	w := newWorld(t, nil)
	pinged := make(chan struct{}, 10)
	app := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(rw, r, &websocket.AcceptOptions{
			OnPingReceived: func(context.Context, []byte) bool { pinged <- struct{}{}; return true },
		})
		if err != nil {
			return
		}
		defer func() { _ = c.CloseNow() }()
		for {
			kind, msg, err := c.Read(r.Context())
			if err != nil {
				return
			}
			if string(msg) == "silence" {
				continue
			}
			if err := c.Write(r.Context(), kind, msg); err != nil {
				return
			}
		}
	}))
	defer app.Close()
	w.run(wsOne, app)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	c, _, err := websocket.Dial(ctx, w.url+onePath+"/ws", &websocket.DialOptions{HTTPHeader: http.Header{"X-Test-User": {"alice"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.CloseNow() }()
	w.used(wsOne) // the handshake
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
	if !w.used(wsOne) {
		t.Error("a message is no activity")
	}
	say("silence")
	w.eventually("a message to the application counts", func() bool { return w.used(wsOne) })

	// Pings only arrive at somebody who reads.
	done := make(chan error, 1)
	go func() { _, _, err := c.Read(ctx); done <- err }()
	for range 3 {
		if err := c.Ping(ctx); err != nil {
			t.Fatal(err)
		}
		<-pinged
	}
	if w.used(wsOne) {
		t.Error("pings and pongs are activity")
	}
	// A reload leaves it open, and the message that ends the reader arrives.
	w.serve(map[string]any{"max_held": "9"}, nil)
	say("after the reload")
	if err := <-done; err != nil {
		t.Fatalf("after a reload: %v", err)
	}
	if !w.used(wsOne) {
		t.Error("a message after a reload is no activity")
	}
}
