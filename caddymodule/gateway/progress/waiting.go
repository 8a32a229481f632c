package progress

import (
	"fmt"
	"regexp"
	"time"

	"github.com/codehub/gateway/caddymodule/web"
	"github.com/codehub/gateway/coordinator/explain"
	"github.com/codehub/gateway/coordinator/route"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Waiting is why a workspace does not get on, for the person who waits for it.
type Waiting struct {
	// Reason is that of [workspace.Waiting], which programs may compare. Its message may be
	// what a server said, so it is for administrators and not sent.
	Reason  string `json:"reason"`
	message string
	// Text is the sentence that the wake page shows.
	web.Text
	// Since is when the wait for this reason began; zero when it is not known.
	Since time.Time `json:"since,omitzero"`
	// Before is how many others come first when it waits in a queue, from 10 on how many at
	// least; absent when it is next.
	Before int `json:"before,omitempty"`
}

// waits tell the owner what the workspace waits for, by the reason.
var waits = map[string]web.Text{
	"StoreAway": {
		En: "Waiting for the archive storage, which does not answer. The files are safe, and it goes on by itself.",
		Ko: "응답하지 않는 보관 저장소를 기다리는 중입니다. 파일은 안전하며, 저장소가 복구되면 자동으로 계속됩니다."},
	"StoreRefuses": {
		En: "Waiting for the archive storage, which refuses access or answers wrongly. The files are safe; tell an administrator.",
		Ko: "보관 저장소가 접근을 거부하거나 잘못된 응답을 보내고 있습니다. 파일은 안전합니다. 관리자에게 알려 주세요."},
	"BucketMismatch": {
		En: "Waiting for an administrator: the archive storage is not the one that this server knows. Nothing is changed until then.",
		Ko: "보관 저장소가 이 서버에 등록된 것과 다릅니다. 관리자가 확인할 때까지 아무것도 변경하지 않고 기다립니다."},
	"BackendAway": {
		En: "Waiting for the " + explain.Backend.En + ", which does not answer. It goes on by itself.",
		Ko: "응답하지 않는 " + explain.Backend.Ko + "를 기다리는 중입니다. 복구되면 자동으로 계속됩니다."},
	"BackendMismatch": {
		En: "Waiting for an administrator: the " + explain.Backend.En + " is not the one that this server knows. Nothing is changed until then.",
		Ko: explain.Backend.Ko + "가 이 서버에 등록된 것과 다릅니다. 관리자가 확인할 때까지 아무것도 변경하지 않고 기다립니다."},
	"ArchiveFailed": {
		En: "Its files could not be archived and stay where they are. The next attempt follows.",
		Ko: "파일을 보관하지 못해 그대로 두었습니다. 잠시 후 다시 시도합니다."},
	"ArchiveLocked": {
		En: "Its stored files are encrypted with a key that this server does not have. The files are safe; tell an administrator.",
		Ko: "보관된 파일이 이 서버에 없는 키로 암호화되어 있습니다. 파일은 안전합니다. 관리자에게 알려 주세요."},
	"DeletionFailed": {
		En: "It could not be deleted yet. The next attempt follows.",
		Ko: "아직 삭제하지 못했습니다. 잠시 후 다시 시도합니다."},
	"KeptUntilDeleted": {
		En: "It is deleted; its files are kept for some time, and the deletion can be undone until then.",
		Ko: "삭제되었습니다. 파일은 일정 기간 보관되며 그동안 삭제를 취소할 수 있습니다."},
	"KeptUntilGivenUp": {
		En: "It is deleted; its files are kept until the deletion is undone or an administrator gives them up.",
		Ko: "삭제되었습니다. 파일은 삭제를 취소하거나 관리자가 포기할 때까지 보관됩니다."},
	"PullingImage": {
		En: "Pulling its image",
		Ko: "이미지를 내려받는 중"},
	workspace.WaitUnschedulable: {
		En: "The cluster has no free node for this workspace. It goes on by itself as soon as there is one; an administrator can add a node.",
		Ko: "클러스터에 이 워크스페이스를 위한 빈 노드가 없습니다. 자리가 나면 자동으로 계속되며, 관리자가 노드를 추가할 수 있습니다."},
	workspace.WaitVolume: {
		En: "Waiting for the volume with its files. It goes on by itself; if this takes minutes, tell an administrator.",
		Ko: "파일이 든 볼륨을 기다리는 중입니다. 자동으로 계속되며, 몇 분이 지나도 그대로라면 관리자에게 알려 주세요."},
	workspace.WaitQuota: {
		En: "The cluster's quota is used up. It goes on by itself when another workspace goes to sleep; an administrator can raise the quota.",
		Ko: "클러스터의 할당량을 다 썼습니다. 다른 워크스페이스가 잠들면 자동으로 계속되며, 관리자가 할당량을 늘릴 수 있습니다."},
	workspace.WaitEvicted: {
		En: "The machine that it ran on has ended it. It is started again by itself; its files are safe.",
		Ko: "실행 중이던 서버에서 종료되었습니다. 자동으로 다시 시작하며 파일은 안전합니다."},
	workspace.WaitNodeLost: {
		En: "The machine that it runs on does not report. The files are safe, and it goes on by itself when the machine is back; an administrator can look at it.",
		Ko: "실행 중이던 서버가 응답하지 않습니다. 파일은 안전하며 서버가 돌아오면 자동으로 계속됩니다. 관리자가 서버를 확인할 수 있습니다."},
	workspace.WaitTerminating: {
		En: "Waiting for its last container to end, which takes longer than it should. It goes on by itself; if it does not, tell an administrator.",
		Ko: "이전 컨테이너가 끝나기를 기다리는 중이며 평소보다 오래 걸립니다. 자동으로 계속되며, 그렇지 않으면 관리자에게 알려 주세요."},
	workspace.WaitContainer: {
		En: "Its container cannot be made yet. It is tried again by itself; if this takes minutes, tell an administrator.",
		Ko: "컨테이너를 아직 만들지 못했습니다. 자동으로 다시 시도하며, 몇 분이 지나도 그대로라면 관리자에게 알려 주세요."},
	workspace.WaitDiskPressure: {
		En: "Waiting for disk space: sleeping workspaces are archived to make room. It goes on by itself as soon as there is some.",
		Ko: "디스크 공간을 기다리는 중입니다. 잠든 워크스페이스를 보관해 공간을 확보하며, 공간이 생기면 자동으로 계속됩니다."},
	workspace.WaitJobImage: {
		En: "Waiting for a part of the server that moves its files. The files are safe, and it goes on by itself; if this takes minutes, tell an administrator.",
		Ko: "파일을 옮기는 서버의 구성 요소를 기다리는 중입니다. 파일은 안전하며 준비되면 자동으로 계속됩니다. 몇 분이 지나도 그대로라면 관리자에게 알려 주세요."},
	workspace.WaitEgressRules: {
		En: "Waiting for the server's network rules, without which nothing starts. It goes on by itself; if this takes minutes, tell an administrator.",
		Ko: "서버의 네트워크 규칙이 적용되기를 기다리는 중입니다. 적용되면 자동으로 계속되며, 몇 분이 지나도 그대로라면 관리자에게 알려 주세요."},
	workspace.WaitJobQueue: {
		En: "It is next: as soon as files of another workspace are archived or restored, it goes on by itself.",
		Ko: "바로 다음 차례입니다. 다른 워크스페이스의 파일 보관이나 복원이 하나 끝나면 자동으로 계속됩니다."},
	"Unhealthy": {
		En: "Its container runs and reports that it is not healthy. It is shown as soon as it recovers.",
		Ko: "컨테이너가 실행 중이지만 정상 상태가 아닙니다. 회복되면 바로 열립니다."},
	workspace.WaitPaused: {
		En: "Its container is paused or takes no requests at the moment. It is shown as soon as it goes on.",
		Ko: "컨테이너가 일시 중지되었거나 지금은 요청을 받을 수 없습니다. 다시 동작하면 바로 열립니다."},
	"Conflict": {
		En: "Its files are not the ones that this server knows. Tell an administrator.",
		Ko: "파일이 이 서버에 기록된 것과 다릅니다. 관리자에게 알려 주세요."},
}

// WaitingFor returns what the workspace waits for in the state st, or nil when nothing is
// known that keeps it from getting on.
func WaitingFor(st *route.State) *Waiting {
	w := st.Route.Waiting
	switch {
	case st.Ready():
		return nil
	case w != nil:
		return &Waiting{Reason: w.Reason, message: w.Message, Text: waitText(w), Since: w.Since, Before: w.Before}
	case st.Route.Phase == workspace.PhaseRunning && st.Route.Endpoint == "" && st.Route.Operation == workspace.OpNone:
		return &Waiting{Reason: workspace.WaitPaused, Text: waits[workspace.WaitPaused]}
	}
	return nil
}

// makingRoom finds in the message that comes with DiskPressure how many make room.
var makingRoom = regexp.MustCompile(`; (\d+) sleeping workspaces? `)

// waitText returns the sentence for a reason. Of one that this release does not know the
// owner learns no more than that.
func waitText(w *workspace.Waiting) web.Text {
	text, known := waits[w.Reason]
	if w.Reason == workspace.WaitJobQueue && w.Before > 0 {
		return queueText(w.Before)
	}
	if n := makingRoom.FindStringSubmatch(w.Message); n != nil && w.Reason == workspace.WaitDiskPressure {
		return web.Text{
			En: "Waiting for disk space: " + n[1] + " sleeping workspace(s) being archived to make room. It goes on by itself as soon as there is some.",
			Ko: "디스크 공간을 기다리는 중입니다. 잠든 워크스페이스 " + n[1] + "개를 보관해 공간을 확보하고 있으며, 공간이 생기면 자동으로 계속됩니다."}
	}
	if !known {
		return web.Text{En: "It waits for something. If that does not pass, ask an administrator.", Ko: "무언가를 기다리고 있습니다. 계속되면 관리자에게 문의하세요."}
	}
	return text
}

// queueText says how many come first.
func queueText(before int) web.Text {
	en, ko := fmt.Sprintf("%d are before it", before), fmt.Sprintf("앞에 %d개가 있으며", before)
	switch {
	case before == 1:
		en = "1 is before it"
	case before > workspace.ExactlyBefore:
		en, ko = "at least "+en, fmt.Sprintf("앞에 %d개 이상 있으며", before)
	}
	return web.Text{
		En: "Waiting until it is its turn to have its files restored or archived: " + en + ". It goes on by itself.",
		Ko: "파일을 복원하거나 보관할 차례를 기다리는 중입니다. " + ko + ", 차례가 되면 자동으로 계속됩니다."}
}
