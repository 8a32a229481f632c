package settings

import (
	"github.com/codehub/gateway/caddymodule/internal/parse"
	"github.com/codehub/gateway/coordinator/backend/egress"
)

// Egress sets what workspaces can reach besides the internet. By default they cannot reach the
// engine's host at any of its addresses, private networks, a cloud's metadata service, other
// networks of the engine, or other workspaces.
type Egress struct {
	// Enforce is `auto` to create the firewall rules and start nothing until they are in place,
	// except on an engine that reports that it cannot create them and has never created any, which
	// is logged; `require` to allow no exception; or `open` to create no rules. On Kubernetes the
	// rules are NetworkPolicies. Default: `auto`.
	Enforce Value `json:"enforce,omitempty"`
	// Allow opens private addresses, networks and their ports, such as `10.0.0.5:443` or
	// `10.1.0.0/16`, separated by spaces. Names are refused. Other workspaces stay unreachable.
	Allow Value `json:"allow,omitempty"`
	// Deny closes public addresses and networks, such as a company's own, separated by
	// spaces.
	Deny Value `json:"deny,omitempty"`
	// Gateway lists addresses in the workspaces' network that are exempt from the rules: this
	// process's own when it runs in a container there. On Kubernetes it lists the addresses from
	// which a process outside the cluster reaches workspaces.
	Gateway Value `json:"gateway,omitempty"`
}

// listSettings are the settings that take one value or several.
var listSettings = map[string]bool{"egress allow": true, "egress deny": true, "egress gateway": true, "s3 sse": true,
	"kubernetes image_pull_secrets": true, "kubernetes node_selector": true, "kubernetes tolerations": true,
	"kubernetes gateway_pods": true, "sign_in exempt_networks": true, "kubernetes busy_command": true}

// egressTable lists the settings about what a workspace reaches.
func (a *App) egressTable(r *Resolved) []Setting {
	o, e := &r.Options.Docker, &a.Egress
	return []Setting{
		{"egress enforce", &e.Enforce, egress.EnforceAuto, "", parse.Text(&o.Egress.Enforce)},
		{"egress allow", &e.Allow, "", "", parse.Text(&o.Egress.Allow)},
		{"egress deny", &e.Deny, "", "", parse.Text(&o.Egress.Deny)},
		{"egress gateway", &e.Gateway, "", "", parse.Text(&o.Egress.Gateways)},
	}
}
