package docker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/docker/engine"
	"github.com/codehub/gateway/coordinator/backend/docker/spec"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Freeze implements [backend.Freezer]. The engine is asked to freeze one container by its id: another
// one that takes its place meanwhile is never touched.
func (d *Docker) Freeze(ctx context.Context, id workspace.ID, started time.Time) error {
	due := func(c *container.InspectResponse) bool {
		same := backend.SameStart(engine.Time(c.State.StartedAt), started)
		if !same {
			d.runs.Drop(id, c.ID) // it was started again, which no listing has shown
		}
		return same && c.State.Running && !c.State.Paused
	}
	const doing = "freezing"
	return retryChanged(ctx, doing+" container "+id.ContainerName(), func() error {
		containerID, err := d.ifDue(ctx, id, doing, due)
		if err != nil || containerID == "" {
			return err
		}
		err = d.api.ContainerPause(ctx, containerID)
		return d.unlessChanged(ctx, id, doing, due, err)
	})
}

// Thaw implements [backend.Freezer].
func (d *Docker) Thaw(ctx context.Context, id workspace.ID) error {
	due := func(c *container.InspectResponse) bool { return c.State.Paused }
	const doing = "thawing"
	return retryChanged(ctx, doing+" container "+id.ContainerName(), func() error {
		containerID, err := d.ifDue(ctx, id, doing, due)
		if err != nil || containerID == "" {
			return err
		}
		err = d.api.ContainerUnpause(ctx, containerID)
		return d.unlessChanged(ctx, id, doing, due, err)
	})
}

// ifDue returns the engine's id of the workspace's container if something of it is due, or "".
func (d *Docker) ifDue(ctx context.Context, id workspace.ID, doing string,
	due func(*container.InspectResponse) bool) (containerID string, err error) {
	if err := backend.CheckID(id); err != nil {
		return "", err
	}
	name := id.ContainerName()
	c, err := d.inspect(ctx, name)
	switch {
	case err != nil || c == nil:
		return "", err
	case !d.opts.Owns(c.Config.Labels, id, spec.KindWorkspace):
		return "", engine.NotOurs("container", name)
	case c.State == nil:
		return "", fmt.Errorf("%s container %s: the engine reports no state", doing, name)
	case due(c):
		containerID = c.ID
	}
	return containerID, nil
}

// unlessChanged returns the error of the engine, or nil if nothing is due any more: another call has
// frozen, thawed or removed the container meanwhile, or it has ended. If that is not certain yet, it is
// [backend.ErrChanged].
func (d *Docker) unlessChanged(ctx context.Context, id workspace.ID, doing string,
	due func(*container.InspectResponse) bool, err error) error {
	if err == nil {
		return nil
	}
	failed := engine.Wrap(doing+" container "+id.ContainerName(), err)
	if !answered(ctx, failed) || errors.Is(err, backend.ErrLeaseLapsed) {
		return failed
	}
	if left, again := d.ifDue(ctx, id, doing, due); again == nil && left == "" {
		return nil
	}
	if errdefs.IsNotFound(err) || errdefs.IsConflict(err) || slices.ContainsFunc(asWanted, func(text string) bool {
		return strings.Contains(err.Error(), text)
	}) {
		return fmt.Errorf("%w: %w", backend.ErrChanged, failed)
	}
	return failed
}

// asWanted is what an engine says, as an internal error, of a container that is as it is asked to be. The
// first is of another call that was quicker. The others are of the engine's own record: it hears of each
// change a second time from below, late. So when a thaw follows at once, a container that runs counts as
// paused for a moment, and the other way round.
var asWanted = []string{" is not paused", "cannot resume a running process", "cannot pause a paused container"}

// awake returns the workspace's container if it runs and is not frozen. The error is
// [backend.ErrNotFound] or [backend.ErrFrozen] otherwise.
func (d *Docker) awake(ctx context.Context, id workspace.ID) (*container.InspectResponse, error) {
	c, err := d.running(ctx, id)
	if err == nil && c.State.Paused {
		err = fmt.Errorf("container %s: %w", id.ContainerName(), backend.ErrFrozen)
	}
	return c, err
}

// orFrozen returns why nothing could be begun in a container that was awake: it was frozen meanwhile,
// or err.
func (d *Docker) orFrozen(ctx context.Context, id workspace.ID, err error) error {
	if err == nil || !answered(ctx, err) {
		return err
	}
	if _, now := d.awake(ctx, id); errors.Is(now, backend.ErrFrozen) {
		return now
	}
	return err
}
