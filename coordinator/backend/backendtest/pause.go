package backendtest

import (
	"context"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// pauses is how often a container is paused: an event comes before its effect shows only now and then.
const pauses = 20

// testPauseEvents: a container that is paused or resumed, by hand or by us, is listed like that as soon as its event has come. No
// other event would tell.
func testPauseEvents(t *testing.T, f Fixture) {
	b, id := f.New(t, Installation()), newID()
	if b.Freezer == nil {
		t.Skip("this backend freezes nothing")
	}
	ctx, cancel := context.WithCancel(Context(t))
	must(t, b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
	must(t, b.Start(ctx, backend.StartSpec{ID: id}))
	Ready(t, b, id)
	events, err := b.Events(ctx)
	must(t, err)
	// The listing is read right after each event: the call that pauses may still be under way.
	listed, ended := make(chan workspace.Health, 100), make(chan struct{})
	go func() {
		defer close(ended)
		for id := range events {
			if all, err := b.Containers(ctx, id); err == nil {
				listed <- all[id].Health
			}
		}
	}()
	defer func() { cancel(); <-ended }()
	next := func(what string) workspace.Health {
		t.Helper()
		select {
		case got := <-listed:
			return got
		case <-time.After(wait.Timeout):
			t.Fatalf("%s: no event", what)
			return ""
		}
	}
	late := 0
	for n := range pauses {
		if !f.Pause(t, id) {
			t.Skip("this engine cannot pause a container")
		}
		got := next("paused")
		for n == 0 && got == "" { // events of its start may come again
			got = next("paused")
		}
		if got != workspace.HealthPaused {
			late++
		}
		must(t, b.Freezer.Thaw(ctx, id))
		if next("thawed") != "" {
			late++
		}
	}
	if late > 0 {
		t.Errorf("%d of %d events came before their effect showed", late, 2*pauses)
	}
}
