package service

import (
	"context"

	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/logkey"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Delete sets the desired state DELETED. The owner no longer sees the workspace, but can undo the deletion until its
// files are given up. If now is set, the files are given up immediately, even if the workspace is already deleted.
// Owners may set now only for their deleted workspaces, administrators for any ([ErrForbidden]). Delete returns
// [ErrNotFound], [ErrStale] and [ErrOperationInProgress].
func (s *Service) Delete(ctx context.Context, a Actor, id workspace.ID, now bool) error {
	if !valid(a, id) {
		return ErrNotFound
	}
	outcome, err := s.store.Delete(ctx, a.viewer(), id, now)
	if err == nil {
		err = outcomeError(outcome, store.Limits{})
	}
	if err != nil {
		return translate(err)
	}
	if outcome == store.Changed {
		s.logChange(ctx, "workspace deleted", a, id, workspace.DesiredDeleted, zap.Bool(logkey.Now, now))
	}
	return nil
}

// Undelete undoes the deletion of the actor's workspace, or of any workspace if the actor is an administrator. The
// desired state becomes ARCHIVED. A workspace that is not deleted stays as it is. Undelete returns [ErrNotFound];
// [ErrStale]; [ErrCollected] when it is too late; [ErrOperationInProgress]; and [*LimitError] if the workspace still
// runs but another workspace has taken its place.
func (s *Service) Undelete(ctx context.Context, a Actor, id workspace.ID) (workspace.Workspace, error) {
	if !valid(a, id) {
		return workspace.Workspace{}, ErrNotFound
	}
	w, outcome, err := s.store.Undelete(ctx, a.viewer(), id, s.storeLimits())
	if err == nil {
		err = s.refusal(ctx, outcome, a.UserID, id)
	}
	if err != nil {
		return workspace.Workspace{}, translate(err)
	}
	if outcome == store.Changed {
		s.logChange(ctx, "workspace undeleted", a, id, w.DesiredState)
	}
	return w, nil
}
