package progress

import (
	"testing"

	"github.com/codehub/gateway/caddymodule/gateway/gatewaytest"
	"github.com/codehub/gateway/coordinator/route"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Every reason of the coordinator has its sentence, in both languages.
func TestEveryReasonIsTold(t *testing.T) {
	reasons := gatewaytest.WaitReasons(t, "../../..")
	if len(reasons) != len(waits) {
		t.Errorf("%d reasons have %d sentences", len(reasons), len(waits))
	}
	for _, r := range reasons {
		if text := waits[r]; text.En == "" || text.Ko == "" {
			t.Errorf("nothing for %s: %+v", r, text)
		}
	}
}

func TestWaitTexts(t *testing.T) {
	later := &workspace.Waiting{Reason: "OfALaterRelease", Message: "it waits for the moon"}
	if got := waitText(later); got.En != "It waits for something. If that does not pass, ask an administrator." ||
		got.Ko != "무언가를 기다리고 있습니다. 계속되면 관리자에게 문의하세요." {
		t.Errorf("a reason of a later release is %+v", got)
	}
	ready := &route.State{Answered: true, Route: store.Route{
		Phase: workspace.PhaseRunning, Endpoint: "10.0.0.1:80", Waiting: &workspace.Waiting{Reason: "Unhealthy"}}}
	if w := WaitingFor(ready); w != nil {
		t.Errorf("one that answers waits for %+v", w)
	}
}
