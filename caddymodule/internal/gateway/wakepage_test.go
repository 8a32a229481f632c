package gateway

import (
	"encoding/json"
	"html/template"
	"strings"
	"testing"
	"time"

	"github.com/codehub/gateway/caddymodule/internal/gateway/gatewaytest"
	"github.com/codehub/gateway/caddymodule/internal/gateway/progress"
	"github.com/codehub/gateway/coordinator/dataplane/route"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/words"
	"github.com/codehub/gateway/coordinator/workspace"
)

const itsTurn = "Waiting for its turn"

// wants puts the workspace into a state with the desired state RUNNING.
func (h *harness) wants(phase workspace.Phase, w *workspace.Waiting) {
	h.t.Helper()
	h.Change(one, func(r *store.Route) {
		r.Desired, r.Phase, r.Endpoint, r.Operation, r.Waiting = workspace.DesiredRunning, phase, "", workspace.OpNone, w
	})
}

// asked returns the status of the workspace.
func (h *harness) asked() (s progress.Status) {
	h.t.Helper()
	got := h.get(200, onePath+"/.codehub/status", asAlice, asSubrequest)
	if err := json.Unmarshal([]byte(got.body), &s); err != nil {
		h.t.Fatalf("%v: %s", err, got.body)
	}
	return s
}

// tells reports whether the status has this text as the reason of its wait.
func (h *harness) tells(text words.Text) bool {
	h.t.Helper()
	var s struct{ Waiting map[string]any }
	got := h.get(200, onePath+"/.codehub/status", asAlice, asSubrequest)
	if err := json.Unmarshal([]byte(got.body), &s); err != nil {
		h.t.Fatalf("%v: %s", err, got.body)
	}
	return s.Waiting["en"] == text["en"] && s.Waiting["ko"] == text["ko"]
}

// saidOf returns the sentence for a reason.
func saidOf(reason string) words.Text {
	return progress.WaitingFor(&route.State{Route: store.Route{Waiting: &workspace.Waiting{Reason: reason}}}).Text
}

func TestTheWakePageSaysWhatTheWorkspaceWaitsFor(t *testing.T) {
	h := newHarness(t)
	h.wants(workspace.PhaseArchived, nil)
	if page := h.get(502, onePath+"/", asAlice, asPage); strings.Count(page.body, itsTurn) < 2 {
		t.Fatalf("without a reason: %s", page.body)
	}
	tags := map[string]string{h.asked().Tag: "nothing"}
	since := time.Now().Add(-time.Minute).Truncate(time.Second).UTC()
	for _, reason := range gatewaytest.WaitReasons(t, "../../..") {
		text := saidOf(reason)
		h.wants(workspace.PhaseArchived, &workspace.Waiting{Reason: reason, Message: "for administrators", Since: since})
		page := h.get(502, onePath+"/", asAlice, asPage)
		for _, want := range []string{text["en"], text["ko"]} {
			if reason == workspace.WaitPullingImage {
				break // the stage says it
			}
			if !strings.Contains(page.body, ">"+template.HTMLEscapeString(want)+"</span>") {
				t.Errorf("%s: the page does not say %q", reason, want)
			}
		}
		if reason != workspace.WaitPullingImage && strings.Contains(page.body, ">"+itsTurn+"<") {
			t.Errorf("%s: the page says that it only waits for its turn", reason)
		}
		s := h.asked()
		stage := progress.StageQueued
		if reason == workspace.WaitPullingImage {
			stage = progress.StagePulling
		}
		if s.Waiting == nil || s.Waiting.Reason != reason || !s.Waiting.Since.Equal(since) || !h.tells(text) || s.Stage != stage || !s.Waking {
			t.Errorf("%s: the status is %+v, waiting %+v", reason, s, s.Waiting)
		}
		if other := tags[s.Tag]; other != "" {
			t.Errorf("%s has the tag of %s: a poll would miss the change", reason, other)
		}
		tags[s.Tag] = reason
	}
}

