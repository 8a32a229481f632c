package explain

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Text is a sentence in every language of the product.
type Text struct {
	En string `json:"en"`
	Ko string `json:"ko"`
}

// Backend names what runs workspaces, where a text is for installations on Docker and on
// Kubernetes alike. In Korean it ends in a vowel.
var Backend = Text{"container engine or cluster", "컨테이너 엔진이나 클러스터"}

// In returns the text in a language: "en" or "ko".
func (t Text) In(lang string) string {
	if lang == "ko" {
		return t.Ko
	}
	return t.En
}

// with replaces {0}, {1} … by the values, each in its language.
func (t Text) with(values ...Text) Text {
	for i, v := range values {
		key := fmt.Sprintf("{%d}", i)
		t.En, t.Ko = strings.ReplaceAll(t.En, key, v.En), strings.ReplaceAll(t.Ko, key, v.Ko)
	}
	return t
}

// since appends a time to a sentence without one.
func (t Text) since(from time.Time) Text {
	if from.IsZero() {
		return t
	}
	return Text{
		strings.TrimSuffix(t.En, ".") + " (since " + clock(from) + ").",
		strings.TrimSuffix(t.Ko, ".") + " (" + clock(from) + "부터).",
	}
}

// clock is how sentences name a time.
func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

func at(t time.Time) Text { return Text{clock(t), clock(t)} }

func number(n int) Text { return Text{strconv.Itoa(n), strconv.Itoa(n)} }

// phaseTexts say what a phase means (SPEC 2).
var phaseTexts = map[workspace.Phase]Text{
	workspace.PhasePending:  {"It has neither files nor an archive yet.", "아직 파일도 보관본도 없습니다."},
	workspace.PhaseArchived: {"Its files are in an archive, and it uses no disk of a host.", "파일이 보관본에 있고 호스트 디스크를 쓰지 않습니다."},
	workspace.PhaseStandby:  {"Its files are on their volume, and its container does not run.", "파일은 볼륨에 있고 컨테이너는 실행 중이 아닙니다."},
	workspace.PhaseRunning:  {"Its container runs.", "컨테이너가 실행 중입니다."},
	workspace.PhaseError:    {"It is in an error.", "오류 상태입니다."},
	workspace.PhaseDeleting: {"It was deleted and is being removed.", "삭제되어 제거하는 중입니다."},
	workspace.PhaseDeleted:  {"It was deleted, and nothing is left of it.", "삭제되었고 남은 것이 없습니다."},
}

// operationTexts say what is done in an operation (SPEC 3).
var operationTexts = map[workspace.Operation]Text{
	workspace.OpNone:               {"Nothing is done with it.", "진행 중인 작업이 없습니다."},
	workspace.OpCreateEmptyArchive: {"An empty archive is being made for it.", "빈 보관본을 만드는 중입니다."},
	workspace.OpProvisioning:       {"Its volume is being made.", "볼륨을 만드는 중입니다."},
	workspace.OpRestoring:          {"Its files are being restored from the archive.", "보관본에서 파일을 복원하는 중입니다."},
	workspace.OpStarting:           {"Its container is being started.", "컨테이너를 시작하는 중입니다."},
	workspace.OpStopping:           {"Its container is being stopped; its files stay.", "컨테이너를 멈추는 중입니다. 파일은 그대로 남습니다."},
	workspace.OpArchiving:          {"Its files are being archived.", "파일을 보관하는 중입니다."},
	workspace.OpDeleting:           {"Its container and its volume are being removed.", "컨테이너와 볼륨을 제거하는 중입니다."},
}

// requestTexts say what was asked for: {0} when, {1} by whom, {2} through what, {3} the
// new value.
var requestTexts = map[store.TransitionKind]Text{
	store.KindCreated:      {"It was created by {1} {2} at {0}.", "{0}에 {1}이(가) {2} 만들었습니다."},
	store.KindDesiredState: {"{3} was asked for by {1} {2} at {0}.", "{0}에 {1}이(가) {2} {3} 상태를 요청했습니다."},
	store.KindDeleted:      {"It was deleted by {1} {2} at {0}.", "{0}에 {1}이(가) {2} 삭제했습니다."},
	store.KindUndeleted:    {"Its deletion was undone by {1} {2} at {0}.", "{0}에 {1}이(가) {2} 삭제를 취소했습니다."},
	store.KindReverting:    {"Going back to the archive {3} was asked for by {1} {2} at {0}.", "{0}에 {1}이(가) {2} 보관본 {3}(으)로 되돌리기를 요청했습니다."},
	store.KindRecovered:    {"It was recovered ({3}) by {1} {2} at {0}.", "{0}에 {1}이(가) {2} 복구했습니다({3})."},
}

// causeTexts say through what something was asked for.
var causeTexts = map[string]Text{
	"api":     {"in the dashboard or through the API", "대시보드나 API로"},
	"gateway": {"by opening it", "워크스페이스를 열어"},
	"ttl":     {"because nobody had used it for a while", "한동안 사용되지 않아"},
	"disk":    {"to make room on the disk", "디스크 공간을 확보하려고"},
	"cli":     {"on the command line", "명령줄에서"},
}

// Who asked when no user is named: the command line needs no sign-in.
var (
	administratorText = Text{"an administrator", "관리자"}
	systemText        = Text{"the system", "시스템"}
)

