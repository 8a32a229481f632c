package api

import (
	"net/http"

	v1 "github.com/codehub/gateway/caddymodule/internal/api/v1"
)

// getLimits is GET /limits: how many workspaces of the user may run at a time, and how many the
// user may have. It is null where there is no limit.
func (c *call) getLimits() error {
	return sendJSON(c.w, http.StatusOK, v1.LimitsOf(c.Service.Limits()))
}
