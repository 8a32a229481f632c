package api

import (
	"net/http"
	"time"

	"github.com/codehub/gateway/caddymodule/web"
	"github.com/codehub/gateway/coordinator/workspace"
)

// workBody is what an answer says about a workspace that nobody uses. All of it is null
// while it does not matter.
type workBody struct {
	// Until when its owner keeps it awake, and when it goes to sleep unless it is used.
	KeepAwakeUntil *time.Time `json:"keep_awake_until"`
	SleepAt        *time.Time `json:"sleep_at"`
	// Why it stays awake: a stable word, what is busy in the workspace's own words, and
	// since when.
	Busy *workspace.Busy `json:"busy"`
	// How people are told from open tabs in its pages: "presence", or "traffic" when its
	// pages cannot report them, so that everything counts.
	PageActivity *workspace.PageActivity `json:"page_activity"`
}

func workBodyOf(w workspace.Workspace) workBody {
	return workBody{timeOrNull(w.KeepAwakeUntil), timeOrNull(w.SleepAt), w.Busy, orNull(w.PageActivity)}
}

// keepAwake is POST /workspaces/{id}/keep-awake {"hours": n}: it keeps a running workspace
// awake for that many hours from now although nobody uses it, and no longer with 0. It
// answers with the workspace. It refuses with 400 more hours than the setting allows, and
// with 409 a workspace that does not run.
func (c *call) keepAwake() error {
	var in struct {
		Hours *float64 `json:"hours"`
	}
	if err := c.decode(&in); err != nil {
		return err
	}
	const most = 365 * 24 // more is no duration any more
	if in.Hours == nil || *in.Hours < 0 || *in.Hours > most {
		p := web.ProblemInvalid.With("hours must be a number from 0 on, such as 4.")
		p.Field = "hours"
		return p
	}
	w, err := c.Service.KeepAwake(c.r.Context(), c.actor(), c.id, time.Duration(*in.Hours*float64(time.Hour)))
	if err != nil {
		return err
	}
	return sendJSON(c.w, http.StatusOK, c.body(w))
}
