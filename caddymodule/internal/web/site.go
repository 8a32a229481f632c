package web

import (
	"cmp"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/codehub/gateway/coordinator/workspace"
)

// DefaultDomain is the domain below which workspaces have hosts of their own when
// no other one is set. Browsers resolve every name below localhost by themselves.
const DefaultDomain = "localhost"

// The ways in which browsers find workspaces.
const (
	// HostURL is ws-{id}.<domain>, which gives every workspace an origin of its own.
	HostURL = "host"
	// PathURL is /w/{id}/ on the main site, which needs one host name only.
	PathURL = "path"
	// DefaultWorkspaceURL is the one without a setting.
	DefaultWorkspaceURL = HostURL
)

// Site knows the addresses of an installation: those of its workspaces and that of
// the main site, where people sign in. It is immutable.
type Site struct {
	suffix   string // ".<domain>", lower case
	mainHost string
	perHost  bool
	trusted  func(*http.Request) bool
}

// SiteOptions are the addresses of a [Site].
type SiteOptions struct {
	// Domain is the domain below which workspaces have hosts. Default: [DefaultDomain].
	Domain string
	// MainHost is the host of the main site, with its port unless that is the scheme's
	// own. Default: the domain with the port of each request.
	MainHost string
	// PerHost says that browsers find workspaces on hosts of their own, and not below
	// [PathPrefix] of the main site.
	PerHost bool
	// Trusted reports whether a request comes from a trusted proxy, whose
	// X-Forwarded-Proto and X-Forwarded-Host are believed. Default: none is.
	Trusted func(*http.Request) bool
}

// NewSite returns the site with these addresses.
func NewSite(o SiteOptions) *Site {
	if o.Trusted == nil {
		o.Trusted = func(*http.Request) bool { return false }
	}
	return &Site{
		suffix: "." + strings.ToLower(cmp.Or(o.Domain, DefaultDomain)), mainHost: strings.ToLower(o.MainHost),
		perHost: o.PerHost, trusted: o.Trusted,
	}
}

// IsLocal reports whether a host, with or without a port, is this machine's loopback
// interface by its name: localhost and what is below it, and loopback addresses.
func IsLocal(host string) bool {
	host = strings.ToLower(hostname(host))
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

// Scheme returns the scheme of the address that the browser uses: "http" or "https".
func (s *Site) Scheme(r *http.Request) string {
	if r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https" && s.trusted(r) {
		return "https"
	}
	return "http"
}

// Host returns the host, with its port, of the address that the browser uses.
func (s *Site) Host(r *http.Request) string {
	if forwarded := r.Header.Get("X-Forwarded-Host"); forwarded != "" && s.trusted(r) {
		return forwarded
	}
	return r.Host
}

// PerHost reports whether browsers find workspaces on hosts of their own.
func (s *Site) PerHost() bool { return s.perHost }

// IsMain reports whether r came to a host where people may sign in: that of the main
// site, or this machine by its own name. A page whose host name an attacker has pointed
// at this server (DNS rebinding) must not be able to use it.
func (s *Site) IsMain(r *http.Request) bool {
	host, main := hostname(s.Host(r)), s.suffix[1:]
	if s.mainHost != "" {
		main = hostname(s.mainHost)
	}
	if strings.EqualFold(host, main) || strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host) // last, because its errors allocate
	return err == nil && ip.IsLoopback()
}

// hostname returns a host without its port and without the brackets of an IPv6 address.
func hostname(host string) string {
	if strings.IndexByte(host, ':') >= 0 {
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
	}
	return strings.TrimSuffix(strings.Trim(host, "[]"), ".")
}

// WorkspaceURL returns the address of a workspace for people.
func (s *Site) WorkspaceURL(r *http.Request, id workspace.ID) string {
	if s.perHost {
		return s.WorkspaceOrigin(r, id) + "/"
	}
	return WorkspacePath(id)
}

// WorkspacePath returns the path of a workspace on the main site.
func WorkspacePath(id workspace.ID) string { return PathPrefix + string(id) + "/" }

// PathPrefix starts the path of every workspace on the main site.
const PathPrefix = "/w/"

// MainOrigin returns the origin of the main site, as seen from any host.
func (s *Site) MainOrigin(r *http.Request) string {
	host := s.mainHost
	if host == "" {
		host = s.withPort(r, s.suffix[1:])
	}
	return s.Scheme(r) + "://" + host
}

// withPort adds the port that the browser uses, if it names one.
func (s *Site) withPort(r *http.Request, host string) string {
	if _, port, err := net.SplitHostPort(s.Host(r)); err == nil && port != "" {
		return net.JoinHostPort(host, port)
	}
	return host
}
