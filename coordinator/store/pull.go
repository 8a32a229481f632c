package store

import (
	"context"

	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/tracing"
	"github.com/codehub/gateway/coordinator/workspace"
)

// retryPullSQL writes a recovery without a choice to a workspace that waits for another attempt to pull its image, so
// that the controller tries again immediately. No trigger wakes the controller for that, so the statement does.
const retryPullSQL = `
WITH w AS (
	SELECT id, name, owner_user_id FROM workspaces
	WHERE id = @id AND deleted_at IS NULL AND (@all OR owner_user_id = @user) AND NOT ` + stale + `
		AND desired_state = 'RUNNING' AND waiting ->> 'reason' = 'PullingImage' AND waiting ->> 'cause' <> ''
	FOR UPDATE
), written AS (
	UPDATE workspaces SET recovery = @recovery::jsonb, origin = @origin::jsonb FROM w WHERE workspaces.id = w.id
	RETURNING pg_notify('ws_wake', json_build_object('id', w.id, 'owner', w.owner_user_id)::text)
), audit AS (
	` + audit.OfWorkspaces + `'workspace.start', NULL::jsonb FROM w
)
SELECT CASE WHEN EXISTS (SELECT FROM written) THEN 'changed' ELSE 'unchanged' END`

// RetryPull requests an immediate attempt to pull the image of a workspace that should run and is waiting for the next
// attempt. The requested attempt is named id. RetryPull returns the workspace afterwards. The outcome is [Unchanged],
// and nothing was written, if the workspace is not waiting for an attempt.
func (s *Store) RetryPull(ctx context.Context, v Viewer, id workspace.ID, attempt string) (workspace.Workspace, Outcome, error) {
	return s.change(ctx, "trying again to pull the image of workspace "+string(id), false, id, retryPullSQL, postgres.Args{
		"id": string(id), "all": v.All, "user": postgres.NullText(v.UserID), "if_revision": v.IfRevision,
		"recovery": workspace.Recovery{ID: attempt, Choice: workspace.RecoverRetry}, "origin": tracing.Origin(ctx), "by": audit.Of(ctx),
	})
}
