package api

import (
	"context"
	"time"

	"github.com/codehub/gateway/caddymodule/internal/problem"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/workspace"
)

// DefaultThawTimeout is the usual [Options.ThawTimeout].
const DefaultThawTimeout = 30 * time.Second

// thawPoll is how long a command waits before it checks again whether the container has resumed.
const thawPoll = 50 * time.Millisecond

// thaw resumes a dozing workspace: a request that needs its container counts as use (SPEC 6). The
// container resumes a moment later.
func (c *call) thaw(w workspace.Workspace, a service.Actor) error {
	if w.DozeAt.IsZero() {
		return nil
	}
	ctx, cancel := context.WithTimeout(c.r.Context(), c.DatabaseTimeout)
	defer cancel()
	return c.Service.SetDesired(ctx, a, c.id, workspace.DesiredRunning)
}

// thawing returns a function that the caller calls each time it finds the container still frozen. The function waits
// for a moment. It returns an error for the client if a person has paused the container, or if the container does not
// resume in time.
func (c *call) thawing(ctx context.Context) func() error {
	var late <-chan time.Time
	return func() error {
		w, err := c.find(c.self())
		if err != nil {
			return err
		}
		if w.DozeAt.IsZero() && w.Conditions[workspace.ContainerReady].Reason == workspace.ContainerPaused {
			return problem.NotRunning.With("problem.frozen", nil)
		}
		if err := c.thaw(w, c.self()); err != nil {
			return err
		}
		if late == nil {
			late = time.After(c.ThawTimeout)
		}
		select {
		case <-time.After(thawPoll):
			return nil
		case <-late:
			return problem.NotRunning.With("problem.frozen", nil)
		case <-ctx.Done():
			return execProblem(ctx, ctx.Err())
		}
	}
}
