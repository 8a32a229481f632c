package explain

import (
	"strings"
	"testing"

	"github.com/codehub/gateway/coordinator/workspace"
)

// TestWaits: what is known of a wait is told with its figures, in both languages.
func TestWaits(t *testing.T) {
	for _, c := range []struct {
		w      workspace.Waiting
		en, ko string
	}{
		{workspace.Waiting{Reason: workspace.WaitJobQueue}, "It is next", "바로 다음 차례"},
		{workspace.Waiting{Reason: workspace.WaitJobQueue, Before: 3}, ": 3 before it.", "앞에 3개 있습니다"},
		{workspace.Waiting{Reason: workspace.WaitJobQueue, Before: 20}, "at least 20 before it", "앞에 20개 이상"},
		{workspace.Waiting{Reason: workspace.WaitDiskPressure}, "room on the disk of the homes.", "홈 디스크에 공간이"},
		{workspace.Waiting{Reason: workspace.WaitDiskPressure, Percent: 96, Count: 1}, "96 % full; 1 sleeping workspace is", "워크스페이스 1개를"},
		{workspace.Waiting{Reason: workspace.WaitDiskPressure, Percent: 96, Count: 3}, "96 % full; 3 sleeping workspaces are", "워크스페이스 3개를"},
		{workspace.Waiting{Reason: workspace.WaitPullingImage}, "which is being pulled", "내려받는 중"},
		{workspace.Waiting{Reason: workspace.WaitPullingImage, Done: 12e6}, "12 MB so far", "지금까지 12 MB"},
		{workspace.Waiting{Reason: workspace.WaitPullingImage, Done: 12e6, Total: 30e6}, "12 MB of 30 MB", "30 MB 중 12 MB"},
		{workspace.Waiting{Reason: workspace.WaitArchiveFailed, Subject: "./a"}, `"./a" has changed`, `"./a"의 내용이`},
		{workspace.Waiting{Reason: "OfALaterRelease", Message: "it waits for the moon"}, "does not know", "이 버전에서 알 수 없는"},
	} {
		for _, admin := range []bool{true, false} {
			got := Waits(c.w, admin)
			if c.w.Reason == "OfALaterRelease" && admin {
				continue
			}
			if !strings.Contains(got["en"], c.en) || !strings.Contains(got["ko"], c.ko) || strings.Contains(got["en"]+got["ko"], "{") {
				t.Errorf("%+v, admin %v: %+v", c.w, admin, got)
			}
		}
	}
}

// TestFiguresOfAnotherReason: figures make no message public but that of their own reason.
func TestFiguresOfAnotherReason(t *testing.T) {
	for _, reason := range reasons(aboutWaits) {
		if ownMessages[reason] {
			continue
		}
		w := workspace.Waiting{Reason: reason, Message: secret, Done: 1, Total: 2, Percent: 96, Count: 1, Subject: "./a"}
		if reason == workspace.WaitDiskPressure {
			w.Percent = 0
		}
		if reason == workspace.WaitPullingImage {
			w.Done = 0
		}
		hidden(t, reason, OwnersView(workspace.Workspace{Waiting: &w}))
		if got := Waits(w, false)["en"]; strings.Contains(got, "./a") != (reason == workspace.WaitArchiveFailed) {
			t.Errorf("%s: the owner reads %q", reason, got)
		}
	}
}
