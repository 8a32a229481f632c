package e2e

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/coder/websocket"

	"github.com/codehub/gateway/coordinator/wait"
)

// TestIdleTab: messages on a WebSocket keep a workspace running; a WebSocket that is
// only kept alive, and requests for the workspace's status, do not (SPEC 6).
func TestIdleTab(t *testing.T) {
	t.Parallel()
	in := install(t, "TTL_STANDBY_SECONDS=6")
	me := in.admin(t)
	// The used one is older: if its use did not count, it would go to standby first.
	used, idle := me.create(t, "used"), me.create(t, "idle")
	messages := me.dial(t, byPath.base(in, used.ID)+"echo")
	base := byPath.base(in, idle.ID)
	pings := me.dial(t, base+"echo")
	closed := pings.CloseRead(t.Context()) // reads the pongs
	if err := pings.Ping(closed); err != nil {
		t.Fatalf("the idle tab: %v", err)
	}
	wait.For(t, "the idle one is in standby", func() error {
		if err := messages.Write(t.Context(), websocket.MessageText, []byte("used")); err != nil {
			t.Fatalf("the used tab: %v", err)
		}
		if _, _, err := messages.Read(t.Context()); err != nil {
			t.Fatalf("the used tab: %v", err)
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
