// Package site knows the addresses of an installation, and what follows from the address of a request: the names of the
// product's cookies, the cross-origin rule, and redirects.
//
// It knows neither Caddy nor what a request is for, and keeps no state.
package site

import (
	"cmp"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/codehub/gateway/coordinator/workspace"
)

// DefaultDomain is the domain below which workspaces have hosts of their own by default. Browsers
// resolve every name below localhost by themselves.
const DefaultDomain = "localhost"

// The ways in which browsers find workspaces.
const (
	// HostURL is ws-{id}.<domain>, which gives every workspace an origin of its own.
	HostURL = "host"
	// PathURL is /w/{id}/ on the main site, which needs one host name only.
	PathURL = "path"
	// DefaultWorkspaceURL is the default.
	DefaultWorkspaceURL = HostURL
)

// Site knows the addresses of an installation: those of its workspaces and that of the main site,
// where people sign in. It is immutable. For everything that depends on a request, see [Address].
type Site struct {
	suffix   string // ".<domain>", lower case
	mainHost string
	perHost  bool
	scheme   string // that browsers use, "" if not known
	trusted  func(*http.Request) bool
}

// Options are the addresses of a [Site].
type Options struct {
	// Domain is the domain below which workspaces have hosts. Default: [DefaultDomain].
	Domain string
	// MainHost is the host of the main site, with its port unless that is the scheme's
	// own. Default: the domain with the port of each request.
	MainHost string
	// PerHost says that browsers find each workspace on a host of its own instead of below [PathPrefix] of the main
	// site.
	PerHost bool
	// Scheme is the scheme of the setting public_url. With https browsers use https, even if requests arrive by http.
	// Default: requests and trusted proxies tell it.
	Scheme string
	// Trusted reports whether a request comes from a trusted proxy, whose X-Forwarded-Proto and X-Forwarded-Host are
	// trusted. It is called for requests with one of them. Default: none is.
	Trusted func(*http.Request) bool
}

// New returns the site with these addresses.
func New(o Options) *Site {
	if o.Trusted == nil {
		o.Trusted = func(*http.Request) bool { return false }
	}
	return &Site{
		suffix: "." + strings.ToLower(cmp.Or(o.Domain, DefaultDomain)), mainHost: strings.ToLower(o.MainHost),
		perHost: o.PerHost, scheme: o.Scheme, trusted: o.Trusted,
	}
}

// IsLocal reports whether a host, with or without a port, is this machine's loopback interface by
// its name. These are localhost, names below it, and loopback addresses.
func IsLocal(host string) bool {
	name, _ := splitHost(host)
	host = strings.ToLower(name)
	ip := net.ParseIP(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || ip != nil && ip.IsLoopback()
}

// CheckDomain returns an error that says what to write when s is not a domain.
func CheckDomain(s string) error {
	if s == "" || strings.ContainsAny(s, "/:*@ ") || strings.HasPrefix(s, ".") || strings.HasSuffix(s, ".") {
		return fmt.Errorf("%q is not a domain: write for example example.com, without scheme, port or wildcard", s)
	}
	return nil
}

// CheckHost returns an error that says what to write when s is not a host with an
// optional port.
func CheckHost(s string) error {
	if strings.ContainsAny(s, "/*@ ") {
		return fmt.Errorf("%q is not a host: write for example example.com or example.com:8443, without scheme", s)
	}
	return nil
}

// PerHost reports whether browsers find workspaces on hosts of their own.
func (s *Site) PerHost() bool { return s.perHost }

// WorkspacePath returns the path of a workspace on the main site.
func WorkspacePath(id workspace.ID) string { return PathPrefix + string(id) + "/" }

// PathPrefix starts the path of every workspace on the main site.
const PathPrefix = "/w/"
