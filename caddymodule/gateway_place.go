package codehub

import (
	"net"
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/codehub/gateway/coordinator/workspace"
)

func init() {
	caddy.RegisterModule(new(MatchWorkspace))
}

const (
	// pathPrefix is where workspaces are in path mode.
	pathPrefix = "/w/"
	// hostPrefix is how the hosts of workspaces begin.
	hostPrefix = "ws-"
	// ownPath is what the gateway keeps for itself of a workspace's paths.
	ownPath = "/.codehub/"
	// ticketPath is where a workspace's host takes the one-time ticket of a sign-in.
	ticketPath = ownPath + "ticket"
)

// place is which workspace a request is for, and in which way it says so.
type place struct {
	// id is empty when what stands in its place is no workspace id.
	id workspace.ID
	// prefix is what precedes the workspace's own paths: "" in host mode.
	prefix string
	// host says that the workspace has its own host.
	host bool
	// bare says that the path is the prefix alone, without a slash at its end.
	bare bool
}

// locate finds the workspace that r is for. Domain has a leading dot. It reports
// false for requests that are not for a workspace.
func locate(r *http.Request, domain string) (place, bool) {
	if name, ok := workspaceHost(r.Host, domain); ok {
		id, _ := workspace.ParseID(strings.ToLower(name))
		return place{id: id, host: true}, true
	}
	// The path as it was sent: an encoded slash after the id is part of a longer,
	// and so wrong, id.
	path := r.URL.RawPath
	if path == "" {
		path = r.URL.Path
	}
	rest, ok := strings.CutPrefix(path, pathPrefix)
	if !ok {
		return place{}, false
	}
	name, _, slash := strings.Cut(rest, "/")
	id, err := workspace.ParseID(name)
	if err != nil {
		return place{}, true
	}
	return place{id: id, prefix: path[:len(pathPrefix)+len(name)], bare: !slash}, true
}

// workspaceHost returns what stands between "ws-" and the domain in a host with or
// without a port.
func workspaceHost(host, domain string) (string, bool) {
	if len(host) < len(hostPrefix) || !strings.EqualFold(host[:len(hostPrefix)], hostPrefix) {
		return "", false
	}
	if strings.IndexByte(host, ':') >= 0 {
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
	}
	host = strings.TrimSuffix(host, ".")
	at := len(host) - len(domain)
	if at <= len(hostPrefix) || !strings.EqualFold(host[at:], domain) {
		return "", false
	}
	return host[len(hostPrefix):at], true
}

// enter makes the path of r the one that the workspace shall see, and returns what
// undoes it: error handlers and logs want the original one.
func (p place) enter(r *http.Request) (leave func()) {
	if p.prefix == "" {
		return func() {}
	}
	path, raw := r.URL.Path, r.URL.RawPath
	r.URL.Path = path[len(p.prefix):]
	if raw != "" {
		r.URL.RawPath = raw[len(p.prefix):]
	}
	return func() { r.URL.Path, r.URL.RawPath = path, raw }
}

// redirectBare sends /w/{id} to /w/{id}/, without which relative links would lead
// elsewhere.
func redirectBare(w http.ResponseWriter, r *http.Request) error {
	to := r.URL.EscapedPath() + "/"
	if r.URL.RawQuery != "" {
		to += "?" + r.URL.RawQuery
	}
	redirect(w, to, http.StatusPermanentRedirect)
	return nil
}

// redirect sends the client elsewhere. Nothing of it is stored: who is signed in
// changes.
func redirect(w http.ResponseWriter, to string, status int) {
	h := w.Header()
	h.Set("Location", to)
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	w.WriteHeader(status)
}

// MatchWorkspace matches requests for workspaces: those to a path below /w/ and
// those to a host ws-{id}.<domain>. It does not look at whether there is such a
// workspace.
type MatchWorkspace struct {
	// Domain is that of the handler. Default: `localhost`.
	Domain Value `json:"domain,omitempty"`

	domain string
}

// CaddyModule returns the Caddy module information.
func (*MatchWorkspace) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.matchers.codehub_workspace",
		New: func() caddy.Module { return new(MatchWorkspace) },
	}
}

// Provision resolves the domain. What is wrong with it is reported by the handler.
func (m *MatchWorkspace) Provision(caddy.Context) error {
	text, err := m.Domain.resolve(caddy.NewReplacer())
	if err != nil {
		return err
	}
	if text == "" {
		text = defaultDomain
	}
	m.domain = "." + strings.ToLower(text)
	return nil
}

// MatchWithError reports whether the request is for a workspace.
func (m *MatchWorkspace) MatchWithError(r *http.Request) (bool, error) {
	_, ours := locate(r, m.domain)
	return ours, nil
}

// Interface guards.
var _ caddy.Provisioner = (*MatchWorkspace)(nil)
