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

// errNameTaken says that another process created a container with that name in the
// meantime.
var errNameTaken = errors.New("a container of that name exists")

// create creates a container, and pulls its image if the engine does not have it. It
// pulls at most once: if the image is removed again in between, the caller's retry
// starts over. Failures of the image are ImagePullFailed (SPEC 3).
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
		// The engine cannot parse the reference: like an image that does not exist, only
		// the user can repair that.
		case errdefs.IsInvalidArgument(err) && strings.Contains(err.Error(), "reference format"):
			return "", workspace.Fail(workspace.ReasonImagePullFailed, fmt.Errorf("image %q: %w", s.config.Image, err))
		default:
			return "", wrap("creating container "+name, err)
		}
	}
}

// imageMissing reports whether the engine does not have the image. create must ask,
// because the engine reports a missing image, network and volume alike.
func (d *Docker) imageMissing(ctx context.Context, ref string) bool {
	_, err := d.api.ImageInspect(ctx, ref)
	return errdefs.IsNotFound(err)
}

// pull pulls an image and returns when the pull has ended. A registry that refuses or
// does not have the image is ImagePullFailed; a lost connection to the engine is not,
// because the image may be fine.
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
	// The pull runs only while its progress is read. Its error is not a status code but
	// a line of the progress.
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
