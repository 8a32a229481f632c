package service

import (
	"context"

	"github.com/codehub/gateway/coordinator/dataplane/explain"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/words"
	"github.com/codehub/gateway/coordinator/workspace"
)

// SetDelays changes the delays in explanations.
func (s *Service) SetDelays(d explain.Delays) { s.delays.Store(&d) }

// Delays returns the delays in explanations.
func (s *Service) Delays() explain.Delays { return *s.delays.Load() }

// visible returns a workspace that the actor may read about. Actors also see their own deleted workspaces while the
// deletion can be undone.
func (s *Service) visible(ctx context.Context, a Actor, id workspace.ID) (workspace.Workspace, error) {
	if !valid(a, id) {
		return workspace.Workspace{}, ErrNotFound
	}
	v := a.viewer()
	v.Deleted = true
	w, err := s.store.Get(ctx, v, id)
	return w, translate(err)
}

// History returns at most limit transitions of a workspace, newest first, that are older than the transition with the
// id before; 0 begins with the newest. Only administrators get the messages of servers. A limit of 0 means
// [DefaultPage]. It returns [ErrNotFound], and [*InvalidError] for other values of limit and before.
func (s *Service) History(
	ctx context.Context, a Actor, id workspace.ID, limit int, before int64,
) ([]store.Transition, error) {
	limit, err := pageSize(limit)
	if err != nil {
		return nil, err
	}
	if before < 0 {
		return nil, &InvalidError{"before", words.Of("problem.rule.before", nil)}
	}
	if _, err := s.visible(ctx, a, id); err != nil {
		return nil, err
	}
	found, err := s.store.History(ctx, id, limit, before)
	if err != nil || a.Admin {
		return found, err
	}
	return explain.OwnersHistory(found), nil
}

// Events is [Service.History] for all workspaces. Only administrators may call it ([ErrForbidden]).
func (s *Service) Events(ctx context.Context, a Actor, limit int, before int64) ([]store.Event, error) {
	limit, err := pageSize(limit)
	switch {
	case !a.Admin:
		return nil, ErrForbidden
	case err != nil:
		return nil, err
	case before < 0:
		return nil, &InvalidError{"before", words.Of("problem.rule.before", nil)}
	}
	return s.store.Events(ctx, limit, before)
}

// explained is the number of transitions that an explanation considers.
const explained = 200

// Explain explains the state of a workspace and the next events. Only administrators get the messages of servers. It
// returns [ErrNotFound].
func (s *Service) Explain(ctx context.Context, a Actor, id workspace.ID) (explain.Explanation, error) {
	w, err := s.visible(ctx, a, id)
	if err != nil {
		return explain.Explanation{}, err
	}
	history, err := s.store.History(ctx, id, explained, 0)
	if err != nil {
		return explain.Explanation{}, err
	}
	now, err := s.store.Now(ctx)
	if err != nil {
		return explain.Explanation{}, err
	}
	e := explain.Explain(now, w, *s.delays.Load(), history)
	if !a.Admin {
		e = e.ForOwner()
	}
	return e, nil
}
