package settings

import (
	"fmt"

	"github.com/codehub/gateway/caddymodule/internal/parse"
	"github.com/codehub/gateway/coordinator/backend/docker/spec"
)

// addressTable lists the settings about workspaces' addresses; see [App.Table].
func (a *App) addressTable(r *Resolved, option, change func(string) parse.Check) []Setting {
	live, engine := &r.Live, &r.Options.Docker
	return []Setting{
		{"route_lease", &a.RouteLease, fmt.Sprint(live.RouteLease), "", parse.Duration(&live.RouteLease, 0, change("route_lease"))},
		{"docker subnet", &a.Docker.Subnet, "", "", parse.Text(&engine.Subnet, option("docker subnet"))},
		{"docker publish_ports", &a.Docker.PublishPorts, spec.DefaultPublishPorts, "", parse.Text(&engine.PublishPorts, option("docker publish_ports"))},
	}
}
