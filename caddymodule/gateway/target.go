package gateway

import (
	"net/http"
	"strings"

	"github.com/codehub/gateway/caddymodule/web"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Target is the workspace that a request is for, and how its address names it.
type Target struct {
	// ID is empty when the address holds no workspace id where there should be one.
	ID workspace.ID
	// Prefix is the part of the path before the workspace's own paths: empty on the
	// workspace's own host.
	Prefix string
	// Host says that the request came to the workspace's own host.
	Host bool
	// Bare says that the path is the prefix alone, without a slash at its end.
	Bare bool
}

// Locate finds the target of r: the workspace whose own host it came to, or whose
// path it names. It reports false for requests that are for no workspace. It does
// not look whether the workspace exists, and does not allocate.
func Locate(site *web.Site, r *http.Request) (Target, bool) {
	if name, ok := site.WorkspaceName(r.Host); ok {
		id, _ := workspace.ParseID(strings.ToLower(name))
		return Target{ID: id, Host: true}, true
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
	return Target{ID: id, Prefix: path[:len(web.PathPrefix)+len(name)], Bare: !slash}, true
}

// stripPrefix makes the path of r the one that the workspace shall see.
func (t Target) stripPrefix(r *http.Request) {
	r.URL.Path = r.URL.Path[len(t.Prefix):]
	if r.URL.RawPath != "" {
		r.URL.RawPath = r.URL.RawPath[len(t.Prefix):]
	}
}

// redirectBare sends /w/{id} to /w/{id}/, because relative links lead elsewhere
// without the slash.
func redirectBare(w http.ResponseWriter, r *http.Request) error {
	to := r.URL.EscapedPath() + "/"
	if r.URL.RawQuery != "" {
		to += "?" + r.URL.RawQuery
	}
	web.Redirect(w, to, http.StatusPermanentRedirect)
	return nil
}
