package codehub

import (
	"fmt"

	"github.com/codehub/gateway/caddymodule/parse"
	"github.com/codehub/gateway/coordinator/backend/docker/spec"
)

// addressTable lists the settings about workspaces' addresses; see [App.table].
func (a *App) addressTable(r *resolved, option, change func(string) parse.Check) []setting {
	live, engine := &r.live, &r.options.Docker
	return []setting{
		{"route_lease", &a.RouteLease, fmt.Sprint(live.RouteLease), "", parse.Duration(&live.RouteLease, 0, change("route_lease"))},
		{"docker subnet", &a.Docker.Subnet, "", "", parse.Text(&engine.Subnet, option("docker subnet"))},
		{"docker publish_ports", &a.Docker.PublishPorts, spec.DefaultPublishPorts, "", parse.Text(&engine.PublishPorts, option("docker publish_ports"))},
	}
}
