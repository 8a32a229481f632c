package progress

import (
	"testing"

	"github.com/codehub/gateway/coordinator/dataplane/route"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
)

func TestWaitingFor(t *testing.T) {
	queued := &workspace.Waiting{Reason: workspace.WaitJobQueue, Before: 3}
	for name, c := range map[string]struct {
		state route.State
		want  string
	}{
		"one that answers":   {route.State{Answered: true, Route: store.Route{Phase: workspace.PhaseRunning, Endpoint: "10.0.0.1:80", Waiting: queued}}, ""},
		"one in the queue":   {route.State{Route: store.Route{Phase: workspace.PhaseArchived, Waiting: queued}}, workspace.WaitJobQueue},
		"one without a port": {route.State{Route: store.Route{Phase: workspace.PhaseRunning, Operation: workspace.OpNone}}, workspace.WaitPaused},
		"one that gets on":   {route.State{Route: store.Route{Phase: workspace.PhaseStandby, Operation: workspace.OpStarting}}, ""},
	} {
		got := WaitingFor(&c.state)
		if got == nil {
			got = new(Waiting)
		}
		if got.Reason != c.want || (got.Text["en"] == "") != (c.want == "") || got.Reason == workspace.WaitJobQueue && got.Before != 3 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
