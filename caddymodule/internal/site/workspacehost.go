package site

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/codehub/gateway/coordinator/workspace"
)

// The forms of the first label of a workspace's host, below the domain:
//
//	ws-{id}         the application
//	{port}--ws-{id} another port of the workspace
//	{name}--{user}  the workspace by its name: leads to the first form
const (
	hostPrefix = "ws-"
	hostJoint  = "--"
)

// WorkspaceHost tells which workspace a host stands for, and which port of the workspace.
type WorkspaceHost struct {
	// ID is the workspace; empty when the host has the form of a workspace's host without naming a workspace, or names
	// it by Alias.
	ID workspace.ID
	// Port is the port of the workspace's container. 0 stands for the application's port.
	Port int
	// Alias is the label of a host that names the workspace by its name: {name}--{user}.
	Alias string
}

// WorkspaceHost returns the workspace that a host, with or without a port, stands for. It reports false for hosts that
// have none of the forms of a workspace's host, and for the main host. It does not allocate unless the host is in
// capitals.
func (s *Site) WorkspaceHost(host string) (h WorkspaceHost, ok bool) {
	name, _ := splitHost(host)
	return s.workspaceHost(name)
}

// workspaceHost is [Site.WorkspaceHost] for a host without its port.
func (s *Site) workspaceHost(host string) (h WorkspaceHost, ok bool) {
	at := len(host) - len(s.suffix)
	if at <= 0 || !strings.EqualFold(host[at:], s.suffix) {
		return h, false
	}
	label := strings.ToLower(host[:at])
	if name, ok := strings.CutPrefix(label, hostPrefix); ok {
		h.ID, _ = workspace.ParseID(name)
		return h, name != "" && (h.ID != "" || !s.isMainHost(host))
	}
	first, second, joint := strings.Cut(label, hostJoint)
	if !joint || first == "" || first == "xn" || s.isMainHost(host) {
		return h, false
	}
	if name, ok := strings.CutPrefix(second, hostPrefix); ok {
		if id, err := workspace.ParseID(name); err == nil {
			if h.Port = parsePort(first); h.Port != 0 {
				h.ID = id
			}
			return h, true // "0080--ws-…" names no port
		}
	}
	if second != "" && strings.IndexByte(label, '.') < 0 {
		h.Alias = label
	}
	return h, true
}

// isMainHost reports whether the setting main_host names this host, without a port.
func (s *Site) isMainHost(host string) bool {
	if s.mainHost == "" {
		return false
	}
	main, _ := splitHost(s.mainHost)
	return strings.EqualFold(host, main)
}

// parsePort returns the port that s names in its one canonical form, else 0.
func parsePort(s string) int {
	if len(s) == 0 || len(s) > 5 || s[0] == '0' {
		return 0
	}
	port := 0
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0
		}
		port = 10*port + int(s[i]-'0')
	}
	if port > 65535 {
		return 0
	}
	return port
}

// WorkspaceOrigin returns the origin of a workspace's own host, on the port that the
// browser uses.
func (a *Address) WorkspaceOrigin(id workspace.ID) string {
	return a.PortOrigin(id, 0)
}

// PortOrigin returns the origin of a port of a workspace. Port 0 stands for the application's port.
func (a *Address) PortOrigin(id workspace.ID, port int) string {
	label := hostPrefix + string(id)
	if port != 0 {
		label = strconv.Itoa(port) + hostJoint + label
	}
	return a.Scheme() + "://" + a.withPort(label+a.site.suffix)
}

// Paths of the sign-in on a workspace's own host. The main site issues a ticket at TicketPath. It then sends the
// browser to RedeemPath on the workspace's host. A host that names a workspace by its name sends the browser to
// NamePath on the main site, which knows the workspace.
const (
	TicketPath = "/auth/ticket"
	NamePath   = "/auth/name"
	RedeemPath = OwnPath + "ticket"
)

// OwnPath is the beginning of the paths of a workspace that the gateway keeps for itself.
const OwnPath = "/.codehub/"

// TicketURL returns the address at which a browser on this workspace's own host gets a ticket. The ticket can be
// redeemed only in the browser whose secret has this hash. The browser then returns to back, a local address.
func (a *Address) TicketURL(browser, back string) string {
	q := url.Values{"workspace": {string(a.ID)}, "browser": {browser}, "return": {back}}
	if a.Port != 0 {
		q.Set("port", strconv.Itoa(a.Port))
	}
	return a.MainOrigin() + TicketPath + "?" + q.Encode()
}

// PortURL returns the address at which people reach another port of a workspace, empty if ports have no addresses.
func (a *Address) PortURL(id workspace.ID, port int) string {
	if !a.site.perHost {
		return ""
	}
	return a.PortOrigin(id, port) + "/"
}

// NameURL returns an address on the main site, for a request to a host that names a workspace by its name. It leads the
// browser to the workspace's own host, and there to back, a local address.
func (a *Address) NameURL(back string) string {
	return a.MainOrigin() + NamePath + "?" + url.Values{"host": {a.Alias}, "return": {back}}.Encode()
}

// RedeemURL returns the address at which a browser redeems a ticket that r, a request to [TicketPath], has asked for.
// Anything but a local path to return to is replaced by "/". The address contains the language that the user has
// chosen, "" for none, because the workspace's host never gets the cookies of the main site.
func (a *Address) RedeemURL(r *http.Request, h WorkspaceHost, ticket, lang string) string {
	query := url.Values{"t": {ticket}, "return": {LocalPath(r.URL.Query().Get("return"))}}
	if lang != "" {
		query.Set("lang", lang)
	}
	return a.PortOrigin(h.ID, h.Port) + RedeemPath + "?" + query.Encode()
}

// TicketRequest returns the workspace's host for which r, a request to [TicketPath],
// asks for a ticket, and the hash of the browser's secret. It reports false when r names
// no workspace.
func TicketRequest(r *http.Request) (h WorkspaceHost, browser string, ok bool) {
	q := r.URL.Query()
	id, err := workspace.ParseID(q.Get("workspace"))
	if port := q.Get("port"); port != "" {
		if h.Port = parsePort(port); h.Port == 0 {
			return h, "", false
		}
	}
	h.ID = id
	return h, q.Get("browser"), err == nil
}
