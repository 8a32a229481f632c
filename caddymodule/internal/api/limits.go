package api

import "net/http"

// getLimits is GET /limits: how many workspaces of the user may run at a time, and how many
// the user may have; null where there is no limit.
func (c *call) getLimits() error {
	limits := c.Service.Limits()
	return sendJSON(c.w, http.StatusOK, struct {
		Running    *int `json:"max_running_per_user"`
		Workspaces *int `json:"max_workspaces_per_user"`
	}{limitOrNull(limits.PerUser), limitOrNull(limits.Workspaces)})
}

func limitOrNull(n int) *int {
	if n <= 0 {
		return nil
	}
	return &n
}
