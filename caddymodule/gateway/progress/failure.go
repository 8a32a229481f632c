package progress

import (
	"github.com/codehub/gateway/caddymodule/web"
	"github.com/codehub/gateway/coordinator/explain"
	"github.com/codehub/gateway/coordinator/route"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Failure is why a workspace cannot be opened, for its owner. Detail is a technical text.
type Failure struct {
	Heading web.Text `json:"heading"`
	Remedy  web.Text `json:"remedy"`
	Detail  string   `json:"detail,omitempty"`
	// Step is the one that failed, nil if the reason does not tell. Only a page shows it.
	Step *Step `json:"-"`
}

// FailureOf returns what happened to a workspace in ERROR, and what to do.
func FailureOf(st *route.State) *Failure {
	reason, name := st.Route.ErrorReason, st.Route.Name
	f := &Failure{
		Heading: web.Text{En: name + " cannot be opened", Ko: "‘" + name + "’ 워크스페이스를 열 수 없습니다"},
		Remedy:  otherRemedy,
		// What servers said is for administrators.
		Detail: string(reason) + ": " + explain.ForOwner(reason).Meaning.En,
	}
	if remedy, ok := remedies[reason]; ok {
		f.Remedy = remedy
	}
	if s, ok := failedSteps[reason]; ok {
		f.Step = &Step{Stage: s, State: stepFailed, Text: stageInfos[s].text}
	}
	return f
}

// failedSteps tell which step of a wake-up fails with a reason.
var failedSteps = map[workspace.ErrorReason]Stage{
	workspace.ReasonImagePullFailed:  StagePulling,
	workspace.ReasonArchiveCorrupted: StageRestoring,
}

// remedies tell the owner what to do about a failed workspace, by the reason of the
// failure (SPEC 3).
var remedies = map[workspace.ErrorReason]web.Text{
	workspace.ReasonTimeout: {
		En: "It took too long. Ask an administrator to recover the workspace; your files were not changed.",
		Ko: "시간이 너무 오래 걸렸습니다. 관리자에게 복구를 요청하세요. 파일은 변경되지 않았습니다."},
	workspace.ReasonDataLost: {
		En: "Data that must exist was not found. Do not delete the workspace; tell an administrator.",
		Ko: "있어야 할 데이터를 찾지 못했습니다. 워크스페이스를 삭제하지 말고 관리자에게 알리세요."},
	workspace.ReasonImagePullFailed: {
		En: "Its image could not be pulled. Check the name of the image, then ask an administrator to recover the workspace.",
		Ko: "이미지를 가져올 수 없습니다. 이미지 이름을 확인한 뒤 관리자에게 복구를 요청하세요."},
	workspace.ReasonArchiveCorrupted: {
		En: "Its archive is damaged. Do not delete the workspace; tell an administrator.",
		Ko: "보관 파일이 손상되었습니다. 워크스페이스를 삭제하지 말고 관리자에게 알리세요."},
	workspace.ReasonConflict: {
		En: "Files were found that may be newer than what is known of this workspace. Nothing was overwritten. Do not delete the workspace; tell an administrator.",
		Ko: "이 워크스페이스의 기록보다 새로울 수 있는 파일이 발견되었습니다. 덮어쓴 것은 없습니다. 워크스페이스를 삭제하지 말고 관리자에게 알리세요."},
	workspace.ReasonContainerWithoutVolume: {
		En: "Its container runs without its files. Tell an administrator.",
		Ko: "파일 없이 컨테이너가 실행되고 있습니다. 관리자에게 알리세요."},
}

// otherRemedy is the remedy for every other reason.
var otherRemedy = web.Text{En: "Ask an administrator to recover the workspace.", Ko: "관리자에게 복구를 요청하세요."}
