package progress

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/dataplane/activator"
	"github.com/codehub/gateway/coordinator/dataplane/explain"
	"github.com/codehub/gateway/coordinator/dataplane/route"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/words"
	"github.com/codehub/gateway/coordinator/workspace"
)

// TestSteps: each way has its own stages and no other, and past stages stay done.
func TestSteps(t *testing.T) {
	t.Parallel()
	const (
		none     = workspace.OpNone
		pending  = workspace.PhasePending
		archived = workspace.PhaseArchived
		standby  = workspace.PhaseStandby
		running  = workspace.PhaseRunning
	)
	pull := &Waiting{Reason: workspace.WaitPullingImage}
	away := &Waiting{Reason: workspace.WaitStoreAway, Text: explain.Waits(workspace.Waiting{Reason: workspace.WaitStoreAway}, false)}
	for _, c := range []struct {
		name   string
		from   workspace.Phase
		during workspace.Operation
		phase  workspace.Phase
		op     workspace.Operation
		w      *Waiting
		room   string
		want   string // the stages, the current one in brackets
	}{
		{"from STANDBY", standby, none, standby, none, nil, "", "[queued] starting answering"},
		{"from STANDBY, starting", standby, none, standby, workspace.OpStarting, nil, "", "queued [starting] answering"},
		{"from STANDBY, running", standby, none, running, none, nil, "", "queued starting [answering]"},
		{"from ARCHIVED", archived, none, archived, none, nil, "", "[queued] restoring starting answering"},
		{"from ARCHIVED, restoring", archived, none, archived, workspace.OpRestoring, nil, "", "queued [restoring] starting answering"},
		{"from ARCHIVED, restored", archived, none, standby, none, nil, "", "queued restoring [starting] answering"},
		{"from ARCHIVED, starting", archived, none, standby, workspace.OpStarting, nil, "", "queued restoring [starting] answering"},
		{"from ARCHIVED, running", archived, none, running, none, nil, "", "queued restoring starting [answering]"},
		{"new", pending, none, pending, none, nil, "", "[queued] creating starting answering"},
		{"new, provisioned", pending, none, pending, workspace.OpProvisioning, nil, "", "queued [creating] starting answering"},
		{"new, created", pending, none, standby, none, nil, "", "queued creating [starting] answering"},
		{"just being stopped", running, workspace.OpStopping, running, workspace.OpStopping, nil, "", "[stopping] starting answering"},
		{"stopped", running, workspace.OpStopping, standby, none, nil, "", "stopping [starting] answering"},
		{"just being archived", standby, workspace.OpArchiving, standby, workspace.OpArchiving, nil, "", "[archiving] restoring starting answering"},
		{"archived", standby, workspace.OpArchiving, archived, none, nil, "", "archiving [restoring] starting answering"},
		{"not archived after all", standby, workspace.OpArchiving, standby, none, nil, "", "[queued] starting answering"},
		{"stopped, and archived at once", running, workspace.OpStopping, standby, workspace.OpArchiving, nil, "", "[archiving] restoring starting answering"},
		{"its container was gone", running, none, standby, workspace.OpStarting, nil, "", "queued [starting] answering"},
		{"it runs", running, none, running, none, nil, "", "[answering]"},
		{"the image is pulled", standby, none, standby, workspace.OpStarting, pull, "", "queued [pulling] starting answering"},
		{"the job's image is pulled", archived, none, archived, workspace.OpRestoring, pull, "", "queued [pulling] restoring starting answering"},
		{"the store is away", archived, none, archived, none, away, "", "[queued] restoring starting answering"},
		{"another one stops first", standby, none, standby, none, nil, "other", "[room] queued starting answering"},
	} {
		st := &route.State{Route: store.Route{Phase: c.phase, Operation: c.op, Desired: workspace.DesiredStandby}}
		list, now := stepsAt(st, activator.WakeProgress{From: c.from, During: c.during, Room: c.room}, c.w)
		var got []string
		state := stepDone
		for _, s := range list {
			name := string(s.Stage)
			if s.Stage == now {
				name, state = "["+name+"]", stepNow
			}
			if s.State != state || s.Text["en"] == "" || s.Text["ko"] == "" {
				t.Errorf("%s: the step %s is %+v", c.name, name, s)
			}
			if state == stepNow {
				state = stepTodo
			}
			got = append(got, name)
		}
		if got := strings.Join(got, " "); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}

func TestWhatAStepSays(t *testing.T) {
	t.Parallel()
	percent := func(n int) *int { return &n }
	for _, c := range []struct {
		done, total int64
		en, ko      string
		percent     *int
	}{
		{120e6, 540e6, "120 MB of 540 MB", "540 MB 중 120 MB", percent(22)},
		{12_345_678, 0, "12 MB so far", "지금까지 12 MB", nil},
		{0, 0, "", "", nil},
	} {
		s := Step{Stage: StagePulling}
		s.present(&Waiting{of: workspace.Waiting{Reason: workspace.WaitPullingImage, Done: c.done, Total: c.total}}, "")
		if s.Amount["en"] != c.en || s.Amount["ko"] != c.ko || (s.Percent == nil) != (c.percent == nil) || s.Percent != nil && *s.Percent != *c.percent {
			t.Errorf("%d of %d: %+v, %+v", c.done, c.total, s, s.Amount)
		}
	}
	s := Step{Stage: StageRoom}
	s.present(nil, "cs-path")
	if s.Text["en"] != "Putting cs-path to sleep" || s.Text["ko"] != "cs-path 재우는 중" {
		t.Errorf("got %+v", s)
	}
	s = Step{Stage: StageQueued}
	s.present(&Waiting{Reason: "StoreAway", Text: words.Text{"en": "a", "ko": "b"}}, "")
	if s.Text["en"] != "a" || s.Text["ko"] != "b" {
		t.Errorf("got %+v", s)
	}
}

// Only the stage with a running storage job shows its progress.
func TestWhatAJobHasDone(t *testing.T) {
	t.Parallel()
	unpack := &workspace.JobProgress{Step: "unpack", Done: 63, Total: 100, Rate: 1}
	for _, c := range []struct {
		name     string
		phase    workspace.Phase
		op       workspace.Operation
		progress *workspace.JobProgress
		w        *Waiting
		percent  string // with the time left
		en, ko   string
	}{
		{"nothing is known", workspace.PhaseArchived, workspace.OpRestoring, nil, nil, "", "", ""},
		{"it restores", workspace.PhaseArchived, workspace.OpRestoring, unpack, nil, "63 37",
			"downloading and unpacking, 63 B of 100 B · 1 B/s · 37 s left", "내려받아 푸는 중, 100 B 중 63 B · 1 B/s · 37초 남음"},
		{"at once", workspace.PhaseArchived, workspace.OpRestoring, &workspace.JobProgress{Step: "unpack", Total: 100}, nil, "0",
			"downloading and unpacking, 0 B of 100 B", "내려받아 푸는 중, 100 B 중 0 B"},
		{"it swaps", workspace.PhaseArchived, workspace.OpRestoring, &workspace.JobProgress{Step: "swap"}, nil, "",
			"putting the files in place", "파일을 제자리에 놓는 중"},
		{"it is just being archived", workspace.PhaseStandby, workspace.OpArchiving, &workspace.JobProgress{Step: "archive", Done: 5e6, Rate: 1e6}, nil, "",
			"packing and uploading, 5.0 MB so far · 1.0 MB/s", "압축하여 올리는 중, 지금까지 5.0 MB · 1.0 MB/s"},
		{"it waits", workspace.PhaseArchived, workspace.OpRestoring, unpack, &Waiting{Reason: workspace.WaitStoreAway}, "", "", ""},
		{"another stage", workspace.PhaseStandby, workspace.OpNone, unpack, nil, "", "", ""},
	} {
		st := &route.State{Route: store.Route{Phase: c.phase, Operation: c.op, Desired: workspace.DesiredRunning, Progress: c.progress}}
		s := Status{Steps: nil}
		s.Steps, s.Stage = stepsAt(st, activator.WakeProgress{From: c.phase, During: c.op}, c.w)
		for _, item := range s.Steps {
			percent, amount := "", words.Text{}
			if item.Percent != nil {
				percent = fmt.Sprint(*item.Percent)
			}
			if item.SecondsLeft != nil {
				percent += fmt.Sprintf(" %d", *item.SecondsLeft)
			}
			if item.Amount != nil {
				amount = item.Amount
			}
			want, text := c.percent, words.Text{"en": c.en, "ko": c.ko}
			if item.State != stepNow {
				want, text = "", nil
			}
			if percent != want || amount.In("en") != text.In("en") || amount.In("ko") != text.In("ko") {
				t.Errorf("%s: the step %s says %q %+v", c.name, item.Stage, percent, amount)
			}
		}
		s.tag()
		before := s.Tag
		if c.en != "" {
			step := &s.Steps[slices.IndexFunc(s.Steps, func(s Step) bool { return s.State == stepNow })]
			step.Amount = words.Same(c.en + ".")
		}
		if s.tag(); (s.Tag != before) != (c.en != "") {
			t.Errorf("%s: the tags are %s and %s", c.name, before, s.Tag)
		}
	}
}

// A stage that takes longer than usual shows advice, unless the reason is known.
func TestLate(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, c := range []struct {
		name  string
		stage Stage
		w     *Waiting
		age   time.Duration
		late  bool
	}{
		{"quick", StageStarting, nil, 19 * time.Second, false},
		{"slow", StageStarting, nil, 20 * time.Second, true},
		{"the reason is known", StageStarting, &Waiting{Reason: "BackendAway"}, time.Hour, false},
		{"a slow pull", StagePulling, &Waiting{Reason: "PullingImage", Since: now.Add(-time.Hour)}, time.Second, true},
		{"a quick pull in a long operation", StagePulling, &Waiting{Reason: "PullingImage", Since: now.Add(-time.Second)}, time.Hour, false},
	} {
		s := Status{Stage: c.stage, Waiting: c.w}
		s.timed(now.Add(-c.age), now)
		if s.IsLate() != c.late || c.late && s.Late == nil {
			t.Errorf("%s: %+v", c.name, s)
		}
	}
	for s, info := range stageInfos {
		if info.usual <= 0 || !words.Has("wake.stage."+string(s)) || !words.Has(info.late) {
			t.Errorf("%s says %+v", s, info)
		}
	}
}
