package store

import (
	"context"

	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/tracing"
	"github.com/codehub/gateway/coordinator/workspace"
)

// deleteSQL also accepts a workspace that is already deleted. For its owner, this is possible as long as the workspace
// can be undeleted; for a viewer who sees all, always. Then it only gives up what the deletion keeps (@now). That does
// not change the desired state, so an operation in progress does not matter. Owners can give up only what they deleted
// before.
const deleteSQL = `
WITH w AS (
	SELECT id, name, owner_user_id, operation, waiting, phase, desired_state, deleted_at, delete_now, revision FROM workspaces
	WHERE id = @id AND (@all OR owner_user_id = @user) AND (deleted_at IS NULL OR @now AND (@all OR ` + undeletable + `))
	FOR UPDATE
), decision AS (
	SELECT id, desired_state AS was, CASE
		WHEN ` + stale + ` THEN 'stale'
		WHEN deleted_at IS NOT NULL AND (delete_now OR phase = 'DELETED') THEN 'unchanged'
		WHEN deleted_at IS NULL AND @now AND NOT @all THEN 'forbidden'
		WHEN deleted_at IS NULL AND ` + busy + ` THEN 'busy'
		ELSE 'changed' END AS outcome
	FROM w
), written AS (
	UPDATE workspaces SET desired_state = 'DELETED', deleted_at = COALESCE(deleted_at, now()), delete_now = @now,
		origin = @origin::jsonb
	FROM decision WHERE workspaces.id = decision.id AND outcome = 'changed'
), history AS (
	INSERT INTO workspace_history (workspace_id, kind, old_value, new_value, cause, user_id)
	SELECT id, 'deleted', was, CASE WHEN @now THEN 'now' END, @cause, @user FROM decision WHERE outcome = 'changed'
), audit AS (
	` + audit.OfWorkspaces + `'workspace.delete', CASE WHEN @now THEN jsonb_build_object('now', true) END
	FROM w JOIN decision USING (id) WHERE outcome = 'changed'
)
SELECT outcome FROM decision`

// Delete marks the workspace deleted and sets the desired state DELETED. With now, it also gives up what the deletion
// would keep for a time, even if the workspace was deleted before. If the viewer is the owner and the workspace was not
// deleted before, the outcome is then [Forbidden]. It returns [ErrNotFound] like [Store.Update]; otherwise the outcome
// is [Changed], [Busy], [Stale] or, with now, [Unchanged].
func (s *Store) Delete(ctx context.Context, v Viewer, id workspace.ID, now bool) (Outcome, error) {
	_, outcome, err := s.change(ctx, "deleting workspace "+string(id), false, id, deleteSQL, postgres.Args{
		"id": string(id), "all": v.All, "user": postgres.NullText(v.UserID), "now": now, "cause": v.Through,
		"if_revision": v.IfRevision,
		"by":          audit.Of(ctx), "origin": tracing.Origin(ctx),
	})
	return outcome, err
}

// undeleteSQL undoes a deletion while its archive job waits for external resources, but during no other step of
// the deletion. It checks the limits on running workspaces only if the deleted workspace still runs: the
// deletion has given up its place, and the undeletion takes it again.
const undeleteSQL = `
WITH w AS (
	SELECT id, name, owner_user_id, operation, waiting, phase, deleted_at, collected_at, revision FROM workspaces
	WHERE id = @id AND (@all OR owner_user_id = @user)
	FOR UPDATE
), decision AS (
	SELECT id, CASE
		WHEN ` + stale + ` THEN 'stale'
		WHEN deleted_at IS NULL THEN 'unchanged'
		WHEN collected_at IS NOT NULL OR phase = 'DELETED' THEN 'collected'
		WHEN ` + busy + ` OR operation NOT IN ('NONE', 'ARCHIVING') THEN 'busy'` + tooMany + `
		WHEN phase <> 'RUNNING' THEN 'changed'` + overLimit + `
		ELSE 'changed' END AS outcome
	FROM w
), written AS (
	UPDATE workspaces SET desired_state = 'ARCHIVED', deleted_at = NULL, delete_now = false, origin = @origin::jsonb
	FROM decision WHERE workspaces.id = decision.id AND outcome = 'changed'
), history AS (
	INSERT INTO workspace_history (workspace_id, kind, new_value, cause, user_id)
	SELECT id, 'undeleted', 'ARCHIVED', @cause, @user FROM decision WHERE outcome = 'changed'
), audit AS (
	` + audit.OfWorkspaces + `'workspace.undelete', NULL::jsonb
	FROM w JOIN decision USING (id) WHERE outcome = 'changed'
)
SELECT outcome FROM decision`

// Undelete undoes the deletion of a workspace, sets the desired state ARCHIVED, and returns the workspace
// afterwards. The outcome is [Changed], [Collected] when it is too late, [Busy], [Stale], or, for a workspace that
// still runs, a limit. It is [Unchanged] for a workspace that is not deleted. It returns [ErrNotFound] if v may not see
// the workspace.
func (s *Store) Undelete(ctx context.Context, v Viewer, id workspace.ID, l Limits) (
	workspace.Workspace, Outcome, error) {
	return s.change(ctx, "undeleting workspace "+string(id), true, id, undeleteSQL, postgres.Args{
		"per_user": l.PerUser, "global": l.Global, "workspaces": l.Workspaces,
		"id": string(id), "all": v.All, "user": postgres.NullText(v.UserID), "cause": v.Through,
		"by": audit.Of(ctx), "origin": tracing.Origin(ctx), "if_revision": v.IfRevision,
	})
}

// undeletable is the condition of the index workspaces_undeletable.
const undeletable = `deleted_at IS NOT NULL AND collected_at IS NULL AND phase <> 'DELETED'`

// keptBytes is the space that a deleted workspace takes up: its recorded archives in the object store, and its
// home while it has a volume.
const keptBytes = `((SELECT COALESCE(sum(a.size), 0) FROM archives a WHERE a.workspace_id = workspaces.id)
	+ CASE WHEN conditions -> 'storage.volume_ready' ->> 'status' = 'True' THEN COALESCE(home_bytes, 0) ELSE 0 END)`
