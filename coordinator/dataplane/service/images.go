package service

import (
	"context"

	"github.com/google/uuid"

	"github.com/codehub/gateway/coordinator/launch"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
)

// SetImages changes the images that users choose from. What exists keeps the name of its
// image, and whatever runs keeps running.
func (s *Service) SetImages(c launch.Catalog) { s.images.Store(&c) }

// Images returns the images that users choose from, the default first.
func (s *Service) Images() launch.Catalog { return *s.images.Load() }

// ofImage are the reasons for ERROR that a wrong image has. It could not be pulled, or its
// container ends or is not ready in time. An owner who chooses another image may try again;
// nothing is decided about the files.
var ofImage = map[workspace.ErrorReason]bool{
	workspace.ReasonImagePullFailed: true, workspace.ReasonRetryExceeded: true, workspace.ReasonTimeout: true,
}

// retryImage pulls the image of w again at once, after a failed attempt or an error, because a person has asked for w to
// run. It leaves any other workspace as it is. It returns [*LimitError] when there is no place for it any more.
func (s *Service) retryImage(ctx context.Context, a Actor, w workspace.Workspace) (workspace.Workspace, error) {
	if w.Waiting.FailedPull() {
		retried, outcome, err := s.store.RetryPull(ctx, a.viewer(), w.ID, uuid.NewString())
		if err != nil || outcome != store.Changed {
			return w, translate(err)
		}
		return retried, nil
	}
	if w.Phase != workspace.PhaseError || w.ErrorReason != workspace.ReasonImagePullFailed {
		return w, nil
	}
	recovered, changed, err := s.recover(ctx, a, w, Choice{})
	if err != nil || !changed {
		return w, err
	}
	if recovered.DesiredState == workspace.DesiredRunning {
		return recovered, nil
	}
	// It had lost its place: now it asks for one like any other.
	running := workspace.DesiredRunning
	return s.Update(ctx, a, w.ID, Patch{DesiredState: &running})
}
