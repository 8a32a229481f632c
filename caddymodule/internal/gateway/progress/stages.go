package progress

import (
	"slices"
	"time"

	"github.com/codehub/gateway/coordinator/dataplane/activator"
	"github.com/codehub/gateway/coordinator/dataplane/explain"
	"github.com/codehub/gateway/coordinator/dataplane/route"
	"github.com/codehub/gateway/coordinator/words"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Stage is a stage of a wake-up on the wake page.
type Stage string

const (
	StageRoom      Stage = "room"      // another workspace stops first, because of a limit
	StageStopping  Stage = "stopping"  // it was just being put to sleep
	StageArchiving Stage = "archiving" // it was just being archived
	StageQueued    Stage = "queued"    // waits for the controller, or for the reason in Status.Waiting
	StagePulling   Stage = "pulling"   // an image is downloaded
	StageCreating  Stage = "creating"  // it is new: its home is created
	StageRestoring Stage = "restoring" // its home is restored
	StageStarting  Stage = "starting"  // its container starts
	StageAnswering Stage = "answering" // its application has not answered yet
	StageReady     Stage = "ready"
	StageAsleep    Stage = "asleep" // no wake-up is in progress
	StageLimit     Stage = "limit"
	StageFailed    Stage = "failed"
)

// stageInfo is what the wake page knows about a stage besides its name: how long the stage usually takes at most, and
// the key of the advice that is shown if it takes longer.
type stageInfo struct {
	usual time.Duration
	late  string
}

// stageInfos are all stages of the list. The key of a stage's text is below wake.stage.
var stageInfos = map[Stage]stageInfo{
	StageRoom:      {20 * time.Second, "wake.advice.come_back"},
	StageStopping:  {20 * time.Second, "wake.advice.come_back"},
	StageArchiving: {2 * time.Minute, "wake.advice.files_are_safe"},
	StageQueued:    {15 * time.Second, "wake.advice.come_back"},
	StagePulling:   {3 * time.Minute, "wake.advice.come_back"},
	StageCreating:  {20 * time.Second, "wake.advice.come_back"},
	StageRestoring: {time.Minute, "wake.advice.files_are_safe"},
	StageStarting:  {20 * time.Second, "wake.advice.come_back"},
	StageAnswering: {30 * time.Second, "wake.advice.no_answer"},
}

// text describes the stage.
func (s Stage) text() words.Text { return words.Of("wake.stage."+string(s), nil) }

// wayFrom returns the stages through which a workspace goes until its application answers. phase and during are its
// phase and its operation at the beginning. Stages that it does not go through are left out: from STANDBY, for example,
// nothing is restored.
func wayFrom(phase workspace.Phase, during workspace.Operation) []Stage {
	switch {
	case during == workspace.OpStopping:
		return []Stage{StageStopping, StageStarting, StageAnswering}
	case during == workspace.OpArchiving:
		return []Stage{StageArchiving, StageRestoring, StageStarting, StageAnswering}
	case phase == workspace.PhasePending:
		return []Stage{StageQueued, StageCreating, StageStarting, StageAnswering}
	case phase == workspace.PhaseArchived:
		return []Stage{StageQueued, StageRestoring, StageStarting, StageAnswering}
	case phase == workspace.PhaseRunning:
		return []Stage{StageAnswering}
	}
	return []Stage{StageQueued, StageStarting, StageAnswering}
}

// stageByOperation is the stage in which an operation is in progress.
var stageByOperation = map[workspace.Operation]Stage{
	workspace.OpStopping: StageStopping, workspace.OpArchiving: StageArchiving,
	workspace.OpCreateEmptyArchive: StageCreating, workspace.OpProvisioning: StageCreating,
	workspace.OpRestoring: StageRestoring, workspace.OpStarting: StageStarting,
}

// stageAfter is the stage that follows a phase, between two operations.
var stageAfter = map[workspace.Phase]Stage{
	workspace.PhasePending: StageCreating, workspace.PhaseArchived: StageRestoring,
	workspace.PhaseStandby: StageStarting, workspace.PhaseRunning: StageAnswering,
}

// stageOf returns the stage of a workspace that is not ready; from is the phase in which
// its wake-up began.
func stageOf(st *route.State, from workspace.Phase) Stage {
	r := &st.Route
	if s, ok := stageByOperation[r.Operation]; ok {
		return s
	}
	if s, ok := stageAfter[r.Phase]; ok && (r.Phase != from || r.Phase == workspace.PhaseRunning) {
		return s
	}
	return StageQueued
}

// Step is one line of the list of the wake page.
type Step struct {
	Stage Stage `json:"stage"`
	// State is done, now, todo or failed.
	State string `json:"state"`
	// Text describes the step, or the reason why it waits. In JSON its languages are fields of the
	// step.
	Text words.Text `json:"-"`
	// Percent is how much of the step is done, and SecondsLeft how long it will take; absent
	// while that is unknown. Amount is both in words.
	Percent     *int       `json:"percent,omitempty"`
	SecondsLeft *int       `json:"seconds_left,omitempty"`
	Amount      words.Text `json:"amount,omitempty"`
}

// MarshalJSON puts the languages of the text among the fields.
func (s Step) MarshalJSON() ([]byte, error) {
	type fields Step
	return words.Inline(fields(s), s.Text)
}

// The states of a step.
const (
	stepDone   = "done"
	stepNow    = "now"
	stepTodo   = "todo"
	stepFailed = "failed"
)

// stepsAt returns the steps of a starting workspace, and the current one. w is the reason why the
// workspace waits, nil if it does not.
func stepsAt(st *route.State, p activator.WakeProgress, w *Waiting) (list []Step, now Stage) {
	now = stageOf(st, p.From)
	way := wayFrom(p.From, p.During)
	if !slices.Contains(way, now) { // it went another way than expected
		way = wayFrom(st.Route.Phase, st.Route.Operation)
	}
	if w != nil && w.Reason == workspace.WaitPullingImage {
		way = slices.Insert(way, max(slices.Index(way, now), 0), StagePulling)
		now = StagePulling
	}
	if p.Room != "" && st.Route.Desired != workspace.DesiredRunning {
		way, now = slices.Insert(way, 0, StageRoom), StageRoom
	}
	state := stepDone
	for _, s := range way {
		item := Step{Stage: s, State: state, Text: s.text()}
		if s == now {
			item.State, state = stepNow, stepTodo
			item.present(w, p.Room)
			if w == nil && s == stageByOperation[st.Route.Operation] {
				item.progressed(st.Route.Progress)
			}
		}
		list = append(list, item)
	}
	return list, now
}

// StepsFrom returns the steps that a wake-up takes from the state st.
func StepsFrom(st *route.State) []Step {
	list, _ := stepsAt(st, activator.WakeProgress{From: st.Route.Phase, During: st.Route.Operation}, nil)
	return list
}

// present completes the current step. If the step waits, the reason for that becomes its text.
func (s *Step) present(w *Waiting, room string) {
	switch {
	case s.Stage == StageRoom:
		s.Text = words.Of("wake.putting_to_sleep", words.Values{"Name": room})
	case w == nil:
	case s.Stage == StagePulling && !w.of.FailedPull():
		s.pulled(w.of)
	default:
		s.Text = w.Text
	}
}

// progressed returns the progress of the step's storage job; nil if not known.
func (s *Step) progressed(p *workspace.JobProgress) {
	if p == nil {
		return
	}
	if percent, known := p.Percent(); known {
		s.Percent = &percent
	}
	if left, known := p.Left(); known {
		s.SecondsLeft = new(int(left.Seconds()))
	}
	s.Amount = explain.Progress(*p)
}

// pulled returns how much of an image is pulled.
func (s *Step) pulled(w workspace.Waiting) {
	if w.Total > 0 {
		s.Percent = new(int(min(100*w.Done/w.Total, 100)))
	}
	s.Amount = explain.Pulled(w)
}
