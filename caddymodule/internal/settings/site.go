package settings

import (
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/codehub/gateway/caddymodule/internal/parse"
	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/coordinator"
)

// Site holds the addresses of an installation: where people sign in, and where workspaces are. The
// app sets them for the whole installation; the directives `codehub` and `codehub_api` may override
// all but the public URL.
type Site struct {
	// Domain is the domain below which every workspace has a host of its own, `ws-{id}.{domain}`.
	// Browsers resolve names below localhost by themselves; any other domain needs a wildcard
	// record and certificate. Default: `localhost`.
	Domain Value `json:"domain,omitempty"`
	// MainHost is the host where people sign in, with its port unless it is the scheme's default.
	// Default: the host of public_url, else the domain with the port of each request.
	MainHost Value `json:"main_host,omitempty"`
	// WorkspaceURL is where browsers find workspaces: `host` for `ws-{id}.{domain}`, which gives
	// every workspace its own origin, or `path` for `/w/{id}/`, which needs a single host name.
	// With `path` all workspaces and the dashboard share one origin, so a page of a workspace can
	// act there for its user: choose it only if a wildcard name is impossible and workspaces are
	// trusted. Default: `host`.
	WorkspaceURL Value `json:"workspace_url,omitempty"`
}

// Addresses holds the settings of a site after their placeholders were replaced.
type Addresses struct {
	Domain, MainHost, WorkspaceURL, PublicURL string
	// Written is the setting public_url, "" if PublicURL follows from MainHost.
	Written string
}

// Scheme returns the scheme of the setting public_url, "" if it is not set.
func (s Addresses) Scheme() string {
	scheme, _, _ := strings.Cut(s.Written, "://")
	return scheme
}

// Table lists the settings, without defaults. The resolved values go to dst.
func (s *Site) Table(dst *Addresses) []Setting {
	return []Setting{
		{"domain", &s.Domain, "", "", parse.Text(&dst.Domain, site.CheckDomain)},
		{"main_host", &s.MainHost, "", "", parse.Text(&dst.MainHost, site.CheckHost)},
		{"workspace_url", &s.WorkspaceURL, "", "", parse.Text(&dst.WorkspaceURL, parse.OneOf(site.PathURL, site.HostURL))},
	}
}

// siteTable lists the app's settings of the site.
func (a *App) siteTable(r *Resolved) []Setting {
	table := a.Site.Table(&r.Site)
	table[0].Default, table[2].Default = site.DefaultDomain, site.DefaultWorkspaceURL
	return append(table,
		Setting{"public_url", &a.PublicURL, "", "", parse.Text(&r.Site.PublicURL, checkOrigin)},
		Setting{"workspace_ports", &a.WorkspacePorts, "true", "", parse.Bool(&r.WorkspacePorts)},
		Setting{"share_ports", &a.SharePorts, "false", "", parse.Bool(&r.SharePorts)})
}

// complete derives missing addresses from the others, and returns the site for the coordinator.
func (s *Addresses) complete() coordinator.Site {
	s.Written = s.PublicURL
	if u, err := url.Parse(s.PublicURL); err == nil && s.MainHost == "" {
		s.MainHost = u.Host
	}
	if s.PublicURL == "" && s.MainHost != "" {
		s.PublicURL = "https://" + s.MainHost
		if site.IsLocal(s.MainHost) {
			s.PublicURL = "http://" + s.MainHost
		}
	}
	return coordinator.Site{PublicURL: s.PublicURL, Domain: s.Domain, PerHost: s.WorkspaceURL == site.HostURL}
}

// Override returns the addresses, with those that a directive sets replaced.
func (s Addresses) Override(by Addresses) Addresses {
	for _, v := range []struct{ dst, by *string }{
		{&s.Domain, &by.Domain}, {&s.MainHost, &by.MainHost}, {&s.WorkspaceURL, &by.WorkspaceURL},
	} {
		if *v.by != "" {
			*v.dst = *v.by
		}
	}
	return s
}

// Check returns an error if people sign in at a host on another machine, but workspaces have hosts below localhost.
// Browsers would look for such hosts on people's own machines.
func (s Addresses) Check() error {
	if s.WorkspaceURL != site.HostURL || s.MainHost == "" || site.IsLocal(s.MainHost) || !site.IsLocal(s.Domain) {
		return nil
	}
	return fmt.Errorf("setting \"domain\": workspaces have hosts below %s, which browsers elsewhere take for their own "+
		"machine, while people sign in at %s: write a domain with a wildcard record, such as domain %s, "+
		"or workspace_url path", s.Domain, s.MainHost, hostOnly(s.MainHost))
}

// hostOnly returns a host without its port.
func hostOnly(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return host
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
