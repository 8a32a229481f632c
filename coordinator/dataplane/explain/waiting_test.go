package explain

import (
	"strings"
	"testing"

	"github.com/codehub/gateway/coordinator/workspace"
)

// TestWaits: the known details of a wait are explained with their figures, in both languages.
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
		{workspace.Waiting{Reason: workspace.WaitPullingImage, Message: "10.0.0.5", Done: 12e6, Cause: workspace.CauseRateLimit}, "rate limit). It is retried automatically", "요청 한도를 넘어"},
		{workspace.Waiting{Reason: workspace.WaitPullingImage, Cause: workspace.CauseUnreachable}, "cannot be reached. It is retried", "연결할 수 없습니다. 간격을"},
		{workspace.Waiting{Reason: workspace.WaitPullingImage, Cause: workspace.CauseTimeout}, "did not answer in time. It", "제시간에 응답하지"},
		{workspace.Waiting{Reason: workspace.WaitPullingImage, Cause: workspace.CauseServerError}, "an error of its own. It", "레지스트리 자체에서"},
		{workspace.Waiting{Reason: workspace.WaitPullingImage, Cause: workspace.CauseUnknown}, "could not be pulled yet. It", "내려받지 못했습니다. 간격을"},
		{workspace.Waiting{Reason: workspace.WaitPullingImage, Cause: "of a later release"}, "could not be pulled yet. It", "내려받지 못했습니다. 간격을"},
		{workspace.Waiting{Reason: workspace.WaitNotAnswering}, "its application does not answer. Look", "애플리케이션이 응답하지 않습니다. 워크스페이스의 로그"},
		{workspace.Waiting{Reason: workspace.WaitNotAnswering, Port: 8080}, "nothing was found that listens on port 8080. It may", "8080번 포트에서 수신하는 프로그램을 찾지"},
		{workspace.Waiting{Reason: workspace.WaitNotAnswering, Port: 8080, Ports: []int{22, 8888}}, "nothing listens on port 8080. Listening: 22, 8888. Have the application listen on port 8080", "수신 중인 포트: 22, 8888."},
		{workspace.Waiting{Reason: workspace.WaitNotAnswering, Port: 8080, Ports: []int{22, 8080}}, "something listens on port 8080, but", "8080번 포트에서 수신하는 프로그램은 있지만"},
		{workspace.Waiting{Reason: workspace.WaitNotAnswering, Port: 8080, LocalPorts: []int{8080}}, "on the loopback address: 8080). Have the application listen on port 8080 of all interfaces", "루프백 주소의 포트: 8080"},
		{workspace.Waiting{Reason: workspace.WaitArchiveFailed, Subject: "./a"}, `"./a" changed while`, `"./a"의 내용이`},
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

// TestFiguresOfAnotherReason: figures make only the message of their own reason public.
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

// TestPortsAreExplained: owners and administrators are told the port at which nothing answers, the ports that listen,
// and the remedy. The owner is told why a registry provides no image, but not its literal answer.
func TestPortsAreExplained(t *testing.T) {
	w := row(workspace.PhaseRunning, workspace.DesiredRunning, func(w *workspace.Workspace) {
		w.Waiting = &workspace.Waiting{Reason: workspace.WaitNotAnswering, Message: secret, Since: now, Port: 8080, Ports: []int{8888}}
	})
	e := Explain(now, w, delays, nil)
	for _, wait := range []*Wait{e.Waiting, e.ForOwner().Waiting} {
		if !strings.Contains(wait.Text["en"], "Listening: 8888") || !strings.Contains(wait.Remedy["en"], "listen on port 8080") || !strings.Contains(wait.Remedy["ko"], "8080번") {
			t.Errorf("%+v", wait)
		}
	}
	hidden(t, "ports", OwnersView(w), e.ForOwner())
	w.Waiting = &workspace.Waiting{Reason: workspace.WaitPullingImage, Message: secret, Since: now, Done: 1, Cause: workspace.CauseServerError}
	e = Explain(now, w, delays, nil)
	if got := e.ForOwner().Waiting; !strings.Contains(got.Text["en"], "failed with an error of its own") || !strings.Contains(got.Remedy["en"], "start the workspace again") {
		t.Errorf("%+v", got)
	}
	if e.Waiting.Detail != secret {
		t.Errorf("an administrator reads %q", e.Waiting.Detail)
	}
	hidden(t, "pull", OwnersView(w), e.ForOwner())
}
