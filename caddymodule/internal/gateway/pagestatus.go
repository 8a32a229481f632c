package gateway

import (
	"net/http"

	"github.com/codehub/gateway/caddymodule/internal/site"
)

// DefaultPageStatus is the status of the wake page, and of the pages that say why there is no workspace (SPEC 8).
const DefaultPageStatus = http.StatusBadGateway

// pageWriter replaces the status of an error page, because some CDNs and proxies show their own page instead.
type pageWriter struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements [http.ResponseWriter]. It replaces statuses of 5xx only.
func (w pageWriter) WriteHeader(status int) {
	if status >= http.StatusInternalServerError {
		status = w.status
	}
	w.ResponseWriter.WriteHeader(status)
}

// page returns the writer for the answer to a person. Programs keep the statuses of SPEC 8. So do requests that
// accept HTML but send something, because a script would take the failure for a success.
func (g *Gateway) page(req *request) http.ResponseWriter {
	if g.PageStatus == DefaultPageStatus || req.r.Method != http.MethodGet && site.HeaderValue(req.r.Header, "Sec-Fetch-Mode") != "navigate" {
		return req.w
	}
	return pageWriter{req.w, g.PageStatus}
}
