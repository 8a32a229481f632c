package api

import (
	"net/http"

	v1 "github.com/codehub/gateway/caddymodule/internal/api/v1"
)

// getLimits is GET /limits: how many workspaces of the user may run at a time, how many may doze
// besides, and how many the user may have, by the user's own limits or those of all. It is null where there is no limit.
func (c *call) getLimits() error {
	limits, err := c.Service.LimitsOf(c.r.Context(), c.user.ID)
	if err != nil {
		return err
	}
	return sendJSON(c.w, http.StatusOK, v1.LimitsOf(limits))
}
