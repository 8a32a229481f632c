package gateway

import (
	"net/http"

	"github.com/codehub/gateway/caddymodule/internal/site"
)

// ownPath returns the workspace's own path and query of r, as they were sent.
func ownPath(at *site.Address, r *http.Request) string {
	path := r.URL.EscapedPath()[len(at.Prefix):]
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
	site.Redirect(w, to, http.StatusPermanentRedirect)
	return nil
}
