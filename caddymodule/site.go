package codehub

import (
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/codehub/gateway/caddymodule/internal/gateway"
	"github.com/codehub/gateway/caddymodule/internal/settings"
	"github.com/codehub/gateway/caddymodule/internal/site"
)

// newSite returns the site with these addresses. Proxies that are not trusted are reported, unless report is nil.
func newSite(a settings.Addresses, report *untrustedProxies) *site.Site {
	return site.New(site.Options{
		Domain: a.Domain, MainHost: a.MainHost, PerHost: a.WorkspaceURL == site.HostURL, Scheme: a.Scheme(),
		Trusted: func(r *http.Request) bool {
			if fromTrustedProxy(r) {
				return true
			}
			report.seen(r)
			return false
		},
	})
}

// portAccess returns which ports of workspaces have hosts.
func (a *App) portAccess() gateway.PortAccess {
	switch {
	case !a.workspacePorts:
		return gateway.PortsOff
	case a.published:
		return gateway.PortsUnpublished
	}
	return gateway.PortsOn
}

// fromTrustedProxy reports whether Caddy trusts the proxy that r comes from.
func fromTrustedProxy(r *http.Request) bool {
	trusted, _ := caddyhttp.GetVar(r.Context(), caddyhttp.TrustedProxyVarKey).(bool)
	return trusted
}
