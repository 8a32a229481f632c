package site

import (
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/codehub/gateway/coordinator/workspace"
)

// Address is the parsed address of a request: the workspace and how it was named, and the scheme,
// host and port that the browser uses. [Site.Parse] creates it once, when the request arrives, and
// it travels with the request as a value.
type Address struct {
	// WorkspaceHost is the workspace, and which of its hosts the request came to. Its ID is empty if the address has no
	// valid id where it should have one.
	WorkspaceHost
	// Prefix is the part of the path before the workspace's own paths: empty on the
	// workspace's own host.
	Prefix string
	// OwnHost says that the request came to the workspace's own host.
	OwnHost bool
	// Bare says that the path is only the prefix, without a slash at its end.
	Bare bool

	site         *Site
	forWorkspace bool
	https        bool
	proxied      bool   // by a trusted proxy that tells the scheme or host
	host         string // the host that the browser uses, with its port
	name, port   string // the parts of host
	received     string // the host that the request names, which a proxy may have changed; the application sees this one
}

// Parse returns the address of r. It does not check whether the workspace exists, and does not
// allocate unless the host is in capitals.
func (s *Site) Parse(r *http.Request) Address {
	a := Address{site: s, https: r.TLS != nil || s.scheme == httpsScheme, host: r.Host, received: r.Host}
	a.name, a.port = splitHost(r.Host)
	if a.WorkspaceHost, a.OwnHost = s.workspaceHost(a.name); a.OwnHost {
		a.forWorkspace = true
	} else {
		a.parsePath(r)
	}
	proto, host := r.Header[forwardedProto], r.Header[forwardedHost]
	if (proto != nil || host != nil || r.Header["X-Forwarded-For"] != nil) && s.trusted(r) { // which reports who is not
		a.readForwarded(proto, host)
	}
	return a
}

// parsePath finds the workspace that the path names. It uses the path as it was sent. So an encoded slash after the id
// counts as a part of the id, which is then invalid.
func (a *Address) parsePath(r *http.Request) {
	path := r.URL.RawPath
	if path == "" {
		path = r.URL.Path
	}
	var rest string
	if rest, a.forWorkspace = strings.CutPrefix(path, PathPrefix); !a.forWorkspace {
		return
	}
	name, _, slash := strings.Cut(rest, "/")
	if id, err := workspace.ParseID(name); err == nil {
		a.ID, a.Prefix, a.Bare = id, path[:len(PathPrefix)+len(name)], !slash
	}
}

// splitHost returns a host without port and brackets (IPv6), and the port; empty without one.
func splitHost(host string) (name, port string) {
	if strings.IndexByte(host, ':') >= 0 {
		if h, p, err := net.SplitHostPort(host); err == nil {
			host, port = h, p
		}
	}
	return strings.TrimSuffix(strings.Trim(host, "[]"), "."), port
}

// ForWorkspace reports whether the request is for a workspace, by its host or by its path.
func (a *Address) ForWorkspace() bool { return a.forWorkspace }

// IsHTTPS reports whether the browser uses https.
func (a *Address) IsHTTPS() bool { return a.https }

// Scheme is the scheme that the browser uses.
func (a *Address) Scheme() string {
	if a.https {
		return httpsScheme
	}
	return httpScheme
}

// Host is the host that the browser uses, with its port if that is not the scheme's own.
func (a *Address) Host() string { return a.host }

// Proxied reports whether a trusted proxy has passed the request on.
func (a *Address) Proxied() bool { return a.proxied }

// IsMain reports whether the request came to a host where people may sign in. This is the host of the main site, or
// localhost, or a loopback address. Any other host name is refused, because an attacker may have pointed it at this
// server (DNS rebinding).
func (a *Address) IsMain() bool {
	main := a.site.suffix[1:]
	if a.site.mainHost != "" {
		main, _ = splitHost(a.site.mainHost)
	}
	if strings.EqualFold(a.name, main) || strings.EqualFold(a.name, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(a.name) // last, because its errors allocate
	return err == nil && ip.IsLoopback()
}

// WorkspaceURL returns the address of a workspace for people.
func (a *Address) WorkspaceURL(id workspace.ID) string {
	if a.site.perHost {
		return a.WorkspaceOrigin(id) + "/"
	}
	return WorkspacePath(id)
}

// MainOrigin returns the origin of the main site, as seen from any host.
func (a *Address) MainOrigin() string {
	host := a.site.mainHost
	if host == "" {
		host = a.withPort(a.site.suffix[1:])
	}
	return a.Scheme() + "://" + host
}

// withPort adds the port that the browser uses, if it names one.
func (a *Address) withPort(host string) string {
	if a.port != "" {
		return net.JoinHostPort(host, a.port)
	}
	return host
}
