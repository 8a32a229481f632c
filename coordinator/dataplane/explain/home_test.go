package explain

import (
	"strings"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
)

func TestHome(t *testing.T) {
	at := time.Date(2026, 5, 6, 14, 0, 0, 0, time.UTC)
	w := workspace.Workspace{Phase: workspace.PhaseStandby, DesiredState: workspace.DesiredStandby}
	if e := Explain(at, w, Delays{HomeWarn: 1}, nil); e.Home != nil {
		t.Errorf("nothing is known, and it says %+v", e.Home)
	}
	for _, c := range []struct {
		bytes, warn int64
		atLeast     bool
		code, en    string
	}{
		{1000, 0, false, CodeHomeSize, "holds 1.0 kB in 40 files"},
		{3 << 29, 2 << 30, true, CodeHomeSize, "holds at least 1.6 GB in 40 files"},
		{2 << 30, 2 << 30, false, CodeHomeLarge, "more than the 2.1 GB from which"},
	} {
		w.Home = workspace.HomeSize{Bytes: c.bytes, Files: 40, AtLeast: c.atLeast, MeasuredAt: at}
		h := Explain(at, w, Delays{HomeWarn: c.warn}, nil).Home
		if h == nil || h.Code != c.code || !h.At.Equal(at) || !strings.Contains(h.Text["en"], c.en) || strings.Contains(h.Text["en"]+h.Text["ko"], "{") {
			t.Errorf("%+v: %+v", c, h)
		}
	}
}

// If a wait has figures, the planner has written its message. If it has none, the message comes from an earlier release
// or from a server.
func TestOwnersAreToldHowMuchRoomIsMade(t *testing.T) {
	const message = "the disk of the homes is 96% full; 12 sleeping workspaces are being archived to make room"
	for percent, told := range map[int]bool{96: true, 0: false} {
		w := workspace.Workspace{Waiting: &workspace.Waiting{Reason: workspace.WaitDiskPressure, Message: message, Percent: percent}}
		if got := OwnersView(w).Waiting.Message; (got == message) != told {
			t.Errorf("%d %%: the owner is told %q", percent, got)
		}
	}
}
