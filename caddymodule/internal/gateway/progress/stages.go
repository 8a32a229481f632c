package progress

import (
	"slices"
	"time"

	"github.com/codehub/gateway/coordinator/dataplane/activator"
	"github.com/codehub/gateway/coordinator/dataplane/explain"
	"github.com/codehub/gateway/coordinator/dataplane/route"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Stage is how far a wake-up has come, as the wake page shows it.
type Stage string

const (
	StageRoom      Stage = "room"      // another workspace stops first, because of a limit
	StageStopping  Stage = "stopping"  // it was just being put to sleep
	StageArchiving Stage = "archiving" // it was just being archived
	StageQueued    Stage = "queued"    // waits for the controller, or for what Status.Waiting says
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

// stageInfo is what the wake page says about a stage: what goes on, how long that usually
// takes at most, and what to do when it takes longer.
type stageInfo struct {
	text  explain.Text
	usual time.Duration
	late  explain.Text
}

// Advice that several stages share.
var (
	comeBack = explain.Text{
		En: "It goes on by itself, also when you close this page: come back later. If it stays like this, tell an administrator.",
		Ko: "이 페이지를 닫아도 계속 진행되니 나중에 다시 열어 보세요. 계속 이 상태라면 관리자에게 알려 주세요."}
	filesAreSafe = explain.Text{
		En: "Many or large files take their time, and none is lost. It goes on by itself, also when you close this page.",
		Ko: "파일이 많거나 크면 시간이 더 걸립니다. 사라지는 파일은 없으며, 이 페이지를 닫아도 계속 진행됩니다."}
)

// stageInfos are all stages of the list.
var stageInfos = map[Stage]stageInfo{
	StageRoom:      {explain.Text{En: "Waiting until another workspace has stopped", Ko: "다른 워크스페이스가 중지되기를 기다리는 중"}, 20 * time.Second, comeBack},
	StageStopping:  {explain.Text{En: "Waiting until it has stopped", Ko: "중지가 끝나기를 기다리는 중"}, 20 * time.Second, comeBack},
	StageArchiving: {explain.Text{En: "Waiting until its files are archived", Ko: "파일 보관이 끝나기를 기다리는 중"}, 2 * time.Minute, filesAreSafe},
	StageQueued:    {explain.Text{En: "Waiting for its turn", Ko: "차례를 기다리는 중"}, 15 * time.Second, comeBack},
	StagePulling:   {explain.Text{En: "Pulling its image", Ko: "이미지를 내려받는 중"}, 3 * time.Minute, comeBack},
	StageCreating:  {explain.Text{En: "Creating its home folder", Ko: "홈 폴더를 만드는 중"}, 20 * time.Second, comeBack},
	StageRestoring: {explain.Text{En: "Restoring its files", Ko: "파일을 복원하는 중"}, time.Minute, filesAreSafe},
	StageStarting:  {explain.Text{En: "Starting the container", Ko: "컨테이너를 시작하는 중"}, 20 * time.Second, comeBack},
	StageAnswering: {explain.Text{En: "Waiting for the application's first answer", Ko: "애플리케이션의 첫 응답을 기다리는 중"}, 30 * time.Second, explain.Text{
		En: "Its application does not answer yet. If it never does, put the workspace to sleep in the list of all workspaces and open it again; your files stay.",
		Ko: "애플리케이션이 아직 응답하지 않습니다. 계속 응답이 없으면 모든 워크스페이스 목록에서 이 워크스페이스를 재운 뒤 다시 열어 보세요. 파일은 그대로 남습니다."}},
}

// wayFrom returns the stages from a phase, in which an operation is in progress, to the
// first answer. Only those that this way has: nothing is restored after standby.
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
	// Text says what goes on, or what it waits for.
	explain.Text
	// Percent is how much of the step is done, and SecondsLeft how long it will take; absent
	// while nobody knows. Amount is both in words.
	Percent     *int          `json:"percent,omitempty"`
	SecondsLeft *int          `json:"seconds_left,omitempty"`
	Amount      *explain.Text `json:"amount,omitempty"`
}

// The states of a step.
const (
	stepDone   = "done"
	stepNow    = "now"
	stepTodo   = "todo"
	stepFailed = "failed"
)

// stepsAt returns the steps of a workspace that comes up, and which of them is the present
// one. w is what the workspace waits for, nil for nothing.
func stepsAt(st *route.State, p activator.Progress, w *Waiting) (list []Step, now Stage) {
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
		item := Step{Stage: s, State: state, Text: stageInfos[s].text}
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
	list, _ := stepsAt(st, activator.Progress{From: st.Route.Phase, During: st.Route.Operation}, nil)
	return list
}

// present completes the step that goes on: what it waits for takes the place of its text.
func (s *Step) present(w *Waiting, room string) {
	switch {
	case s.Stage == StageRoom:
		s.Text = explain.Text{En: "Putting " + room + " to sleep", Ko: room + " 재우는 중"}
	case w == nil:
	case s.Stage == StagePulling:
		s.pulled(w.of)
	default:
		s.Text = w.Text
	}
}

// progressed says how the storage job of the step gets on; nil if that is not known.
func (s *Step) progressed(p *workspace.Progress) {
	if p == nil {
		return
	}
	if percent, known := p.Percent(); known {
		s.Percent = &percent
	}
	if left, known := p.Left(); known {
		s.SecondsLeft = new(int(left.Seconds()))
	}
	if text := explain.Progress(*p); text != (explain.Text{}) {
		s.Amount = &text
	}
}

// pulled says how much of an image is there.
func (s *Step) pulled(w workspace.Waiting) {
	if w.Total > 0 {
		s.Percent = new(int(min(100*w.Done/w.Total, 100)))
	}
	if text := explain.Pulled(w); text != (explain.Text{}) {
		s.Amount = &text
	}
}
