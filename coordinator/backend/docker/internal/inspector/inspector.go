// Package inspector finds out what a listing does not show about the containers of workspaces: when they started,
// whether their health check is known to fail, and how they ended.
//
// It remembers the answers, and asks the engine again only when they may have changed. It must not change anything.
package inspector

import (
	"context"
	"fmt"
	"time"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/docker/engine"
	"github.com/codehub/gateway/coordinator/backend/docker/internal/status"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Inspector remembers inspections. It is safe for concurrent use.
type Inspector struct {
	api  *engine.Client
	ends backend.Memo[end]
	runs backend.Memo[run]
}

// end is how a container ended. It never changes, so it is remembered: every listing includes an ended container until
// that is removed.
type end struct {
	code              int
	disrupted         bool
	started, finished time.Time
}

// run describes a running container: when it started, and whether its health check is known to fail.
type run struct {
	started time.Time
	fails   bool
}

// New returns an inspector. It performs no I/O.
func New(api *engine.Client) *Inspector { return &Inspector{api: api} }

// Restarted records that a container was started, perhaps again and by hand, so that no listing shows its earlier end.
func (i *Inspector) Restarted(id workspace.ID, containerID string) { i.runs.Drop(id, containerID) }

// Retain forgets containers of these workspaces, or of all workspaces if ids is empty, unless they are in seen, the
// containers of the latest listing.
func (i *Inspector) Retain(ids []workspace.ID, seen map[string]struct{}) {
	i.ends.Retain(ids, seen)
	i.runs.Retain(ids, seen)
}

// runLimit bounds the engine's answer about a running container. While the engine starts or ends a container, it does
// not answer about that container. The time of the container's start is then unknown, but only freezing needs it.
const runLimit = 2 * time.Second

// KnowsRunning adds to c what earlier calls have found out about a running container. It reports whether c is then
// complete.
func (i *Inspector) KnowsRunning(id workspace.ID, containerID string, c *workspace.Container) bool {
	i.ends.Drop(id, containerID) // a container that was restarted by hand has no end any more
	known, ok := i.runs.Get(id, containerID)
	unhealthy := c.Health == workspace.HealthUnhealthy
	if known.fails && !unhealthy {
		known.fails = false
		i.runs.Put(id, containerID, known)
	}
	c.StartedAt = known.started
	return ok && (!unhealthy || known.fails)
}

// Running asks the engine about a running container and adds to c what a listing does not show. An error means that the
// engine does not answer.
func (i *Inspector) Running(ctx context.Context, id workspace.ID, containerID string, c *workspace.Container) error {
	bounded, cancel := context.WithTimeout(ctx, runLimit)
	defer cancel()
	full, err := i.api.Inspect(bounded, containerID)
	switch {
	case err != nil && bounded.Err() == nil && !engine.Answered(ctx, err), ctx.Err() != nil:
		return err
	case err != nil || full == nil || full.State == nil || !full.State.Running:
		return nil
	}
	c.StartedAt = engine.Time(full.State.StartedAt)
	if c.Health == workspace.HealthUnhealthy {
		c.Health = status.Probed(full)
		c.Ready = c.Endpoint != "" && c.Health == ""
	}
	i.runs.Put(id, containerID, run{started: c.StartedAt, fails: c.Health == workspace.HealthUnhealthy})
	return nil
}

// Ended adds to c how a container ended. gone means that the container was removed in the meantime. It calls since,
// which returns when the engine started, only for a container that was not inspected before.
func (i *Inspector) Ended(ctx context.Context, id workspace.ID, containerID string, since func() (time.Time, error),
	c *workspace.Container) (gone bool, err error) {
	i.runs.Drop(id, containerID)
	e, ok := i.ends.Get(id, containerID)
	if !ok {
		full, err := i.api.Inspect(ctx, containerID)
		switch {
		case err != nil:
			return false, err
		case full == nil:
			return true, nil
		case full.State == nil:
			return false, fmt.Errorf("inspecting container %s: the engine reports no state", containerID)
		}
		at, err := since()
		if err != nil {
			return false, err
		}
		e = end{
			code: full.State.ExitCode, disrupted: status.Disrupted(full, at), started: engine.Time(full.State.StartedAt),
			finished: engine.Time(full.State.FinishedAt),
		}
		i.ends.Put(id, containerID, e)
	}
	c.ExitCode, c.Disrupted, c.StartedAt, c.FinishedAt = e.code, e.disrupted, e.started, e.finished
	return false, nil
}
