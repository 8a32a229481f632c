package pages

import (
	"fmt"

	"github.com/codehub/gateway/caddymodule/internal/web"
	"github.com/codehub/gateway/coordinator/dataplane/explain"
)

// NotFound is the page for an address without a workspace of the user. It is
// the same for a missing workspace and for another user's, so that ids cannot be
// probed.
func NotFound() *web.Message {
	return &web.Message{
		Heading: explain.Text{En: "Not found", Ko: "찾을 수 없습니다"},
		Text:    explain.Text{En: "No workspace of yours has this address. It may have been deleted.", Ko: "이 주소에 해당하는 내 워크스페이스가 없습니다. 삭제되었을 수 있습니다."},
	}
}

// Misdirected is the page for a host at which people do not sign in.
func Misdirected(main string) *web.Message {
	return &web.Message{
		Heading: explain.Text{En: "This is not the address of CodeHub", Ko: "CodeHub의 주소가 아닙니다"},
		Text: explain.Text{En: "For your safety, people sign in at " + main + " only. An administrator can change that address with the setting public_url.",
			Ko: "안전을 위해 " + main + "에서만 로그인할 수 있습니다. 관리자는 public_url 설정으로 이 주소를 바꿀 수 있습니다."},
	}
}

// NoAnswer is the page for an application that gave no answer.
func NoAnswer(to string) *web.Message {
	return &web.Message{
		Heading: explain.Text{En: "The workspace gave no answer", Ko: "워크스페이스가 응답하지 않았습니다"},
		Text:    explain.Text{En: "Its application broke off the connection or took too long. It may be starting again: try again in a moment.", Ko: "애플리케이션의 연결이 끊겼거나 응답이 너무 오래 걸렸습니다. 다시 시작하는 중일 수 있으니 잠시 후 다시 시도해 주세요."},
		Links:   []web.Link{tryAgain(to)},
	}
}

// Unavailable is the page for a process that cannot decide yet: the route
// table is empty, or the session cannot be checked.
func Unavailable(to string) *web.Message {
	return &web.Message{
		Heading: explain.Text{En: "Not available at the moment", Ko: "지금은 이용할 수 없습니다"},
		Text:    explain.Text{En: "The server is starting, or cannot check your sign-in. Your files are safe. Try again in a moment.", Ko: "서버가 시작되는 중이거나 로그인을 확인할 수 없습니다. 파일은 안전합니다. 잠시 후 다시 시도해 주세요."},
		Links:   []web.Link{tryAgain(to)},
	}
}

// tryAgain is a link to the address that was asked for.
func tryAgain(to string) web.Link {
	return web.Link{URL: to, Text: explain.Text{En: "Try again", Ko: "다시 시도"}}
}

// ExpiredTicket is the page for a ticket that cannot be redeemed. Back is a
// local path.
func ExpiredTicket(back string) *web.Message {
	return &web.Message{
		Heading: explain.Text{En: "The sign-in has expired", Ko: "로그인이 만료되었습니다"},
		Text:    explain.Text{En: "It was used already, or it took too long. Open the workspace again.", Ko: "이미 사용되었거나 시간이 초과되었습니다. 워크스페이스를 다시 열어 주세요."},
		Links:   []web.Link{{URL: back, Text: explain.Text{En: "Open the workspace", Ko: "워크스페이스 열기"}}},
	}
}

// Busy is the page for a running workspace that cannot be put to sleep at once.
func Busy(back string) *web.Message {
	return &web.Message{
		Heading: explain.Text{En: "It cannot be put to sleep right now", Ko: "지금은 재울 수 없습니다"},
		Text:    explain.Text{En: "Another operation is in progress for that workspace. Nothing was changed: try again in a moment.", Ko: "해당 워크스페이스에서 다른 작업이 진행 중입니다. 아무것도 바꾸지 않았으니 잠시 후 다시 시도해 주세요."},
		Links:   []web.Link{tryAgain(back)},
	}
}

// Nobody is the page for a request without a user where another authentication signs
// people in: it has let the request pass.
func Nobody() *web.Message {
	return &web.Message{
		Heading: explain.Text{En: "You have no account here", Ko: "계정이 없습니다"},
		Text: explain.Text{En: "The sign-in of this site named no user who may use CodeHub at this address. Ask an administrator.",
			Ko: "이 사이트의 로그인에서 이 주소의 CodeHub를 사용할 수 있는 사용자를 확인하지 못했습니다. 관리자에게 문의하세요."},
	}
}

// SignedOut is the page for a form that was sent after the session had ended.
// Opening the address leads to the sign-in and back.
func SignedOut(back string) *web.Message {
	return &web.Message{
		Heading: explain.Text{En: "Your session has ended", Ko: "로그인이 만료되었습니다"},
		Text:    explain.Text{En: "Nothing was changed. Sign in and try again.", Ko: "아무것도 바꾸지 않았습니다. 로그인한 뒤 다시 시도해 주세요."},
		Links:   []web.Link{{URL: back, Text: explain.Text{En: "Sign in", Ko: "로그인"}}},
	}
}

// NoListener is the page for a port on which nothing listens.
func NoListener(to string, port int) *web.Message {
	return &web.Message{
		Heading: explain.Text{En: fmt.Sprintf("Nothing listens on port %d yet", port), Ko: fmt.Sprintf("아직 %d번 포트에서 실행 중인 프로그램이 없습니다", port)},
		Text: explain.Text{
			En: "The workspace runs. Start a server in it that listens on this port, on all interfaces (0.0.0.0) and not only on localhost. This page tries again by itself.",
			Ko: "워크스페이스는 실행 중입니다. 워크스페이스에서 이 포트를 여는 서버를 시작하세요. localhost가 아니라 모든 인터페이스(0.0.0.0)에서 받아야 합니다. 이 페이지는 자동으로 다시 시도합니다.",
		},
		Links: []web.Link{tryAgain(to)},
	}
}

// Unpublished is the page for a port that this process cannot reach.
func Unpublished() *web.Message {
	return &web.Message{
		Heading: explain.Text{En: "Other ports cannot be reached here", Ko: "여기에서는 다른 포트에 연결할 수 없습니다"},
		Text: explain.Text{
			En: "This installation reaches only the port of each workspace's application, because the setting docker publish is loopback.",
			Ko: "docker publish 설정이 loopback이므로, 워크스페이스마다 애플리케이션의 포트 하나에만 연결할 수 있습니다.",
		},
	}
}
