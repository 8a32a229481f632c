package web

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/codehub/gateway/coordinator/workspace"
)

// DefaultDomain is the domain below which workspaces have hosts of their own when
// no other one is set. Browsers resolve every name below localhost by themselves.
const DefaultDomain = "localhost"

// hostPrefix starts the host name of every workspace: ws-{id}.<domain>.
const hostPrefix = "ws-"

// Site knows the addresses of an installation: those of its workspaces and that of
// the main site, where people sign in. It is immutable.
type Site struct {
	suffix   string // ".<domain>", lower case
	mainHost string
	trusted  func(*http.Request) bool
}

// NewSite returns the site whose workspaces have hosts below domain. mainHost is the
// host of the main site, with its port unless that is the scheme's own; empty means
// the domain with the port of each request. trusted reports whether a request comes
// from a trusted proxy, whose X-Forwarded-Proto and X-Forwarded-Host are believed;
// nil trusts none.
func NewSite(domain, mainHost string, trusted func(*http.Request) bool) *Site {
	if trusted == nil {
		trusted = func(*http.Request) bool { return false }
	}
	return &Site{suffix: "." + strings.ToLower(domain), mainHost: strings.ToLower(mainHost), trusted: trusted}
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
	if r.TLS != nil || s.trusted(r) && r.Header.Get("X-Forwarded-Proto") == "https" {
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

// WorkspaceName returns the part of a host, with or without a port, where the
// workspace's id should be; the caller parses it. It reports false for hosts that do
// not have the form ws-….<domain>.
// It does not allocate.
func (s *Site) WorkspaceName(host string) (string, bool) {
	if len(host) < len(hostPrefix) || !strings.EqualFold(host[:len(hostPrefix)], hostPrefix) {
		return "", false
	}
	if strings.IndexByte(host, ':') >= 0 {
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
	}
	host = strings.TrimSuffix(host, ".")
	at := len(host) - len(s.suffix)
	if at <= len(hostPrefix) || !strings.EqualFold(host[at:], s.suffix) {
		return "", false
	}
	return host[len(hostPrefix):at], true
}

// WorkspaceOrigin returns the origin of a workspace's own host, on the port that the
// browser uses.
func (s *Site) WorkspaceOrigin(r *http.Request, id workspace.ID) string {
	return s.Scheme(r) + "://" + s.withPort(r, hostPrefix+string(id)+s.suffix)
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

// Paths of the sign-in on a workspace's own host: the main site gives out a ticket
// at TicketPath and sends the browser to RedeemPath of the workspace's host.
const (
	TicketPath = "/auth/ticket"
	RedeemPath = OwnPath + "ticket"
)

// OwnPath starts the paths of a workspace that the gateway keeps for itself.
const OwnPath = "/.codehub/"

// TicketURL returns the address at which a browser on a workspace's own host gets a
// ticket. After it is redeemed, the browser is back at the address of r.
func (s *Site) TicketURL(r *http.Request, id workspace.ID) string {
	return s.MainOrigin(r) + TicketPath + "?workspace=" + string(id) + "&return=" + url.QueryEscape(r.URL.RequestURI())
}

// RedeemURL returns the address at which a browser redeems a ticket that r requested.
// back is the path to go to afterwards; it comes from the client, so anything but a
// local path is replaced by "/".
func (s *Site) RedeemURL(r *http.Request, id workspace.ID, ticket, back string) string {
	return s.WorkspaceOrigin(r, id) + RedeemPath + "?" +
		url.Values{"t": {ticket}, "return": {LocalPath(back)}}.Encode()
}

// withPort adds the port that the browser uses, if it names one.
func (s *Site) withPort(r *http.Request, host string) string {
	if _, port, err := net.SplitHostPort(s.Host(r)); err == nil && port != "" {
		return net.JoinHostPort(host, port)
	}
	return host
}
