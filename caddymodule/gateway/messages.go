package gateway

import (
	"net/http"

	"github.com/codehub/gateway/caddymodule/web"
	"github.com/codehub/gateway/coordinator/route"
	"github.com/codehub/gateway/coordinator/workspace"
)

// message is a page with a heading, a few sentences and links. Detail is a technical
// text that is not translated.
type message struct {
	Heading, Text, Remedy web.Text
	Detail                string
	Links                 []link
}

// link is a link below a message.
type link struct {
	URL  string
	Text web.Text
}

// notFoundMessage is the page for an address without a workspace of the user. It is
// the same for a missing workspace and for another user's, so that ids cannot be
// probed.
func notFoundMessage() *message {
	return &message{
		Heading: web.Text{En: "Not found", Ko: "찾을 수 없습니다"},
		Text:    web.Text{En: "No workspace of yours has this address. It may have been deleted.", Ko: "이 주소에 해당하는 내 워크스페이스가 없습니다. 삭제되었을 수 있습니다."},
	}
}

// noAnswerMessage is the page for an application that gave no answer.
func noAnswerMessage(r *http.Request) *message {
	return &message{
		Heading: web.Text{En: "The workspace gave no answer", Ko: "워크스페이스가 응답하지 않았습니다"},
		Text:    web.Text{En: "Its application broke off the connection or took too long. It may be starting again: try again in a moment.", Ko: "애플리케이션의 연결이 끊겼거나 응답이 너무 오래 걸렸습니다. 다시 시작하는 중일 수 있으니 잠시 후 다시 시도해 주세요."},
		Links:   []link{tryAgain(r)},
	}
}

// unavailableMessage is the page for a process that cannot decide yet: the route
// table is empty, or the session cannot be checked.
func unavailableMessage(r *http.Request) *message {
	return &message{
		Heading: web.Text{En: "Not available at the moment", Ko: "지금은 이용할 수 없습니다"},
		Text:    web.Text{En: "The server is starting, or cannot check your sign-in. Your files are safe. Try again in a moment.", Ko: "서버가 시작되는 중이거나 로그인을 확인할 수 없습니다. 파일은 안전합니다. 잠시 후 다시 시도해 주세요."},
		Links:   []link{tryAgain(r)},
	}
}

// tryAgain is a link to the address of r itself.
func tryAgain(r *http.Request) link {
	return link{r.URL.RequestURI(), web.Text{En: "Try again", Ko: "다시 시도"}}
}

// expiredTicketMessage is the page for a ticket that cannot be redeemed. Back is a
// local path.
func expiredTicketMessage(back string) *message {
	return &message{
		Heading: web.Text{En: "The sign-in has expired", Ko: "로그인이 만료되었습니다"},
		Text:    web.Text{En: "It was used already, or it took too long. Open the workspace again.", Ko: "이미 사용되었거나 시간이 초과되었습니다. 워크스페이스를 다시 열어 주세요."},
		Links:   []link{{back, web.Text{En: "Open the workspace", Ko: "워크스페이스 열기"}}},
	}
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
		En: "Its image cannot be pulled. Check the name of the image, then ask an administrator to recover the workspace.",
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

// failedMessage is the page for a workspace in ERROR.
func failedMessage(st *route.State) *message {
	remedy, ok := remedies[st.Route.ErrorReason]
	if !ok {
		remedy = otherRemedy
	}
	name := st.Route.Name
	return &message{
		Heading: web.Text{En: name + " cannot be opened", Ko: "‘" + name + "’ 워크스페이스를 열 수 없습니다"},
		Text:    web.Text{En: "Something went wrong with this workspace.", Ko: "이 워크스페이스에 문제가 생겼습니다."},
		Detail:  failureText(st),
		Remedy:  remedy,
	}
}
