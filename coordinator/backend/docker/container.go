package docker

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

// errNameTaken means that another process has just created a container with that name.
var errNameTaken = errors.New("a container of that name exists")

// create creates a container. If the engine lacks its image, the error is a [backend.MissingImageError]; for an invalid
// reference, it is ImagePullFailed.
func (d *Docker) create(ctx context.Context, name string, s spec.Container) (containerID string, err error) {
	made, err := d.api.ContainerCreate(ctx, s.Config, s.Host, s.Network, nil, name)
	switch {
	case err == nil:
		return made.ID, nil
	case errdefs.IsConflict(err):
		return "", errNameTaken
	case errdefs.IsNotFound(err) && d.images.Missing(ctx, s.Config.Image):
		return "", &backend.MissingImageError{Image: s.Config.Image}
	// Only the user can repair the reference, just as if the image did not exist.
	case engine.BadReference.Is(err):
		return "", workspace.Fail(workspace.ReasonImagePullFailed, fmt.Errorf("image %q: %w", s.Config.Image, err))
	}
	return "", engine.Wrap("creating container "+name, spec.DiskRefused(s.Host.StorageOpt, err))
}

// own returns the workspace's container, or [backend.ErrNotFound].
func (d *Docker) own(ctx context.Context, id workspace.ID) (*container.InspectResponse, error) {
	if err := backend.CheckID(id); err != nil {
		return nil, err
	}
	name := id.ContainerName()
	c, err := d.api.Inspect(ctx, name)
	if err == nil && (c == nil || !d.opts.Owns(c.Config.Labels, id, spec.KindWorkspace)) {
		err = fmt.Errorf("container %s: %w", name, backend.ErrNotFound)
	}
	return c, err
}

// running returns the workspace's container if it runs, or [backend.ErrNotFound].
func (d *Docker) running(ctx context.Context, id workspace.ID) (*container.InspectResponse, error) {
	c, err := d.own(ctx, id)
	if err == nil && (c.State == nil || !c.State.Running) {
		err = fmt.Errorf("container %s: %w", id.ContainerName(), backend.ErrNotFound)
	}
	return c, err
}

// remove kills and removes the container. It returns once the container is gone.
func (d *Docker) remove(ctx context.Context, containerID string) error {
	// RemoveVolumes removes anonymous volumes, never a home.
	err := d.api.ContainerRemove(ctx, containerID, container.RemoveOptions{Force: true, RemoveVolumes: true})
	if errdefs.IsConflict(err) {
		// Another call is removing it already.
		done, failed := d.api.ContainerWait(ctx, containerID, container.WaitConditionRemoved)
		select {
		case <-done:
			err = nil
		case err = <-failed:
		}
	}
	if errdefs.IsNotFound(err) {
		return nil
	}
	return err
}

// undo removes a workspace's container that must not run, and returns cause. It does so even if ctx has ended. If the
// removal also fails, the error names both causes; the next attempt finds the container and tries again. It also
// removes a volume that the engine created with the container, now or at the next call.
func (d *Docker) undo(ctx context.Context, id workspace.ID, containerID string, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := d.remove(ctx, containerID); err != nil {
		return fmt.Errorf("%w (and removing the container failed: %w)", cause, err)
	}
	_, _ = d.homes.Find(ctx, id)
	return cause
}
