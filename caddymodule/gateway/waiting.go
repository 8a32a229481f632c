package gateway

import (
	"fmt"
	"regexp"
	"time"

	"github.com/codehub/gateway/caddymodule/web"
	"github.com/codehub/gateway/coordinator/route"
	"github.com/codehub/gateway/coordinator/workspace"
)

// waiting is why a workspace does not get on, for the person who waits for it.
type waiting struct {
	// Reason and Message are those of [workspace.Waiting]. Programs may compare the
	// reason; the message is for administrators.
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
	// En and Ko are the sentence that the wake page shows.
	En string `json:"en"`
	Ko string `json:"ko"`
	// Since is when the wait for this reason began; zero when it is not known.
	Since time.Time `json:"since,omitzero"`
}

// paused is the reason for a container that runs and takes no requests.
const paused = "Paused"

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
		En: "Waiting for the container engine, which does not answer. It goes on by itself.",
		Ko: "응답하지 않는 컨테이너 엔진을 기다리는 중입니다. 복구되면 자동으로 계속됩니다."},
	"BackendMismatch": {
		En: "Waiting for an administrator: the container engine is not the one that this server knows. Nothing is changed until then.",
		Ko: "컨테이너 엔진이 이 서버에 등록된 것과 다릅니다. 관리자가 확인할 때까지 아무것도 변경하지 않고 기다립니다."},
	"ArchiveFailed": {
		En: "Its files could not be archived and stay where they are. The next attempt follows.",
		Ko: "파일을 보관하지 못해 그대로 두었습니다. 잠시 후 다시 시도합니다."},
	"DeletionFailed": {
		En: "It could not be deleted yet. The next attempt follows.",
		Ko: "아직 삭제하지 못했습니다. 잠시 후 다시 시도합니다."},
	"KeptUntilDeleted": {
		En: "It is deleted; its files are kept for some time, and the deletion can be undone until then.",
		Ko: "삭제되었습니다. 파일은 일정 기간 보관되며 그동안 삭제를 취소할 수 있습니다."},
	"PullingImage": {
		En: "Pulling its image",
		Ko: "이미지를 내려받는 중"},
	"Unhealthy": {
		En: "Its container runs and reports that it is not healthy. It is shown as soon as it recovers.",
		Ko: "컨테이너가 실행 중이지만 정상 상태가 아닙니다. 회복되면 바로 열립니다."},
	paused: {
		En: "Its container is paused or takes no requests at the moment. It is shown as soon as it goes on.",
		Ko: "컨테이너가 일시 중지되었거나 지금은 요청을 받을 수 없습니다. 다시 동작하면 바로 열립니다."},
	"Conflict": {
		En: "Its files are not the ones that this server knows. Tell an administrator.",
		Ko: "파일이 이 서버에 기록된 것과 다릅니다. 관리자에게 알려 주세요."},
}

// pulled are the forms of the message that comes with PullingImage.
var (
	pulledOf    = regexp.MustCompile(`^pulling (\S+) of (\S+ ?\S*)$`)
	pulledSoFar = regexp.MustCompile(`^pulling (\S+ ?\S*) so far$`)
)

// waitingFor returns what the workspace waits for in the state st, or nil when nothing is
// known that keeps it from getting on.
func waitingFor(st *route.State) *waiting {
	w := st.Route.Waiting
	switch {
	case st.Ready():
		return nil
	case w != nil:
		text := waitText(w)
		return &waiting{Reason: w.Reason, Message: w.Message, En: text.En, Ko: text.Ko, Since: w.Since}
	case st.Route.Phase == workspace.PhaseRunning && st.Route.Endpoint == "" && st.Route.Operation == workspace.OpNone:
		return &waiting{Reason: paused, En: waits[paused].En, Ko: waits[paused].Ko}
	}
	return nil
}

// waitText returns the sentence for a reason. One that this release does not know is
// shown as it is.
func waitText(w *workspace.Waiting) web.Text {
	text, known := waits[w.Reason]
	if !known {
		return web.Text{En: w.Message, Ko: w.Message}
	}
	if w.Reason == "PullingImage" {
		if m := pulledOf.FindStringSubmatch(w.Message); m != nil {
			return web.Text{En: fmt.Sprintf("%s: %s of %s", text.En, m[1], m[2]), Ko: fmt.Sprintf("%s: %s 중 %s", text.Ko, m[2], m[1])}
		}
		if m := pulledSoFar.FindStringSubmatch(w.Message); m != nil {
			return web.Text{En: fmt.Sprintf("%s: %s so far", text.En, m[1]), Ko: fmt.Sprintf("%s: 현재까지 %s", text.Ko, m[1])}
		}
	}
	return text
}
