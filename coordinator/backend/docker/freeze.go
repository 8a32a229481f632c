package docker

import (
	"context"
	"errors"
	"fmt"

	"github.com/docker/docker/api/types/container"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/docker/engine"
	"github.com/codehub/gateway/coordinator/workspace"
)

// awake returns the workspace's container if it runs and is not frozen. The error is
// [backend.ErrNotFound] or [backend.ErrFrozen] otherwise.
func (d *Docker) awake(ctx context.Context, id workspace.ID) (*container.InspectResponse, error) {
	c, err := d.running(ctx, id)
	if err == nil && c.State.Paused {
		err = fmt.Errorf("container %s: %w", id.ContainerName(), backend.ErrFrozen)
	}
	return c, err
}

// orFrozen returns the reason why nothing could start in a container that was awake: it is [backend.ErrFrozen] if the
// container was frozen in the meantime, even if it has been thawed since; otherwise it is err.
func (d *Docker) orFrozen(ctx context.Context, id workspace.ID, err error) error {
	if err == nil || !engine.Answered(ctx, err) {
		return err
	}
	if engine.IsPaused.Is(err) {
		return fmt.Errorf("%w: %w", backend.ErrFrozen, err)
	}
	if _, now := d.awake(ctx, id); errors.Is(now, backend.ErrFrozen) {
		return now
	}
	return err
}
