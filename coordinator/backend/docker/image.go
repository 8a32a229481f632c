package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/network"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/docker/engine"
	"github.com/codehub/gateway/coordinator/backend/docker/pull"
	"github.com/codehub/gateway/coordinator/workspace"
)

// errNameTaken says that another process created a container with that name in the
// meantime.
var errNameTaken = errors.New("a container of that name exists")

// create creates a container. If the engine does not have its image, the error is a
// [backend.MissingImageError]; a reference that no image can have is ImagePullFailed.
func (d *Docker) create(ctx context.Context, name string, s spec) (containerID string, err error) {
	made, err := d.api.ContainerCreate(ctx, s.config, s.host, s.network, nil, name)
	switch {
	case err == nil:
		return made.ID, nil
	case errdefs.IsConflict(err):
		return "", errNameTaken
	case errdefs.IsNotFound(err) && d.imageMissing(ctx, s.config.Image):
		return "", &backend.MissingImageError{Image: s.config.Image}
	// The engine cannot parse the reference: like an image that does not exist, only
	// the user can repair that.
	case errdefs.IsInvalidArgument(err) && strings.Contains(err.Error(), "reference format"):
		return "", workspace.Fail(workspace.ReasonImagePullFailed, fmt.Errorf("image %q: %w", s.config.Image, err))
	}
	return "", engine.Wrap("creating container "+name, diskRefused(s.host.StorageOpt, err))
}

// imageMissing reports whether the engine does not have the image. create must ask,
// because the engine reports a missing image, network and volume alike.
func (d *Docker) imageMissing(ctx context.Context, ref string) bool {
	_, err := d.api.ImageInspect(ctx, ref)
	return errdefs.IsNotFound(err)
}

// CheckImage implements [backend.Backend].
func (d *Docker) CheckImage(ctx context.Context, ref string) error {
	ctx, cancel := context.WithTimeout(ctx, engine.AnswerLimit)
	defer cancel()
	if ref = cmp.Or(ref, d.opts.Image); d.imageMissing(ctx, ref) {
		return &backend.MissingImageError{Image: ref}
	}
	return nil
}

// Pull implements [backend.Backend]. The engine shares what several pulls have in
// common. A lost connection to the engine is not ImagePullFailed, because the image may
// be fine.
func (d *Docker) Pull(ctx context.Context, ref string, progress func(done, total int64)) error {
	ref = cmp.Or(ref, d.opts.Image)
	doing := fmt.Sprintf("pulling image %q", ref)
	stream, err := d.api.ImagePull(ctx, ref, image.PullOptions{})
	if err == nil {
		defer stream.Close()
		// The pull runs only while its progress is read. Its error is not a status code
		// but a line of the stream.
		err = pull.Read(stream, progress)
	}
	if err == nil {
		return nil
	}
	if failed := engine.Wrap(doing, err); ctx.Err() != nil || workspace.ReasonOf(failed) == workspace.ReasonUnreachable {
		return failed
	}
	return workspace.Fail(workspace.ReasonImagePullFailed, fmt.Errorf("%s: %w", doing, err))
}

// spec describes a container to create.
type spec struct {
	config  *container.Config
	host    *container.HostConfig
	network *network.NetworkingConfig // nil lets the engine choose the address
}
