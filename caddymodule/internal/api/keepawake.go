package api

import (
	"time"

	"github.com/codehub/gateway/caddymodule/internal/problem"
)

// keepAwake is POST /workspaces/{id}/keep-awake {"hours": n}: it keeps a running workspace awake for that many hours
// from now, even if it is unused; 0 ends an earlier keep-awake. It answers with the workspace. It answers 400 if hours
// is more than the setting allows, and 409 if the workspace is not running.
func (c *call) keepAwake() error {
	var in struct {
		Hours *float64 `json:"hours"`
	}
	if err := c.decode(&in); err != nil {
		return err
	}
	const maxHours = 365 * 24 // keeps time.Duration from overflowing
	if in.Hours == nil || *in.Hours < 0 || *in.Hours > maxHours {
		return problem.InvalidField("hours", "problem.hours", nil)
	}
	return c.sendWorkspace(c.Service.KeepAwake(c.r.Context(), c.actor(), c.id, time.Duration(*in.Hours*float64(time.Hour))))
}
