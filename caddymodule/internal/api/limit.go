package api

import (
	"context"
	"errors"

	"github.com/codehub/gateway/caddymodule/internal/problem"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/workspace"
)

// problem translates an error. If a limit is the reason for the error, the problem lists the user's own workspaces that
// count against it, so that the user can put one of them to sleep. If they cannot be read, the limit is reported
// without them.
func (c *call) problem(ctx context.Context, err error) *problem.Problem {
	var limit *service.LimitError
	if !errors.As(err, &limit) {
		return problem.Of(err)
	}
	running, _ := c.Service.Running(ctx, c.user.ID)
	address := func(id workspace.ID) string { return c.at.WorkspaceURL(id) }
	return problem.OfLimit(limit, problem.RunningList(running, address))
}
