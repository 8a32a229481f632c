package backendtest

import (
	"context"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// pauses is how often the test pauses the container. It takes many pauses until an event arrives before the listing
// shows its effect.
const pauses = 20

// testPauseEvents checks that the listing shows a paused or resumed container as soon as the event arrives, whoever
// paused it. No later event would cause another listing.
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
	// The listing is read immediately after each event, while the call that pauses may still be in progress.
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
	// The test does not count events: hints may be repeated, those of the last second always are, and the listing after an
	// event may already show a later step. However, a step has only one event of its own. If that arrives before the
	// listing shows the step, no other event follows.
	shows := func(n int, want workspace.Health) {
		t.Helper()
		for timeout := time.After(wait.Timeout); ; {
			select {
			case got := <-listed:
				if got == want {
					return
				}
			case <-timeout:
				t.Fatalf("step %d: no event came after which the listing shows the health %q", n, want)
			}
		}
	}
	for n := range pauses {
		if !f.Pause(t, id) {
			t.Skip("this engine cannot pause a container")
		}
		shows(n, workspace.HealthPaused)
		must(t, b.Freezer.Thaw(ctx, id))
		shows(n, "")
	}
}
