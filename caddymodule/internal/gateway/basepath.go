package gateway

import (
	"net/http"
	"strings"

	"github.com/codehub/gateway/caddymodule/internal/web"
	"github.com/codehub/gateway/coordinator/dataplane/route"
)

// The application of an image with keep_prefix that was started for the path mode serves
// below its workspace's path, [store.Route.BasePath], and has nothing at the root.

// toApplication makes the path of r the one that the application serves. prefix is what
// it does not see of the path: empty when nothing was taken away.
func (t Target) toApplication(r *http.Request, basePath string) (prefix string) {
	switch {
	case basePath == "":
		t.stripPrefix(r)
		return t.Prefix
	case t.Prefix == "" && !below(r.URL.Path, basePath):
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

// leadBelow redirects a navigation on the workspace's own host to where its application
// serves, because the links of its pages lead there. It reports false for every other
// request.
func (req *request) leadBelow(st *route.State) bool {
	base := st.Route.BasePath
	if base == "" || !req.kind.IsPage() || !req.target.Host || below(req.r.URL.Path, base) {
		return false
	}
	to := base + req.r.URL.EscapedPath()
	if req.r.URL.RawQuery != "" {
		to += "?" + req.r.URL.RawQuery
	}
	web.Redirect(req.w, to, http.StatusTemporaryRedirect)
	return true
}
