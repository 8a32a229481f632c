package service

import (
	"context"
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
)

// SetPageActivity records whether the workspace's pages report people's input. A gateway has found this out. It is not
// in the history, because no user has asked for it.
func (s *Service) SetPageActivity(ctx context.Context, id workspace.ID, activity workspace.PageActivity) error {
	return s.store.SetPageActivity(ctx, id, activity)
}

// MaxKeepAwake is the longest time for which [Service.KeepAwake] keeps a workspace awake; 0 means that KeepAwake is
// refused.
func (s *Service) MaxKeepAwake() time.Duration { return time.Duration(s.maxKeepAwake.Load()) }

// WorkCap is the longest time for which work without a person keeps a workspace awake.
func (s *Service) WorkCap() time.Duration { return s.delays.Load().WorkCap }
