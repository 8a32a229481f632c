package e2e

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/codehub/gateway/coordinator/wait"
)

// TestIdleTab: messages on a WebSocket keep a workspace running (SPEC 6). Pings on an idle WebSocket, and requests
// for the workspace's status, do not.
func TestIdleTab(t *testing.T) {
	t.Parallel()
	in := install(t, "TTL_STANDBY_SECONDS=6")
	me := in.admin(t)
	// The workspace in use is the older one: if its use did not count, it would go to standby first.
	used, idle := me.create(t, "used"), me.create(t, "idle")
	messages := me.dial(t, me.enter(t, used.ID)+"echo")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { // whatever the test waits for meanwhile
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			err := messages.Write(ctx, websocket.MessageText, []byte("used"))
			if err == nil {
				_, _, err = messages.Read(ctx)
			}
			if err != nil {
				ended <- err
				return
			}
			<-tick.C
		}
	}()
	var base string
	var pings *websocket.Conn
	var closed context.Context
	wait.For(t, "the idle tab is open", func() error {
		base = me.enter(t, idle.ID)
		pings = me.dial(t, base+"echo")
		closed = pings.CloseRead(t.Context()) // reads the pongs
		return pings.Ping(closed)
	})
	wait.For(t, "the idle one is in standby", func() error {
		select {
		case err := <-ended:
			t.Fatalf("the used tab: %v", err)
		default:
		}
		_ = pings.Ping(closed) // fails once standby has closed the connection
		if res, body := me.get(t, base+".codehub/status", subresource); res.StatusCode != http.StatusOK {
			t.Fatalf("the status of the idle one: %s %s", res.Status, body)
		}
		if w := me.workspace(t, idle.ID); w.Phase != "STANDBY" {
			return fmt.Errorf("it is %s", w.Phase)
		}
		return nil
	})
	if w := me.workspace(t, used.ID); w.Phase != "RUNNING" || w.DesiredState != "RUNNING" {
		t.Errorf("the used one does not run any more: %+v", w)
	}
}
