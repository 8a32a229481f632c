package pages

import (
	"testing"
	"time"

	"github.com/codehub/gateway/caddymodule/internal/problem"
	"github.com/codehub/gateway/coordinator/workspace"
)

func TestWhatARunningWorkspaceDoes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		w      problem.RunningWorkspace
		en, ko string
	}{
		{problem.RunningWorkspace{Operation: workspace.OpNone}, "", ""},
		{problem.RunningWorkspace{Operation: workspace.OpStopping}, "Going to sleep", "잠드는 중"},
		{problem.RunningWorkspace{Operation: workspace.OpRestoring}, "On its way up", "준비하는 중"},
		{problem.RunningWorkspace{Operation: workspace.OpNone, Busy: &workspace.Busy{Reason: workspace.BusyTerminal, Detail: "npm install", Since: time.Now()}},
			"Working in a terminal: npm install", "터미널에서 작업 중: npm install"},
		{problem.RunningWorkspace{Operation: workspace.OpNone, Busy: &workspace.Busy{Reason: "OfALaterRelease"}}, "Working", "작업 중"},
	} {
		if got := doingText(c.w); got["en"] != c.en || got["ko"] != c.ko {
			t.Errorf("%+v: got %+v", c.w, got)
		}
	}
}
