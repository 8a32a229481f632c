package api

import (
	"net/http"

	v1 "github.com/codehub/gateway/caddymodule/internal/api/v1"
)

// getLimits is GET /limits. It answers how many workspaces of the user may run at a time, how many more may doze, and
// how many the user may have. These are the user's own limits where they are set, and otherwise the general ones. A
// missing limit is null.
func (c *call) getLimits() error {
	limits, err := c.Service.LimitsOf(c.r.Context(), c.user.ID)
	if err != nil {
		return err
	}
	return sendJSON(c.w, http.StatusOK, v1.LimitsOf(limits))
}