func TestAPollSeesTheNextReason(t *testing.T) {
	h := newHarness(t)
	pulling := func(done int64) {
		h.Change(one, func(r *store.Route) {
			r.Desired, r.Operation = workspace.DesiredRunning, workspace.OpStarting
			r.Waiting = &workspace.Waiting{Reason: "PullingImage", Done: done, Total: 540e6}
		})
	}
	pulling(1e6)
	tag := h.asked().Tag
	answer := h.getting(onePath+"/.codehub/status?wait=30&seen="+tag, asAlice, asSubrequest)
	pulling(120e6)
	var s progress.Status
	if err := json.Unmarshal([]byte((<-answer).body), &s); err != nil {
		t.Fatal(err)
	}
	if s.Stage != progress.StagePulling || len(s.Steps) != 4 || s.Steps[1].Amount == nil || s.Steps[1].Amount["en"] != "120 MB of 540 MB" ||
		s.Steps[1].Percent == nil || *s.Steps[1].Percent != 22 || s.Steps[1].SecondsLeft != nil {
		t.Errorf("the status is %+v", s)
	}
}

func TestARunningContainerWithoutAnAddressIsHeldWithAReason(t *testing.T) {
	for name, w := range map[string]*workspace.Waiting{
		"the controller says nothing": nil,
		"the controller says it, too": {Reason: workspace.WaitPaused, Message: "the container is paused"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, func(o *Options) { o.WakeTimeout = 50 * time.Millisecond })
			h.wants(workspace.PhaseRunning, w)
			page := h.get(502, onePath+"/", asAlice, asPage)
			if !strings.Contains(page.body, saidOf(workspace.WaitPaused)["en"]) || !strings.Contains(page.body, saidOf(workspace.WaitPaused)["ko"]) {
				t.Errorf("the page is %s", page.body)
			}
			if s := h.asked(); s.Stage != progress.StageAnswering || s.Ready || s.Waiting == nil || s.Waiting.Reason != workspace.WaitPaused {
				t.Errorf("the status is %+v, waiting %+v", s, s.Waiting)
			}
			held := h.get(503, onePath+"/", asAlice, asProgram)
			if !strings.Contains(held.body, "paused") {
				t.Errorf("a program is told %s", held.body)
			}
		})
	}
}

// A wake page without scripts is loaded again and again. The stages through which the wake-up has gone stay in its
// list.
func TestTheWakePageRemembersTheWay(t *testing.T) {
	h := newHarness(t, func(o *Options) { o.PageWait = 0 })
	h.Change(one, func(r *store.Route) { r.Phase, r.Desired = workspace.PhaseArchived, workspace.DesiredArchived })
	h.get(502, onePath+"/", asAlice, asPage)
	h.Change(one, func(r *store.Route) {
		r.Desired, r.Phase, r.Operation = workspace.DesiredRunning, workspace.PhaseStandby, workspace.OpStarting
	})
	page := h.get(502, onePath+"/", asAlice, asPage)
	if !strings.Contains(page.body, `<li class="done" data-stage="restoring">`) || !strings.Contains(page.body, `<li class="now" data-stage="starting" aria-current="step">`) ||
		page.Header.Get("Retry-After") == "" || !strings.Contains(page.body, `<noscript><meta http-equiv="refresh" content="3;url=`+onePath+`/">`) {
		t.Errorf("the page is\n%s", page.body)
	}
	h.Change(one, func(r *store.Route) {
		r.Phase, r.Operation, r.ErrorReason, r.ErrorMessage = workspace.PhaseError, workspace.OpNone, workspace.ReasonImagePullFailed, "no such image"
	})
	failed := h.get(502, onePath+"/", asAlice, asPage)
	for _, want := range []string{`<li class="failed">`, "Pulling its image", progress.FailureOf(&route.State{Route: store.Route{ErrorReason: workspace.ReasonImagePullFailed}}).Remedy["ko"]} {
		if !strings.Contains(failed.body, want) {
			t.Errorf("the page lacks %q:\n%s", want, failed.body)
		}
	}
	var s progress.Status
	if err := json.Unmarshal([]byte(h.get(200, onePath+"/.codehub/status", asAlice, asSubrequest).body), &s); err != nil {
		t.Fatal(err)
	}
	if s.Failure == nil || s.Failure.Heading["ko"] == "" || s.Failure.Remedy["en"] == "" || !strings.Contains(s.Failure.Detail, "ImagePullFailed") || strings.Contains(s.Failure.Detail, "no such image") {
		t.Errorf("the status is %+v", s)
	}
}
