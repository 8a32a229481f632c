package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/workspace"
)

// ErrStale means that the workspace has none of the revisions in [Viewer]. Nothing was written.
var ErrStale = errors.New("the workspace has another revision")

// keepAwakeSQL decides and writes in one statement. Keeping a dozing workspace awake is a use, and needs a
// place. Changing the time would end the doze. So if the request is not a use, the time of a dozing workspace stays as
// it is.
const keepAwakeSQL = `
WITH w AS (
	SELECT id, name, owner_user_id, counted, revision, doze_at IS NOT NULL AS dozes, doze_at IS NOT NULL AND @for::interval > '0' AS thaws
	FROM workspaces
	WHERE id = @id AND deleted_at IS NULL AND (@all OR owner_user_id = @user) AND desired_state = 'RUNNING'
	FOR UPDATE
), decision AS (
	SELECT id, dozes, thaws, CASE
		WHEN ` + stale + ` THEN 'stale'
		WHEN counted OR NOT thaws THEN 'changed'
		WHEN NOT @takes_place::boolean THEN 'unchanged'` + overLimit + `
		ELSE 'changed' END AS outcome
	FROM w
), written AS (
	UPDATE workspaces SET
		keep_awake_until = CASE WHEN @for > '0' THEN now() + @for WHEN dozes THEN keep_awake_until END,
		doze_at = CASE WHEN NOT thaws THEN doze_at END,
		counted = counted OR thaws,
		last_access_at = CASE WHEN thaws THEN now() ELSE last_access_at END,
		last_input_at = CASE WHEN thaws AND @input THEN now() ELSE last_input_at END
	FROM decision WHERE workspaces.id = decision.id AND outcome = 'changed'
), history AS (
	INSERT INTO workspace_history (workspace_id, kind, cause, user_id)
	SELECT id, 'thawed', @cause, @user FROM decision WHERE outcome = 'changed' AND thaws
), audit AS (
	` + audit.OfWorkspaces + `'workspace.keep_awake',
		jsonb_build_object('seconds', EXTRACT(epoch FROM @for::interval)::bigint) FROM w JOIN decision USING (id) WHERE outcome = 'changed'
)
SELECT outcome FROM decision`

// KeepAwake keeps a running workspace awake for d from now, or stops keeping it awake if d is 0, and returns the
// workspace. It takes no place: a workspace that has given up its place is returned unchanged, and keeps dozing; see
// [Store.KeepAwakeWithin]. It returns [ErrNotFound] for a workspace that is deleted, invisible to v or not meant to
// run, and [ErrStale].
func (s *Store) KeepAwake(ctx context.Context, v Viewer, id workspace.ID, d time.Duration) (
	workspace.Workspace, error) {
	w, outcome, err := s.keepAwake(ctx, v, id, d, false, nil)
	if err == nil && outcome == Stale {
		err = ErrStale
	}
	return w, err
}

// KeepAwakeWithin is [Store.KeepAwake] for a workspace that may have given up its place. It takes a place, and the
// workspace resumes. The outcome is [Changed], [Stale], or the limit that leaves no place; then nothing was written.
// input means that a person in the workspace asked for it.
func (s *Store) KeepAwakeWithin(ctx context.Context, v Viewer, id workspace.ID, d time.Duration, input bool, l Limits) (
	workspace.Workspace, Outcome, error) {
	return s.keepAwake(ctx, v, id, d, input, &l)
}

func (s *Store) keepAwake(ctx context.Context, v Viewer, id workspace.ID, d time.Duration, input bool, limits *Limits) (
	workspace.Workspace, Outcome, error) {
	var l Limits
	if limits != nil {
		l = *limits
	}
	return s.change(ctx, fmt.Sprintf("keeping workspace %s awake", id), limits != nil, id, keepAwakeSQL, postgres.Args{
		"id": string(id), "all": v.All, "user": postgres.NullText(v.UserID), "for": d, "input": input, "cause": v.Through,
		"takes_place": limits != nil, "per_user": l.PerUser, "global": l.Global, "by": audit.Of(ctx),
		"if_revision": v.IfRevision,
	})
}
