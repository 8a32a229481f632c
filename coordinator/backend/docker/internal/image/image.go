// Package image finds and pulls the images of a Docker engine, and runs the program of the storage job's image in
// short-lived helper containers.
//
// It owns the meaning of the engine's answers about images, and the format of the stream that the engine sends during a
// pull. It also owns the helpers from their creation to their removal. It must not know which images are used, whether
// to pull a missing one, nor what helpers are for.
package image

import (
	"cmp"
	"context"
	"fmt"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/image"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/docker/engine"
	"github.com/codehub/gateway/coordinator/backend/docker/spec"
	"github.com/codehub/gateway/coordinator/backend/internal/registry"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/storagejob/contract"
)

// Store is the engine's images. It implements [backend.Images].
type Store struct {
	api  *engine.Client
	opts spec.Options // its Image stands for an empty reference
}

// New returns the images of the engine, for the installation that the options name. It performs no I/O.
func New(api *engine.Client, o spec.Options) *Store { return &Store{api, o} }

// Missing reports whether the engine lacks the image. Code that fails to create a container must call it, because the
// engine reports a missing image in the same way as a missing network or volume.
func (s *Store) Missing(ctx context.Context, ref string) bool {
	_, err := s.api.ImageInspect(ctx, ref)
	return errdefs.IsNotFound(err)
}

// Check returns a [backend.MissingImageError] if the engine lacks the image.
func (s *Store) Check(ctx context.Context, ref string) error {
	ctx, cancel := context.WithTimeout(ctx, engine.AnswerLimit)
	defer cancel()
	ref = cmp.Or(ref, s.opts.Image)
	if s.Missing(ctx, ref) {
		return &backend.MissingImageError{Image: ref}
	}
	return nil
}

// Size returns the image's size on the engine in bytes, or a [backend.MissingImageError].
func (s *Store) Size(ctx context.Context, ref string) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, engine.AnswerLimit)
	defer cancel()
	ref = cmp.Or(ref, s.opts.Image)
	found, err := s.api.ImageInspect(ctx, ref)
	if errdefs.IsNotFound(err) {
		return 0, &backend.MissingImageError{Image: ref}
	}
	if err != nil {
		return 0, engine.Wrap("inspecting image "+ref, err)
	}
	return found.Size, nil
}

// CheckJobs returns nil if the engine has this release's version of the image of storage jobs. Otherwise it returns a
// [backend.MissingImageError], or a [workspace.PendingError] with the remedy.
func (s *Store) CheckJobs(ctx context.Context, ref string) error {
	ctx, cancel := context.WithTimeout(ctx, engine.AnswerLimit)
	defer cancel()
	found, err := s.api.ImageInspect(ctx, ref)
	if errdefs.IsNotFound(err) {
		return &backend.MissingImageError{Image: ref, Jobs: true}
	}
	if err != nil {
		return engine.Wrap("inspecting image "+ref, err)
	}
	var labels map[string]string
	if found.Config != nil {
		labels = found.Config.Labels
	}
	if err := contract.CheckLabels(ref, labels); err != nil {
		return &workspace.PendingError{
			Pending: workspace.Pending{Reason: workspace.WaitJobImage, Message: err.Error()}, Err: err,
		}
	}
	return nil
}

// Pull pulls an image, and calls progress as bytes arrive. The engine shares the common layers of concurrent pulls.
// Only errors that another attempt cannot fix are ImagePullFailed.
func (s *Store) Pull(ctx context.Context, ref string, progress func(done, total int64)) error {
	ref = cmp.Or(ref, s.opts.Image)
	doing := fmt.Sprintf("pulling image %q", ref)
	stream, err := s.api.ImagePull(ctx, ref, image.PullOptions{})
	if err == nil {
		defer stream.Close()
		// The pull runs only while its progress is read. An error is a line of the stream, not a status code.
		err = read(stream, progress)
	}
	if err == nil {
		return nil
	}
	failed := engine.Wrap(doing, err)
	switch {
	case ctx.Err() != nil || workspace.ReasonOf(failed) == workspace.ReasonUnreachable:
		return failed
	case registry.Judge(err.Error()) != registry.Temporary:
		return workspace.Fail(workspace.ReasonImagePullFailed, failed)
	}
	return &workspace.PendingError{Pending: workspace.Pending{
		Reason: workspace.WaitPullingImage, Message: failed.Error(), Cause: registry.Cause(err.Error()),
	}, Err: failed}
}
