package api

import (
	"context"
	"errors"

	"github.com/codehub/gateway/caddymodule/internal/web"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/workspace"
)

// problem translates an error. With a limit come the user's own workspaces that count
// against it, so that one of them can be put to sleep; when they cannot be read, the limit
// is the answer all the same.
func (c *call) problem(ctx context.Context, err error) *web.Problem {
	var limit *service.LimitError
	if !errors.As(err, &limit) {
		return web.ProblemOf(err)
	}
	running, _ := c.Service.Running(ctx, c.user.ID)
	return web.LimitProblem(limit, web.RunningList(running, func(id workspace.ID) string { return c.Site.WorkspaceURL(c.r, id) }))
}
