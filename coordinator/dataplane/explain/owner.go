package explain

import (
	"maps"
	"slices"

	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
)

// What the container engine and the object store say names hosts and addresses inside the
// installation, and tells open ports from closed ones. It is for administrators. Owners are
// told what happened and what they can do, which is in the tables of this file.

var (
	askAdministrator = Text{"Ask an administrator to recover the workspace.", "관리자에게 복구를 요청하세요."}
	keepAndAsk       = Text{"Do not delete the workspace; tell an administrator.", "워크스페이스를 삭제하지 말고 관리자에게 알리세요."}
	nothingToDo      = Text{"It is tried again by itself.", "자동으로 다시 시도합니다."}
)

// ownerAdvice has a row for every reason for ERROR (SPEC 3).
var ownerAdvice = map[workspace.ErrorReason]Advice{
	workspace.ReasonTimeout:       {errorAdvice[workspace.ReasonTimeout].Meaning, askAdministrator},
	workspace.ReasonRetryExceeded: {Text{"It could not be started or put away, in several attempts.", "여러 번 시도했지만 시작하거나 정리하지 못했습니다."}, Text{"Choose another image if this one does not start, or ask an administrator to recover the workspace.", "이미지가 시작되지 않는다면 다른 이미지를 고르고, 아니면 관리자에게 복구를 요청하세요."}},
	workspace.ReasonActionFailed:  {Text{"A step has failed.", "단계가 실패했습니다."}, nothingToDo},
	workspace.ReasonUnreachable:   {Text{"Something that it needs could not be reached.", "필요한 자원에 연결할 수 없었습니다."}, nothingToDo},
	workspace.ReasonImagePullFailed: {Text{"Its image could not be pulled.", "이미지를 가져올 수 없습니다."},
		Text{"Choose another image, or ask an administrator.", "다른 이미지를 고르거나 관리자에게 문의하세요."}},
	workspace.ReasonDataLost: {Text{"Its files cannot be found at the moment.", "지금은 파일을 찾을 수 없습니다."}, keepAndAsk},
	workspace.ReasonContainerWithoutVolume: {Text{"Its container runs without its files.", "파일 없이 컨테이너가 실행되고 있습니다."},
		Text{"Save what you have open elsewhere, and tell an administrator.", "열어 둔 내용을 다른 곳에 저장하고 관리자에게 알리세요."}},
	workspace.ReasonArchiveCorrupted: {Text{"Its archive is damaged.", "보관본이 손상되었습니다."}, keepAndAsk},
	workspace.ReasonConflict: {Text{"Files were found that may be newer than what is known of it. Nothing was overwritten.",
		"기록보다 새로울 수 있는 파일이 발견되었습니다. 덮어쓴 것은 없습니다."}, keepAndAsk},
}

