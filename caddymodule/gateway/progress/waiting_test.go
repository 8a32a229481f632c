package progress

import (
	"strings"
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

// TestPlaceInTheQueue is told in both languages and as a number.
func TestPlaceInTheQueue(t *testing.T) {
	for before, want := range map[int]struct{ en, ko string }{
		0: {"It is next", "바로 다음 차례"}, 1: {"1 is before it", "앞에 1개가 있으며"},
		3: {": 3 are before it.", "앞에 3개가 있으며"}, 20: {"at least 20 are before it", "앞에 20개 이상"},
	} {
		st := &route.State{Route: store.Route{Phase: workspace.PhaseArchived,
			Waiting: &workspace.Waiting{Reason: workspace.WaitJobQueue, Before: before}}}
		w := WaitingFor(st)
		if w == nil || w.Before != before || !strings.Contains(w.En, want.en) || !strings.Contains(w.Ko, want.ko) {
			t.Errorf("%d before it: %+v", before, w)
		}
	}
}
