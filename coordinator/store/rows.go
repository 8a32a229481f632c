package store

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/workspace"
)

// workspaceColumns are the columns of a [row].
const workspaceColumns = `id, owner_user_id, name, description, memo, image_ref, git_url, instance_backend, storage_backend,
	desired_state, phase, phase_changed_at, operation, op_started_at, conditions, observed_at, home_ctx,
	endpoint, base_path, archive_op_id, archive_key, archive_damage, archive_suspected, archive_verified_at,
	error_reason, error_message, error_count, waiting, progress, recovery, revert, origin,
	home_bytes, home_files, home_at_least, home_measured_at,
	last_access_at, keep_awake_until, favourite, busy, sleep_at, doze_at, page_activity,
	created_at, updated_at, deleted_at, delete_now, awaits_gc, collected_at, revision`

// row is a workspace as stored in its columns.
type row struct {
	workspace.Workspace
	workspace.HomeSize
}

// scanWorkspace reads one [row].
func scanWorkspace(from pgx.CollectableRow) (workspace.Workspace, error) {
	r, err := postgres.RowToStruct[row](from)
	r.Home = r.HomeSize
	return r.Workspace, err
}

// texts converts ids to a value that PostgreSQL accepts for uuid[].
func texts(ids []workspace.ID) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = string(id)
	}
	return out
}

// workspaces runs a query that selects [workspaceColumns].
func (s *Store) workspaces(ctx context.Context, doing, sql string, args ...any) ([]workspace.Workspace, error) {
	return postgres.Select(ctx, s.DB, doing, scanWorkspace, sql, args...)
}

// ids runs a query that selects ids.
func (s *Store) ids(ctx context.Context, doing, sql string, args ...any) ([]workspace.ID, error) {
	return postgres.Select(ctx, s.DB, doing, pgx.RowTo[workspace.ID], sql, args...)
}