// ownerWaits are the waits about which an owner is told less than an administrator.
var ownerWaits = map[string]Advice{
	workspace.WaitStoreAway:       {waitAdvice[workspace.WaitStoreAway].Meaning, nothingToDo},
	workspace.WaitStoreRefuses:    {waitAdvice[workspace.WaitStoreRefuses].Meaning, Text{"Tell an administrator. It goes on by itself.", "관리자에게 알리세요. 이후 자동으로 계속됩니다."}},
	workspace.WaitBucketMismatch:  {waitAdvice[workspace.WaitBucketMismatch].Meaning, Text{"Tell an administrator.", "관리자에게 알리세요."}},
	workspace.WaitBackendAway:     {waitAdvice[workspace.WaitBackendAway].Meaning, nothingToDo},
	workspace.WaitBackendMismatch: {waitAdvice[workspace.WaitBackendMismatch].Meaning, Text{"Tell an administrator.", "관리자에게 알리세요."}},
	workspace.WaitArchiveFailed:   {waitAdvice[workspace.WaitArchiveFailed].Meaning, nothingToDo},
	workspace.WaitArchiveLocked:   {waitAdvice[workspace.WaitArchiveLocked].Meaning, Text{"Tell an administrator. It goes on by itself when the key is there.", "관리자에게 알리세요. 키가 준비되면 자동으로 계속됩니다."}},
	workspace.WaitJobImage: {Text{"It waits for a part of the server that moves its files and is not there yet.", "파일을 옮기는 서버의 구성 요소가 아직 준비되지 않아 기다리고 있습니다."},
		Text{"It goes on by itself when it is there. If it stays like this, tell an administrator.", "준비되면 자동으로 계속됩니다. 계속 이 상태라면 관리자에게 알리세요."}},
	workspace.WaitEgressRules: {Text{"It waits for the server's network rules, without which nothing starts.", "서버의 네트워크 규칙이 적용되기를 기다리고 있습니다. 규칙 없이는 아무것도 시작하지 않습니다."},
		Text{"It goes on by itself when they are there. If it stays like this, tell an administrator.", "적용되면 자동으로 계속됩니다. 계속 이 상태라면 관리자에게 알리세요."}},
	workspace.WaitDeletionFailed: {waitAdvice[workspace.WaitDeletionFailed].Meaning, nothingToDo},
	workspace.WaitDiskPressure: {waitAdvice[workspace.WaitDiskPressure].Meaning, Text{"Workspaces that have slept longest make room by themselves, and it goes on as soon as there is some. If it stays like this, tell an administrator.",
		"오래 잠든 워크스페이스가 자동으로 공간을 비우며, 공간이 생기면 바로 계속됩니다. 계속 이 상태라면 관리자에게 알리세요."}},
	workspace.WaitUnschedulable: {Text{"It waits for a free place: the cluster has none for it at the moment.", "클러스터에 빈자리가 없어 기다리고 있습니다."},
		Text{"It goes on by itself as soon as there is one. Putting another workspace to sleep may help; if it stays like this, tell an administrator, who can add a node.",
			"빈자리가 생기면 바로 자동으로 계속됩니다. 다른 워크스페이스를 재우면 도움이 될 수 있습니다. 계속 이 상태라면 노드를 추가할 수 있도록 관리자에게 알리세요."}},
	workspace.WaitVolume: {Text{"It waits for the volume with its files, which cannot be used at the moment.", "파일이 든 볼륨을 지금 쓸 수 없어 기다리고 있습니다."},
		Text{"It goes on by itself when the volume can be used. If it stays like this, tell an administrator; do not delete the workspace.", "볼륨을 쓸 수 있게 되면 자동으로 계속됩니다. 계속 이 상태라면 관리자에게 알리고 워크스페이스를 삭제하지 마세요."}},
	workspace.WaitQuota: {waitAdvice[workspace.WaitQuota].Meaning, Text{"Put another workspace to sleep, or ask an administrator to raise the quota. It goes on by itself when there is room.",
		"다른 워크스페이스를 재우거나 관리자에게 할당량을 늘려 달라고 하세요. 여유가 생기면 자동으로 계속됩니다."}},
	workspace.WaitEvicted: {Text{"The machine that it ran on has ended it, and it is started again.", "실행 중이던 서버에서 종료되어 다시 시작합니다."}, nothingToDo},
	workspace.WaitNodeLost: {Text{"The machine that it runs on does not report any more. What runs there may go on, and its files are where they were.", "실행 중이던 서버가 응답하지 않습니다. 그곳에서 돌던 것은 계속 돌고 있을 수 있으며 파일은 그대로 있습니다."},
		Text{"You can go on working if you still reach it. It recovers by itself when the machine is back; if it does not, tell an administrator.", "아직 연결된다면 계속 작업할 수 있습니다. 서버가 돌아오면 저절로 회복되며, 그렇지 않으면 관리자에게 알리세요."}},
	workspace.WaitTerminating: {Text{"It waits for its container to end, which takes longer than it should.", "컨테이너가 끝나기를 기다리고 있는데 평소보다 오래 걸립니다."},
		Text{"It goes on by itself. If it stays like this, tell an administrator.", "자동으로 계속됩니다. 계속 이 상태라면 관리자에게 알리세요."}},
	workspace.WaitContainer: {Text{"It waits for its container, which cannot be made yet.", "컨테이너를 아직 만들지 못해 기다리고 있습니다."},
		Text{"It is tried again by itself. If it stays like this, tell an administrator.", "자동으로 다시 시도합니다. 계속 이 상태라면 관리자에게 알리세요."}},
	workspace.WaitConflict: {waitAdvice[workspace.WaitConflict].Meaning, Text{"You can go on working. Ask an administrator to recover the workspace and keep its files; put to sleep before that, it stays closed until then.",
		"계속 작업할 수 있습니다. 파일을 유지하도록 복구해 달라고 관리자에게 요청하세요. 그 전에 재우면 복구할 때까지 열 수 없습니다."}},
	workspace.WaitPaused: {waitAdvice[workspace.WaitPaused].Meaning, Text{"Ask an administrator.", "관리자에게 문의하세요."}},
}