// What comes next. {0} is when.
var (
	recoveredText = Text{"An administrator has recovered it, and it was not observed since.", "관리자가 복구했고 아직 다시 관찰되지 않았습니다."}
	awaitsGCText  = Text{"It was deleted, and nothing but its archive is left.", "삭제되었고 보관본만 남아 있습니다."}

	nothingText       = Text{"Nothing more happens to it.", "더 일어날 일이 없습니다."}
	observedText      = Text{"It is observed within seconds, and its phase follows from what is found.", "몇 초 안에 관찰되고 그 결과로 단계가 정해집니다."}
	needsRecoveryText = Text{"It stays as it is until an administrator recovers it or it is deleted.", "관리자가 복구하거나 삭제할 때까지 그대로 있습니다."}
	triedAgainText    = Text{"It is tried again by itself, after pauses of at most 10 minutes.", "최대 10분 간격으로 자동으로 다시 시도합니다."}
	waitEndsText      = Text{"If the object store still refuses at {0}, the workspace ends in an error.", "{0}에도 오브젝트 스토리지가 거부하면 오류 상태가 됩니다."}
	stepText          = Text{"The next step towards {1} is taken within seconds.", "몇 초 안에 {1} 상태로 가는 다음 단계를 시작합니다."}
	retryText         = Text{"Attempt {1} of {2} has failed; the next one follows by {0}.", "{2}번 중 {1}번째 시도가 실패했고 늦어도 {0}에 다시 시도합니다."}
	progressText      = Text{"How far it was at {1}: {0}.", "{1} 기준 진행 상황: {0}."}
	timesOutText      = Text{"It ends in an error if nothing gets on until {0}.", "{0}까지 진전이 없으면 오류 상태가 됩니다."}
	progressesText    = Text{"It takes longer than usual (until {0}), but it gets on.", "보통({0}까지)보다 오래 걸리지만 진행되고 있습니다."}
	keptText          = Text{"Its files stay until its deletion is undone or an administrator gives them up.", "삭제를 취소하거나 관리자가 포기할 때까지 파일이 남습니다."}
	waitsText         = Text{"It waits for as long as it takes, and goes on by itself; that counts as no failure.", "얼마든지 기다렸다가 저절로 계속되며, 실패로 치지 않습니다."}
	sleepsText        = Text{"It goes to sleep at {0} unless it is used or something works in it.", "사용하거나 안에서 작업이 돌지 않으면 {0}에 절전 상태가 됩니다."}
	sleepsSoonText    = Text{"It goes to sleep at the next check, by {0}, unless it is used or something works in it.", "사용하거나 안에서 작업이 돌지 않으면 늦어도 {0}의 다음 점검 때 절전 상태가 됩니다."}
	keptAwakeText     = Text{"Its owner keeps it awake until {0}.", "소유자가 {0}까지 깨워 두었습니다."}
	workCapText       = Text{"Work keeps it awake until {0} at most.", "작업이 있어도 늦어도 {0}에는 절전 상태가 됩니다."}
	cappedText        = Text{"Although it works, it goes to sleep at {0}: it has been unused for too long.", "작업 중이지만 너무 오래 사용하지 않아 {0}에 절전 상태가 됩니다."}
	trafficText       = Text{"Its pages cannot report people, so all traffic of theirs counts as use.", "이 워크스페이스의 페이지는 사람이 쓰는지 알려 줄 수 없어 모든 통신을 사용으로 봅니다."}
	archivedText      = Text{"It is archived at {0} unless it is opened.", "열지 않으면 {0}에 보관됩니다."}
	archivedSoonText  = Text{"It is archived at the next check, by {0}, unless it is opened.", "열지 않으면 늦어도 {0}의 다음 점검 때 보관됩니다."}
	staysText         = Text{"It stays as it is until somebody opens it.", "누군가 열 때까지 그대로 있습니다."}

	collectedText    = Text{"Its archives are being deleted since {0}; the deletion cannot be undone any more.", "{0}부터 보관본을 삭제하고 있어 더는 되돌릴 수 없습니다."}
	givenUpText      = Text{"An administrator has given its files up: they are deleted without the usual delay.", "관리자가 파일을 포기하여 유예 없이 삭제됩니다."}
	undeletableText  = Text{"Its deletion can be undone until {0}.", "{0}까지 삭제를 취소할 수 있습니다."}
	filesDeletedText = Text{"Its archive, or its volume where it could not be archived, is deleted after {0}.", "보관본(보관하지 못했으면 볼륨)은 {0} 이후에 삭제됩니다."}
)

// unknownBusyText is for a reason that a newer process has written.
var unknownBusyText = Text{"It stays awake for a reason that this version does not know.", "이 버전이 모르는 이유로 깨어 있습니다."}

// busyTexts say why an unused workspace stays awake; what is busy is the detail.
var busyTexts = map[string]Text{
	workspace.BusyCommand:    {"It stays awake because a program is open in a terminal that is not to be interrupted.", "중단하면 안 되는 프로그램이 터미널에 열려 있어 깨어 있습니다."},
	workspace.BusyTerminal:   {"It stays awake because a program in a terminal prints, writes or computes.", "터미널의 프로그램이 출력하거나 쓰거나 계산하고 있어 깨어 있습니다."},
	workspace.BusyBackground: {"It stays awake because a program computes in the background.", "백그라운드에서 프로그램이 계산하고 있어 깨어 있습니다."},
	workspace.BusyKernel:     {"It stays awake because a notebook computes.", "노트북이 계산하고 있어 깨어 있습니다."},
	workspace.BusyFile:       {"It stays awake because a program in it says so in ~/.codehub/busy.", "안의 프로그램이 ~/.codehub/busy로 작업 중이라고 알려 깨어 있습니다."},
	workspace.BusyImage:      {"It stays awake because the command that its image names says that it is busy.", "이미지에 지정된 명령이 작업 중이라고 알려 깨어 있습니다."},
	workspace.BusyNoAnswer:   {"It stays awake because it cannot be told whether something works in it.", "안에서 작업이 돌고 있는지 알 수 없어 깨어 있습니다."},
}
