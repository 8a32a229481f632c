package docker

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"

	"github.com/codehub/gateway/coordinator/workspace"
)

// errNameTaken says that a container of that name was created meanwhile.
var errNameTaken = errors.New("a container of that name exists")

// create creates a container, and pulls its image if the engine does not have it.
func (d *Docker) create(ctx context.Context, name string, s spec) (containerID string, err error) {
	for pulled := false; ; pulled = true {
		made, err := d.api.ContainerCreate(ctx, s.config, s.host, nil, nil, name)
		switch {
		case err == nil:
			return made.ID, nil
		case errdefs.IsConflict(err):
			return "", errNameTaken
		case errdefs.IsNotFound(err) && !pulled && d.imageMissing(ctx, s.config.Image):
			if err := d.pull(ctx, s.config.Image); err != nil {
				return "", err
			}
		case errdefs.IsInvalidArgument(err) && strings.Contains(err.Error(), "reference format"):
			return "", workspace.Fail(workspace.ReasonImagePullFailed, fmt.Errorf("image %q: %w", s.config.Image, err))
		default:
			return "", wrap("creating container "+name, err)
		}
	}
}

// imageMissing reports whether the engine does not have the image. The engine uses
// the same kind of error for a missing image, network and volume.
func (d *Docker) imageMissing(ctx context.Context, ref string) bool {
	_, err := d.api.ImageInspect(ctx, ref)
	return errdefs.IsNotFound(err)
}

// pull pulls an image. An image that the registry does not give is ImagePullFailed.
func (d *Docker) pull(ctx context.Context, ref string) error {
	failed := func(err error) error {
		doing := fmt.Sprintf("pulling image %q", ref)
		if ctx.Err() != nil || client.IsErrConnectionFailed(err) || errors.Is(err, io.ErrUnexpectedEOF) {
			return wrap(doing, err)
		}
		return workspace.Fail(workspace.ReasonImagePullFailed, fmt.Errorf("%s: %w", doing, err))
	}
	progress, err := d.api.ImagePull(ctx, ref, image.PullOptions{})
	if err != nil {
		return failed(err)
	}
	defer progress.Close()
	// The pull runs while its progress is read. The progress ends with it, and holds its
	// error.
	for dec := json.NewDecoder(bufio.NewReader(progress)); ; {
		var line struct {
			Error string `json:"error"`
		}
		switch err := dec.Decode(&line); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return failed(err)
		case line.Error != "":
			return failed(errors.New(strings.TrimSpace(line.Error)))
		}
	}
}

// spec describes a container to create.
type spec struct {
	config *container.Config
	host   *container.HostConfig
}
