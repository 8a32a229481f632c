package e2e

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/coder/websocket"
)

// TestQuietTab: of two open tabs, the one in which something happens keeps its
// workspace awake; the one whose connection is only kept alive, and that asks how
// far its workspace is, does not (SPEC 6).
func TestQuietTab(t *testing.T) {
	t.Parallel()
	in := install(t, "TTL_STANDBY_SECONDS=6")
	me := in.admin(t)
	// The busy one is older: were it unused, it would be the first to sleep.
	busy, quiet := me.create(t, "busy"), me.create(t, "quiet")
	used := me.dial(t, addresses[0].base(in, busy.ID)+"echo")
	base := addresses[0].base(in, quiet.ID)
	open := me.dial(t, base+"echo")
	ended := open.CloseRead(t.Context()) // takes the pongs
	if err := open.Ping(ended); err != nil {
		t.Fatalf("the quiet tab: %v", err)
	}
	eventually(t, "the quiet one sleeps", func() error {
		if err := used.Write(t.Context(), websocket.MessageText, []byte("used")); err != nil {
			t.Fatalf("the busy tab: %v", err)
		}
		if _, _, err := used.Read(t.Context()); err != nil {
			t.Fatalf("the busy tab: %v", err)
		}
		_ = open.Ping(ended) // falling asleep ends the connection
		if res, body := me.get(t, base+".codehub/status", background); res.StatusCode != http.StatusOK {
			t.Fatalf("asking how far it is: %s %s", res.Status, body)
		}
		var w item
		me.call(t, http.MethodGet, "/api/v1/workspaces/"+quiet.ID, nil, http.StatusOK, &w)
		if w.Phase != "STANDBY" {
			return fmt.Errorf("it is %s", w.Phase)
		}
		return nil
	})
	me.call(t, http.MethodGet, "/api/v1/workspaces/"+busy.ID, nil, http.StatusOK, &busy)
	if busy.Phase != "RUNNING" || busy.DesiredState != "RUNNING" {
		t.Errorf("the one in use was put to sleep: %+v", busy)
	}
}
