package codehub

import (
	"fmt"
	"net"
	"net/url"

	"github.com/codehub/gateway/caddymodule/gateway"
	"github.com/codehub/gateway/caddymodule/parse"
	"github.com/codehub/gateway/caddymodule/web"
	"github.com/codehub/gateway/coordinator"
)

// SiteSettings are the addresses of an installation: where people sign in, and where
// workspaces are. The app has them for the whole installation; the directives
// `codehub` and `codehub_api` may override all but the public URL.
type SiteSettings struct {
	// Domain is the domain below which every workspace has a host of its own,
	// `ws-{id}.{domain}`. Browsers resolve every name below localhost by themselves; any
	// other domain needs a wildcard record and certificate. Default: `localhost`.
	Domain Value `json:"domain,omitempty"`
	// MainHost is the host where people sign in, with its port unless that is the
	// scheme's own. Default: the host of public_url, else the domain with the port of
	// each request.
	MainHost Value `json:"main_host,omitempty"`
	// WorkspaceURL says where browsers find workspaces: `host` for
	// `ws-{id}.{domain}`, which gives every workspace an origin of its own, or `path` for
	// `/w/{id}/`, which needs one host name only. With `path` all workspaces and the
	// dashboard share one origin: a page of a workspace can do there whatever its user
	// can, so choose it only where wildcard names cannot be had and workspaces are
	// trusted. Default: `host`.
	WorkspaceURL Value `json:"workspace_url,omitempty"`
}

// siteAddresses are the settings of a site after their placeholders were replaced.
type siteAddresses struct {
	domain, mainHost, workspaceURL, publicURL string
}

// table lists the settings, without defaults.
func (s *SiteSettings) table(dst *siteAddresses) []setting {
	return []setting{
		{"domain", &s.Domain, "", "", parse.Text(&dst.domain, web.CheckDomain)},
		{"main_host", &s.MainHost, "", "", parse.Text(&dst.mainHost, web.CheckHost)},
		{"workspace_url", &s.WorkspaceURL, "", "", parse.Text(&dst.workspaceURL, parse.OneOf(web.PathURL, web.HostURL))},
	}
}

// siteTable lists the app's settings of the site.
func (a *App) siteTable(r *resolved) []setting {
	table := a.SiteSettings.table(&r.site)
	table[0].def, table[2].def = web.DefaultDomain, web.DefaultWorkspaceURL
	return append(table,
		setting{"public_url", &a.PublicURL, "", "", parse.Text(&r.site.publicURL, checkOrigin)},
		setting{"workspace_ports", &a.WorkspacePorts, "true", "", parse.Bool(&r.workspacePorts)},
		setting{"share_ports", &a.SharePorts, "false", "", parse.Bool(&r.sharePorts)})
}

// complete fills in what follows from other addresses, and returns what the coordinator
// needs to know.
func (s *siteAddresses) complete() coordinator.Site {
	if u, err := url.Parse(s.publicURL); err == nil && s.mainHost == "" {
		s.mainHost = u.Host
	}
	if s.publicURL == "" && s.mainHost != "" {
		s.publicURL = "https://" + s.mainHost
		if web.IsLocal(s.mainHost) {
			s.publicURL = "http://" + s.mainHost
		}
	}
	return coordinator.Site{PublicURL: s.publicURL, Domain: s.domain, PerHost: s.workspaceURL == web.HostURL}
}

// override returns the addresses with those of a directive in place of the app's.
func (s siteAddresses) override(by siteAddresses) siteAddresses {
	for _, v := range []struct{ dst, by *string }{
		{&s.domain, &by.domain}, {&s.mainHost, &by.mainHost}, {&s.workspaceURL, &by.workspaceURL},
	} {
		if *v.by != "" {
			*v.dst = *v.by
		}
	}
	return s
}

// site returns the site with these addresses.
func (s siteAddresses) site() *web.Site {
	return web.NewSite(web.SiteOptions{
		Domain: s.domain, MainHost: s.mainHost, PerHost: s.workspaceURL == web.HostURL, Trusted: fromTrustedProxy,
	})
}

// check returns an error when people who sign in at another machine's name would be sent
// to hosts below localhost, which lead to their own machine.
func (s siteAddresses) check() error {
	if s.workspaceURL != web.HostURL || s.mainHost == "" || web.IsLocal(s.mainHost) || !web.IsLocal(s.domain) {
		return nil
	}
	return fmt.Errorf("setting \"domain\": workspaces have hosts below %s, which browsers elsewhere take for their own machine, while people sign in at %s: "+
		"write a domain with a wildcard record, such as domain %s, or workspace_url path", s.domain, s.mainHost, hostOnly(s.mainHost))
}

// hostOnly returns a host without its port.
func hostOnly(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return host
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

// checkOrigin returns an error that says what to write when s is not the origin of a
// site.
func checkOrigin(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || s != u.Scheme+"://"+u.Host {
		return fmt.Errorf("%q is not the address of a site: write for example https://codehub.example.com, without a path", s)
	}
	return nil
}
