package store

import (
	"context"
	"fmt"
	"time"

	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/workspace"
)

// dozeSQL lets a workspace doze if nothing changed since the decision. Only the leader runs it, for one workspace after
// the other. So no other statement adds dozing workspaces at the same time. The only exception is the previous leader's
// last statement; because of it, one workspace too many may doze.
const dozeSQL = `
WITH written AS (
	UPDATE workspaces w SET doze_at = now()
	WHERE id = @id AND ` + runs + ` AND doze_at IS NULL AND busy IS NULL
		AND ` + quietSince + ` <= @unused_since AND COALESCE(keep_awake_until, '-infinity') <= now()
		AND (@per_user::int <= 0 OR @per_user >
			(SELECT count(*) FROM workspaces c WHERE c.doze_at IS NOT NULL AND c.owner_user_id = w.owner_user_id))
		AND (@global::int <= 0 OR @global > (SELECT count(*) FROM workspaces c WHERE c.doze_at IS NOT NULL))
	RETURNING id
), history AS (
	INSERT INTO workspace_history (workspace_id, kind, cause) SELECT id, 'dozed', 'ttl' FROM written
)
SELECT FROM written`

// Doze lets the workspace doze if it still runs, was not used after unusedSince, and is neither busy nor kept
// awake. It reports whether it did. If one more dozing workspace would exceed the limits, it does nothing.
func (s *Store) Doze(ctx context.Context, id workspace.ID, unusedSince time.Time, l DozingLimits) (bool, error) {
	n, err := s.Exec(ctx, fmt.Sprintf("letting workspace %s doze", id), dozeSQL, postgres.Args{
		"id": string(id), "unused_since": unusedSince, "per_user": l.PerUser, "global": l.Global,
	})
	return n == 1, err
}

// unmade selects the dozes that began longer than @limit ago and whose containers are still not frozen.
const unmade = `doze_at < now() - @limit::interval AND NOT ` + frozen

// unmadeWhy is the history's reason for ending a doze whose container was never frozen.
const unmadeWhy = "its container could not be frozen"

// EndUnmadeDozes ends the dozes that began longer than limit ago and whose containers are still not frozen: either the
// engine cannot freeze containers, or these containers are not suitable. It returns the ids of the workspaces.
func (s *Store) EndUnmadeDozes(ctx context.Context, limit time.Duration) ([]workspace.ID, error) {
	return s.ids(ctx, "ending the dozes that were not made", `
		WITH written AS (
			UPDATE workspaces SET doze_at = NULL WHERE `+unmade+` RETURNING id, desired_state
		), history AS (
			INSERT INTO workspace_history (workspace_id, kind, cause, message)
			SELECT id, 'thawed', 'ttl', @why FROM written WHERE desired_state = 'RUNNING'
		)
		SELECT id FROM written`, postgres.Args{"limit": limit, "why": unmadeWhy})
}

// EndDozes ends all dozes, as when dozing is switched off. A workspace that has kept its place resumes; any other goes
// to STANDBY: see [Limited].
func (s *Store) EndDozes(ctx context.Context) error {
	_, err := s.Exec(ctx, "ending what dozes", `
		WITH written AS (UPDATE workspaces SET doze_at = NULL WHERE doze_at IS NOT NULL RETURNING id, desired_state)
		INSERT INTO workspace_history (workspace_id, kind, cause) SELECT id, 'thawed', 'ttl' FROM written WHERE desired_state = 'RUNNING'`)
	return err
}
