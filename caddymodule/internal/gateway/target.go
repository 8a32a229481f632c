package gateway

import (
	"net/http"
	"strings"

	"github.com/codehub/gateway/caddymodule/internal/web"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Target is the workspace that a request is for, and how its address names it: by a
// host of its own or by a path of the main site.
type Target struct {
	// WorkspaceHost is the workspace, and which of its hosts. The ID is empty when the
	// address holds no workspace id where there should be one.
	web.WorkspaceHost
	// Prefix is the part of the path before the workspace's own paths: empty on the
	// workspace's own host.
	Prefix string
	// Host says that the request came to the workspace's own host.
	Host bool
	// Bare says that the path is the prefix alone, without a slash at its end.
	Bare bool
}

// Locate finds the target of r: the workspace whose own host it came to, or whose
// path it names. It reports false for requests that are not for a workspace. It does
// not check whether the workspace exists, and does not allocate.
func Locate(site *web.Site, r *http.Request) (Target, bool) {
	if h, ok := site.WorkspaceHost(r.Host); ok {
		return Target{WorkspaceHost: h, Host: true}, true
	}
	// The path as it was sent: an encoded slash after the id is part of a longer, and
	// so wrong, id.
	path := r.URL.RawPath
	if path == "" {
		path = r.URL.Path
	}
	rest, ok := strings.CutPrefix(path, web.PathPrefix)
	if !ok {
		return Target{}, false
	}
	name, _, slash := strings.Cut(rest, "/")
	id, err := workspace.ParseID(name)
	if err != nil {
		return Target{}, true
	}
	return Target{WorkspaceHost: web.WorkspaceHost{ID: id}, Prefix: path[:len(web.PathPrefix)+len(name)], Bare: !slash}, true
}

// stripPrefix removes the prefix from the path of r. The workspace sees its own paths
// only, in every addressing mode.
func (t Target) stripPrefix(r *http.Request) {
	r.URL.Path = r.URL.Path[len(t.Prefix):]
	if r.URL.RawPath != "" {
		r.URL.RawPath = r.URL.RawPath[len(t.Prefix):]
	}
}

// ownPath returns the workspace's own path and query of r, as they were sent.
func (t Target) ownPath(r *http.Request) string {
	path := r.URL.EscapedPath()[len(t.Prefix):]
	if path == "" {
		path = "/"
	}
	if r.URL.RawQuery != "" {
		path += "?" + r.URL.RawQuery
	}
	return path
}

// redirectBare redirects /w/{id} to /w/{id}/. Without the slash, relative links would
// lead to other addresses. 308 keeps method and body.
func redirectBare(w http.ResponseWriter, r *http.Request) error {
	to := r.URL.EscapedPath() + "/"
	if r.URL.RawQuery != "" {
		to += "?" + r.URL.RawQuery
	}
	web.Redirect(w, to, http.StatusPermanentRedirect)
	return nil
}
