package service

import (
	"context"

	"github.com/google/uuid"

	"github.com/codehub/gateway/coordinator/launch"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
)

// SetImages changes the images that users can choose. Existing workspaces keep the names of their images, and running
// containers keep running.
func (s *Service) SetImages(c launch.Catalog) { s.images.Store(&c) }

// Images returns the images that users can choose, the default first.
func (s *Service) Images() launch.Catalog { return *s.images.Load() }

// ofImage are the reasons for ERROR that a wrong image causes: it cannot be pulled, or its container ends or is not
// ready in time. An owner who chooses another image may try again, because that decides nothing about the files.
var ofImage = map[workspace.ErrorReason]bool{
	workspace.ReasonImagePullFailed: true, workspace.ReasonRetryExceeded: true, workspace.ReasonTimeout: true,
}

// retryImage pulls the image of w again, immediately after a failed attempt or an error, because a person has asked for
// w to run. It changes no other workspace. It returns [*LimitError] if there is no longer a place for w.
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
	// The workspace has lost its place, and must request one as any other workspace does.
	running := workspace.DesiredRunning
	return s.Update(ctx, a, w.ID, Patch{DesiredState: &running})
}
