package service

import (
	"context"

	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/logkey"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Delete sets the desired state DELETED. From then on the owner no longer sees the
// workspace, but can undo the deletion until its files are given up. With now they are
// given up at once, also of a workspace that is deleted already. Owners may do that with the
// latter, administrators with any ([ErrForbidden]). Delete returns [ErrNotFound], [ErrStale] and
// [ErrOperationInProgress].
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

// Undelete undoes the deletion of a workspace of the actor, or of any workspace for an
// administrator: its desired state becomes ARCHIVED. A workspace that is not deleted
// stays as it is. Undelete returns [ErrNotFound]; [ErrStale]; [ErrCollected] when it is too late;
// [ErrOperationInProgress]; and [*LimitError] for a workspace that still runs and whose
// place another one has taken.
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
