package store

import (
	"context"
	"fmt"
	"time"

	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/workspace"
)

// adoptSQL inserts the row of a workspace that exists except for its row.
const adoptSQL = `
WITH u AS (
	SELECT id FROM users WHERE lower(username) = lower(@owner)
), written AS (
	INSERT INTO workspaces (id, owner_user_id, name, phase, desired_state, archive_key, home_ctx, created_at,
		instance_backend, storage_backend, home_store_key)
	SELECT @id::uuid, u.id, @name::text, @phase::text, 'ARCHIVED', @key::text, @home_ctx::jsonb,
		COALESCE(@created::timestamptz, now()), @instance_backend::text, @storage_backend::text, @home_store_key::text
	FROM u ON CONFLICT (id) DO NOTHING
	RETURNING id, name, owner_user_id, desired_state, archive_key
), history AS (
	INSERT INTO workspace_history (workspace_id, kind, new_value, message, cause, user_id)
	SELECT id, 'created', desired_state, archive_key, @cause::text, owner_user_id FROM written
), audit AS (
	` + audit.OfWorkspaces + `'workspace.create', jsonb_strip_nulls(jsonb_build_object('desired_state', desired_state,
		'archive', archive_key)) FROM written
)
SELECT EXISTS (SELECT FROM u), EXISTS (SELECT FROM written)`

// Adopt adds the missing row of an existing workspace. It uses the id, the name, the phase, the archive key,
// the home context and the backends of w. The time of the row's creation is w.CreatedAt, or the present if that is
// zero. It returns [ErrNotFound] if no user is named owner. added is false if the row exists already.
func (s *Store) Adopt(ctx context.Context, w workspace.Workspace, owner string, through audit.Through) (added bool, err error) {
	var created *time.Time
	if !w.CreatedAt.IsZero() {
		created = &w.CreatedAt
	}
	var found bool
	err = s.pool.QueryRow(ctx, adoptSQL, postgres.Args{
		"id": string(w.ID), "owner": owner, "name": w.Name, "phase": string(w.Phase), "key": postgres.NullText(w.ArchiveKey),
		"home_ctx": w.HomeCtx, "created": created, "instance_backend": w.InstanceBackend,
		"storage_backend": w.StorageBackend, "home_store_key": w.ID.VolumeName(), "cause": through,
		"by": audit.Of(ctx),
	}).Scan(&found, &added)
	switch {
	case err != nil:
		return false, fmt.Errorf("adopting workspace %s: %w", w.ID, err)
	case !found:
		return false, postgres.ErrNotFound
	}
	return added, nil
}