// ForOwner is what a reason for ERROR means to the owner of the workspace, and what the
// owner can do. A reason of a newer process is the administrator's to look at.
func ForOwner(r workspace.ErrorReason) Advice {
	if a, ok := ownerAdvice[r]; ok {
		return a
	}
	return Advice{Text{"Something went wrong with it.", "문제가 생겼습니다."}, askAdministrator}
}

// sentence is the advice as one text.
func (a Advice) sentence() Text {
	return Text{a.Meaning.En + " " + a.Remedy.En, a.Meaning.Ko + " " + a.Remedy.Ko}
}

// Failed is what its owner is told about a workspace with that error, in one text.
func Failed(r workspace.ErrorReason) Text { return ForOwner(r).sentence() }

// OwnersView returns the row as its owner may see it: without what servers said.
func OwnersView(w workspace.Workspace) workspace.Workspace {
	if w.ErrorReason != "" {
		w.ErrorMessage = Failed(w.ErrorReason).En
	}
	if w.Waiting != nil {
		waiting := *w.Waiting
		waiting.Message = ownersMessage(waiting)
		w.Waiting = &waiting
	}
	w.Conditions = maps.Clone(w.Conditions)
	for name, c := range w.Conditions {
		c.Message = ""
		w.Conditions[name] = c
	}
	return w
}

// OwnersHistory does the same for transitions.
func OwnersHistory(history []store.Transition) []store.Transition {
	out := make([]store.Transition, len(history))
	for i, t := range history {
		switch t.Kind {
		case store.KindError:
			t.Message = Failed(workspace.ErrorReason(t.New)).En
		case store.KindReverted:
			if t.Message != "" {
				t.Message = revertFailedText.En
			}
		case store.KindWaiting:
			if t.New != "" {
				t.Message = ownersMessage(workspace.Waiting{Reason: t.New, Message: t.Message})
			}
		}
		out[i] = t
	}
	return out
}

// ForOwner returns the explanation as the workspace's owner may see it.
func (e Explanation) ForOwner() Explanation {
	e.Why.Detail = ""
	if e.Waiting != nil {
		w := *e.Waiting
		if ownersMessage(w.of) != w.Detail {
			w.Detail = changed(w.of).En // the rest would repeat the text
		}
		w.Remedy = ownersAdvice(w.Code).Remedy
		e.Waiting = &w
	}
	failures := make([]Failure, len(e.Errors))
	for i, f := range e.Errors {
		advice := ForOwner(workspace.ErrorReason(f.Code))
		f.Text, f.Detail, f.Remedy = advice.Meaning.since(f.Since), "", advice.Remedy
		failures[i] = f
	}
	e.Errors = failures
	e.Archive = slices.Clone(e.Archive)
	for i, s := range e.Archive {
		if s.Code == "RevertFailed" {
			e.Archive[i].Detail = ""
		}
	}
	return e
}
