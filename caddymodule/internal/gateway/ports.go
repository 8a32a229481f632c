package gateway

import (
	"net"
	"net/http"
	"strconv"

	"github.com/codehub/gateway/caddymodule/internal/problem"
	"github.com/codehub/gateway/coordinator/dataplane/route"
)

// PortAccess says which ports of a workspace have hosts, {port}--ws-{id}.<domain>.
type PortAccess uint8

const (
	// PortsOff: only the application's port has hosts. The hosts of others do not exist.
	PortsOff PortAccess = iota
	// PortsOn: all of them.
	PortsOn
	// PortsUnpublished: this process reaches only the application's port, because the container engine publishes no
	// other. A page says so.
	PortsUnpublished
)

// problemNoListener is for a port on which nothing listens.
var problemNoListener = problem.New("nothing-listens", http.StatusBadGateway)

// portRefresh is how often, in seconds, the page of a port without a listener tries again.
const portRefresh = "2"

// isApplications reports whether a port of the container is its application's, which already has the host ws-{id}.
func (g *Gateway) isApplications(st *route.State, port int) bool {
	_, own, err := net.SplitHostPort(st.Route.Endpoint)
	return err == nil && g.Ports == PortsOn && own == strconv.Itoa(port)
}
