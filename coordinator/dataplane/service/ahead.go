package service

import (
	"context"

	"github.com/codehub/gateway/coordinator/metrics"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
)

// StartAhead changes the desired state of a workspace to RUNNING before its owner comes (SPEC 15), and reports whether it
// did. The statement that writes checks that the workspace is at rest, that its owner lets it be started ahead and did not
// come on that day, that this is the first start ahead of the day, and that the limits leave room for people.
// Otherwise StartAhead returns false and changes nothing.
func (s *Service) StartAhead(ctx context.Context, id workspace.ID, a store.Ahead) (bool, error) {
	by := Actor{Kind: string(metrics.CausePrediction)}
	outcome, err := s.store.StartAhead(ctx, id, a, by.through(), s.storeLimits())
	if outcome != store.Changed || err != nil {
		return false, err
	}
	s.logChange(ctx, "workspace started ahead of its owner", by, id, workspace.DesiredRunning)
	return true, nil
}
