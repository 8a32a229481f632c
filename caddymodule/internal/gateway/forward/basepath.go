package forward

import (
	"net/http"
	"strings"

	"github.com/codehub/gateway/caddymodule/internal/site"
)

// If an image has keep_prefix and its container was started in path mode, its application serves below the workspace's
// path, [store.Route.BasePath], and has nothing at the root.

// toApplication changes the path of r to the path at which the application serves it. prefix is the part before the
// workspace's own path. stripped is the part that was removed, so that the application does not see it.
func toApplication(r *http.Request, prefix, basePath string) (stripped string) {
	switch {
	case basePath == "":
		r.URL.Path = r.URL.Path[len(prefix):]
		if r.URL.RawPath != "" {
			r.URL.RawPath = r.URL.RawPath[len(prefix):]
		}
		return prefix
	case prefix == "" && !below(r.URL.Path, basePath):
		r.URL.Path = basePath + r.URL.Path
		if r.URL.RawPath != "" {
			r.URL.RawPath = basePath + r.URL.RawPath
		}
	}
	return ""
}

// below reports whether the path is basePath or below it.
func below(path, basePath string) bool {
	rest, ok := strings.CutPrefix(path, basePath)
	return ok && (rest == "" || rest[0] == '/')
}

// redirectBelow redirects a navigation on the workspace's own host to the path that the application serves, because the
// links of its pages lead there. It reports false for every other request.
func redirectBelow(w http.ResponseWriter, r *http.Request, about *Request) bool {
	base := about.State.Route.BasePath
	if base == "" || !about.Kind.IsPage() || !about.Address.OwnHost || below(r.URL.Path, base) {
		return false
	}
	to := base + r.URL.EscapedPath()
	if r.URL.RawQuery != "" {
		to += "?" + r.URL.RawQuery
	}
	site.Redirect(w, to, http.StatusTemporaryRedirect)
	return true
}
