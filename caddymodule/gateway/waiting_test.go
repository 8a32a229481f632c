package gateway

import (
	"encoding/json"
	"html/template"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/route"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
)

const itsTurn = "Waiting for its turn"

// wants puts the workspace into a state in which it is asked to run.
func (h *harness) wants(phase workspace.Phase, w *workspace.Waiting) {
	h.t.Helper()
	h.Change(one, func(r *store.Route) {
		r.Desired, r.Phase, r.Endpoint, r.Operation, r.Waiting = workspace.DesiredRunning, phase, "", workspace.OpNone, w
	})
}

// asked returns the status of the workspace.
func (h *harness) asked() (s status) {
	h.t.Helper()
	got := h.get(200, onePath+"/.codehub/status", asAlice, asSubrequest)
	if err := json.Unmarshal([]byte(got.body), &s); err != nil {
		h.t.Fatalf("%v: %s", err, got.body)
	}
	return s
}

func TestTheWakePageSaysWhatTheWorkspaceWaitsFor(t *testing.T) {
	h := newHarness(t)
	h.wants(workspace.PhaseArchived, nil)
	if page := h.get(502, onePath+"/", asAlice, asPage); strings.Count(page.body, itsTurn) < 2 {
		t.Fatalf("without a reason: %s", page.body)
	}
	tags := map[string]string{h.asked().Tag: "nothing"}
	since := time.Now().Add(-time.Minute).Truncate(time.Second).UTC()
	for reason, text := range waits {
		h.wants(workspace.PhaseArchived, &workspace.Waiting{Reason: reason, Message: "for administrators", Since: since})
		page := h.get(502, onePath+"/", asAlice, asPage)
		for _, want := range []string{text.En, text.Ko} {
			if !strings.Contains(page.body, ">"+template.HTMLEscapeString(want)+"</span>") {
				t.Errorf("%s: the page does not say %q", reason, want)
			}
		}
		if reason != workspace.WaitPullingImage && strings.Contains(page.body, ">"+itsTurn+"<") {
			t.Errorf("%s: the page says that it only waits for its turn", reason)
		}
		s := h.asked()
		want := waiting{Reason: reason, Text: text, Since: since}
		stage := stageQueued
		if reason == workspace.WaitPullingImage {
			stage = stagePulling
		}
		if s.Waiting == nil || *s.Waiting != want || s.Stage != stage || !s.Waking {
			t.Errorf("%s: the status is %+v, waiting %+v", reason, s, s.Waiting)
		}
		if other := tags[s.Tag]; other != "" {
			t.Errorf("%s has the tag of %s: a poll would miss the change", reason, other)
		}
		tags[s.Tag] = reason
	}
}

// Every reason of the coordinator has its sentence, in both languages.
func TestEveryReasonIsTold(t *testing.T) {
	source, err := os.ReadFile("../../coordinator/workspace/waiting.go")
	if err != nil {
		t.Fatal(err)
	}
	reasons := regexp.MustCompile(`(?m)^\tWait\w+\s+= "(\w+)"$`).FindAllStringSubmatch(string(source), -1)
	if len(reasons) < 20 {
		t.Fatalf("only %d reasons", len(reasons))
	}
	for _, r := range reasons {
		if text := waits[r[1]]; text.En == "" || text.Ko == "" {
			t.Errorf("nothing for %s: %+v", r[1], text)
		}
	}
}

func TestAPollSeesTheNextReason(t *testing.T) {
	h := newHarness(t)
	pulling := func(message string) {
		h.Change(one, func(r *store.Route) {
			r.Desired, r.Operation = workspace.DesiredRunning, workspace.OpStarting
			r.Waiting = &workspace.Waiting{Reason: "PullingImage", Message: message}
		})
	}
	pulling("pulling 1 of 540 MB")
	tag := h.asked().Tag
	answer := h.getting(onePath+"/.codehub/status?wait=30&seen="+tag, asAlice, asSubrequest)
	pulling("pulling 120 of 540 MB")
	var s status
	if err := json.Unmarshal([]byte((<-answer).body), &s); err != nil {
		t.Fatal(err)
	}
	if s.Stage != stagePulling || len(s.Steps) != 4 || s.Steps[1].Amount == nil || s.Steps[1].Amount.En != "120 of 540 MB" ||
		s.Steps[1].Percent == nil || *s.Steps[1].Percent != 22 || s.Steps[1].SecondsLeft != nil {
		t.Errorf("the status is %+v", s)
	}
}

func TestARunningContainerWithoutAnAddressIsHeldWithAReason(t *testing.T) {
	for name, w := range map[string]*workspace.Waiting{
		"the controller says nothing": nil,
		"the controller says it, too": {Reason: paused, Message: "the container is paused"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, func(o *Options) { o.WakeTimeout = 50 * time.Millisecond })
			h.wants(workspace.PhaseRunning, w)
			page := h.get(502, onePath+"/", asAlice, asPage)
			if !strings.Contains(page.body, waits[paused].En) || !strings.Contains(page.body, waits[paused].Ko) {
				t.Errorf("the page is %s", page.body)
			}
			if s := h.asked(); s.Stage != stageAnswering || s.Ready || s.Waiting == nil || s.Waiting.Reason != paused {
				t.Errorf("the status is %+v, waiting %+v", s, s.Waiting)
			}
			held := h.get(503, onePath+"/", asAlice, asProgram)
			if !strings.Contains(held.body, "paused") {
				t.Errorf("a program is told %s", held.body)
			}
		})
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
	if w := waitingFor(ready); w != nil {
		t.Errorf("one that answers waits for %+v", w)
	}
}
