// Package freezer freezes and thaws the containers of workspaces on a Docker engine.
//
// It must not decide what is frozen, nor touch a container without the installation's labels.
package freezer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/docker/engine"
	"github.com/codehub/gateway/coordinator/backend/docker/spec"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Freezer implements [backend.Freezer]. It is safe for concurrent use.
type Freezer struct {
	api       *engine.Client
	opts      spec.Options
	restarted func(id workspace.ID, containerID string)
}

// New returns a freezer. When a container turns out to have been started again since its start was reported, the
// freezer calls restarted with it. It performs no I/O.
func New(api *engine.Client, o spec.Options, restarted func(id workspace.ID, containerID string)) *Freezer {
	return &Freezer{api: api, opts: o, restarted: restarted}
}

// Freeze implements [backend.Freezer]. It freezes one container by its id, so that it never touches a replacement.
func (f *Freezer) Freeze(ctx context.Context, id workspace.ID, started time.Time) error {
	due := func(c *container.InspectResponse) bool {
		same := backend.SameStart(engine.Time(c.State.StartedAt), started)
		if !same {
			f.restarted(id, c.ID) // it was started again since the last listing
		}
		return same && c.State.Running && !c.State.Paused
	}
	const doing = "freezing"
	return engine.RetryChanged(ctx, doing+" container "+id.ContainerName(), func() error {
		containerID, err := f.ifDue(ctx, id, doing, due)
		if err != nil || containerID == "" {
			return err
		}
		return f.unlessChanged(ctx, id, doing, due, f.api.ContainerPause(ctx, containerID))
	})
}

// Thaw implements [backend.Freezer].
func (f *Freezer) Thaw(ctx context.Context, id workspace.ID) error {
	due := func(c *container.InspectResponse) bool { return c.State.Paused }
	const doing = "thawing"
	return engine.RetryChanged(ctx, doing+" container "+id.ContainerName(), func() error {
		containerID, err := f.ifDue(ctx, id, doing, due)
		if err != nil || containerID == "" {
			return err
		}
		return f.unlessChanged(ctx, id, doing, due, f.api.ContainerUnpause(ctx, containerID))
	})
}

// ifDue returns the id of the workspace's container if the function due returns true for it, and otherwise "".
func (f *Freezer) ifDue(ctx context.Context, id workspace.ID, doing string,
	due func(*container.InspectResponse) bool) (containerID string, err error) {
	if err := backend.CheckID(id); err != nil {
		return "", err
	}
	name := id.ContainerName()
	c, err := f.api.Inspect(ctx, name)
	switch {
	case err != nil || c == nil:
		return "", err
	case !f.opts.Owns(c.Config.Labels, id, spec.KindWorkspace):
		return "", backend.NotOurs("container", name)
	case c.State == nil:
		return "", fmt.Errorf("%s container %s: the engine reports no state", doing, name)
	case due(c):
		containerID = c.ID
	}
	return containerID, nil
}

// unlessChanged returns the engine's error. It returns nil if there is nothing left to do, because another call has
// frozen, thawed or removed the container, or because the container has ended. If it cannot tell yet, it returns
// [backend.ErrChanged].
func (f *Freezer) unlessChanged(ctx context.Context, id workspace.ID, doing string,
	due func(*container.InspectResponse) bool, err error) error {
	if err == nil {
		return nil
	}
	failed := engine.Wrap(doing+" container "+id.ContainerName(), err)
	if !engine.Answered(ctx, failed) || errors.Is(err, backend.ErrLeaseLapsed) {
		return failed
	}
	if left, again := f.ifDue(ctx, id, doing, due); again == nil && left == "" {
		return nil
	}
	if errdefs.IsNotFound(err) || errdefs.IsConflict(err) || engine.AlreadySo.Is(err) {
		return fmt.Errorf("%w: %w", backend.ErrChanged, failed)
	}
	return failed
}
