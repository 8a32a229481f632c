package service

import (
	"context"
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
)

// SetPageActivity records how people are told from machinery in the workspace's pages, as a
// gateway has found out. No user has asked for it, so it is not in the history.
func (s *Service) SetPageActivity(ctx context.Context, id workspace.ID, activity workspace.PageActivity) error {
	return s.store.SetPageActivity(ctx, id, activity)
}

// MaxKeepAwake is the longest time for which [Service.KeepAwake] keeps a workspace awake; 0
// when it refuses that.
func (s *Service) MaxKeepAwake() time.Duration { return time.Duration(s.maxKeepAwake.Load()) }

// WorkCap is how long a workspace stays awake at most by what goes on in it by itself.
func (s *Service) WorkCap() time.Duration { return s.delays.Load().WorkCap }
