package apitest

import (
	"context"
	"io"
	"net"
	"net/http"

	"github.com/codehub/gateway/caddymodule/internal/api"
	"github.com/codehub/gateway/coordinator"
	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/dataplane/auth"
	"github.com/codehub/gateway/coordinator/dataplane/events"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Options returns o with what a process supplies that has no containers and does not exit.
func Options(o api.Options) api.Options {
	o.Health = func() coordinator.Health { return coordinator.Health{} }
	o.WaitReady = func(context.Context) error { return nil }
	o.Database = func() string { return "" }
	o.Exiting = func() bool { return false }
	o.Refused = func() *postgres.OlderError { return nil }
	o.ClientAddress = clientAddress
	o.Client = func(r *http.Request) audit.Actor {
		return audit.Actor{Kind: audit.Anonymous, Address: clientAddress(r)}
	}
	o.Authenticated = func(*http.Request, auth.User) {}
	o.Heartbeat = events.DefaultHeartbeat
	o.Containers = noContainers{}
	return o
}

// clientAddress is the address of the other end of the connection.
func clientAddress(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return "" // such as a socket of this machine
	}
	return host
}

// noContainers is [api.Containers] without any container.
type noContainers struct{}

func (noContainers) Exec(context.Context, workspace.ID, backend.Command, io.Writer, io.Writer) (int, error) {
	return 0, backend.ErrNotFound
}

func (noContainers) Logs(context.Context, workspace.ID, int) (string, error) {
	return "", backend.ErrNotFound
}

func (noContainers) Follow(context.Context, workspace.ID, int, io.Writer) error {
	return backend.ErrNotFound
}

func (noContainers) Stats(context.Context, workspace.ID) (backend.Stats, error) {
	return backend.Stats{}, backend.ErrNotFound
}

func (noContainers) HomeDisk(context.Context) int64 { return -1 }

func (noContainers) ImageSizes(context.Context, []string) map[string]int64 { return nil }
