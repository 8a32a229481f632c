package store

import (
	"cmp"
	"context"

	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/tracing"
	"github.com/codehub/gateway/coordinator/workspace"
)

// recoverSQL clears an error only if its reason is still @reason: the decision was based on that reason. If a limit is
// reached, the workspace is still recovered, but its desired state does not stay RUNNING. A workspace that is in use in
// a conflict (workspace.Workspace.InUseInConflict) already has its place.
const recoverSQL = `
WITH w AS (
	SELECT id, name, owner_user_id, desired_state, phase, @reason::text AS error_reason FROM workspaces
	WHERE id = @id AND NOT ` + stale + ` AND (phase = 'ERROR' AND error_reason = @reason
		OR @reason = 'Conflict' AND phase = 'RUNNING' AND operation = 'NONE' AND error_reason IS NULL
			AND deleted_at IS NULL AND waiting ->> 'reason' = 'Conflict')
	FOR UPDATE
), checked AS (
	SELECT id, desired_state AS was, error_reason, CASE
		WHEN desired_state <> 'RUNNING' OR phase = 'RUNNING' THEN 'none'` + overLimit + `
		ELSE 'none' END AS reached
	FROM w
), decision AS (
	SELECT id, was, error_reason, reached, CASE reached WHEN 'none' THEN was ELSE 'STANDBY' END AS desired FROM checked
), written AS (
	UPDATE workspaces SET error_reason = NULL, error_message = NULL, error_count = 0,
		recovery = @recovery::jsonb, desired_state = decision.desired,
		origin = CASE phase WHEN 'ERROR' THEN @origin::jsonb ELSE origin END
	FROM decision WHERE workspaces.id = decision.id
), history AS (
	INSERT INTO workspace_history (workspace_id, kind, old_value, new_value, message, cause, user_id)
	SELECT id, 'desired_state', was, desired, reached, @cause, @user::uuid FROM decision WHERE desired <> was
	UNION ALL
	SELECT id, 'recovered', error_reason, @recovery::jsonb ->> 'choice', @recovery::jsonb ->> 'key', @cause, @user::uuid
	FROM decision
), audit AS (
	` + audit.OfWorkspaces + `'workspace.recover', jsonb_strip_nulls(jsonb_build_object('reason', @reason::text,
		'choice', @recovery::jsonb ->> 'choice', 'archive', @recovery::jsonb ->> 'key'))
	FROM w
)
SELECT CASE WHEN EXISTS (SELECT FROM decision) THEN 'changed'
	WHEN EXISTS (SELECT FROM workspaces WHERE id = @id AND ` + stale + `) THEN 'stale' ELSE 'unchanged' END
WHERE EXISTS (SELECT FROM workspaces WHERE id = @id)`

// Recover clears the error of a workspace, deleted or not, whose phase is ERROR for that reason, or that is in
// use in a conflict. It writes the recovery that the controller then carries out; the next tick observes the
// workspace and computes its phase (SPEC 3). If the desired state is RUNNING and a limit is reached, the
// desired state becomes STANDBY. It returns the workspace afterwards. The outcome is [Unchanged], and nothing
// was written, if the phase or the reason has changed meanwhile.
func (s *Store) Recover(ctx context.Context, v Viewer, id workspace.ID, from workspace.ErrorReason,
	r workspace.Recovery, l Limits,
) (workspace.Workspace, Outcome, error) {
	return s.change(ctx, "recovering workspace "+string(id), true, id, recoverSQL, postgres.Args{
		"per_user": l.PerUser, "global": l.Global, "id": string(id), "reason": string(from), "recovery": r,
		"cause": v.Through, "user": postgres.NullText(v.UserID), "by": audit.Of(ctx), "origin": tracing.Origin(ctx),
		"if_revision": v.IfRevision,
	})
}

const failedSQL = `SELECT id FROM workspaces
	WHERE phase = 'ERROR' AND error_reason = $1 AND deleted_at IS NULL AND id > $2 ORDER BY id LIMIT $3`

// Failed returns at most limit workspaces that are not deleted and whose phase is ERROR for that reason. It returns, in
// the order of their ids, those that follow the id after; an empty after starts at the beginning.
func (s *Store) Failed(ctx context.Context, reason workspace.ErrorReason, after workspace.ID, limit int) (
	[]workspace.ID, error) {
	return s.ids(ctx, "reading workspaces in ERROR", failedSQL, string(reason), string(cmp.Or(after, noID)), limit)
}
