package gateway

import (
	"fmt"
	"net"
	"net/http"
	"strconv"

	"github.com/codehub/gateway/caddymodule/web"
	"github.com/codehub/gateway/coordinator/route"
)

// PortAccess says which ports of a workspace have hosts, {port}--ws-{id}.<domain>.
type PortAccess uint8

const (
	// PortsOff: only the application's. The hosts of others do not exist.
	PortsOff PortAccess = iota
	// PortsOn: all of them.
	PortsOn
	// PortsUnpublished: this process reaches only the application's, because the
	// container engine publishes no other. A page says so.
	PortsUnpublished
)

// problemNoListener is for a port on which nothing listens.
var problemNoListener = web.NewProblemType("nothing-listens", "Nothing listens on this port of the workspace", http.StatusBadGateway)

// portRefresh is how often, in seconds, the page of a port without a listener tries again.
const portRefresh = "2"

// atPort returns the state with the address of a port of the container instead of the
// application's.
func atPort(st *route.State, port int) *route.State {
	host, _, err := net.SplitHostPort(st.Route.Endpoint)
	if err != nil {
		return st // the controller writes host:port
	}
	at := *st
	at.Route.Endpoint = net.JoinHostPort(host, strconv.Itoa(port))
	return &at
}

// isApplications reports whether a port of the container is the one of its application,
// which has the host ws-{id} already.
func (g *Gateway) isApplications(st *route.State, port int) bool {
	_, own, err := net.SplitHostPort(st.Route.Endpoint)
	return err == nil && g.Ports == PortsOn && own == strconv.Itoa(port)
}

// noListenerMessage is the page for a port on which nothing listens.
func noListenerMessage(to string, port int) *web.Message {
	return &web.Message{
		Heading: web.Text{En: fmt.Sprintf("Nothing listens on port %d yet", port), Ko: fmt.Sprintf("아직 %d번 포트에서 실행 중인 프로그램이 없습니다", port)},
		Text: web.Text{
			En: "The workspace runs. Start a server in it that listens on this port, on all interfaces (0.0.0.0) and not only on localhost. This page tries again by itself.",
			Ko: "워크스페이스는 실행 중입니다. 워크스페이스에서 이 포트를 여는 서버를 시작하세요. localhost가 아니라 모든 인터페이스(0.0.0.0)에서 받아야 합니다. 이 페이지는 자동으로 다시 시도합니다.",
		},
		Links: []web.Link{tryAgain(to)},
	}
}

// unpublishedMessage is the page for a port that this process cannot reach.
func unpublishedMessage() *web.Message {
	return &web.Message{
		Heading: web.Text{En: "Other ports cannot be reached here", Ko: "여기에서는 다른 포트에 연결할 수 없습니다"},
		Text: web.Text{
			En: "This installation reaches only the port of each workspace's application, because the setting docker publish is loopback.",
			Ko: "docker publish 설정이 loopback이므로, 워크스페이스마다 애플리케이션의 포트 하나에만 연결할 수 있습니다.",
		},
	}
}
