package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/workspace"
)

// workspaceColumns is what [scanWorkspace] reads, in its order.
const workspaceColumns = `id, owner_user_id, name, description, memo, image_ref,
	instance_backend, storage_backend, home_ctx,
	conditions, observed_at, phase, phase_changed_at, operation, op_started_at,
	archive_op_id::text, archive_key, endpoint, error_reason, error_message, error_count,
	desired_state, last_access_at, created_at, updated_at, deleted_at,
	waiting, awaits_gc, recovery, delete_now, collected_at,
	base_path, keep_awake_until, busy, sleep_at, page_activity,
	progress, home_bytes, home_files, home_measured_at, home_at_least, archive_damage, archive_suspected,
	archive_verified_at, revert, revision`

// texts converts ids to a value that PostgreSQL accepts for uuid[].
func texts(ids []workspace.ID) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = string(id)
	}
	return out
}

// scanWorkspace reads one row of [workspaceColumns].
func scanWorkspace(row pgx.CollectableRow) (workspace.Workspace, error) {
	var w workspace.Workspace
	err := row.Scan(&w.ID, &w.OwnerID, &w.Name, (*postgres.Text)(&w.Description), (*postgres.Text)(&w.Memo), (*postgres.Text)(&w.ImageRef),
		&w.InstanceBackend, &w.StorageBackend, &w.HomeCtx,
		&w.Conditions, (*postgres.Instant)(&w.ObservedAt), &w.Phase, (*postgres.Instant)(&w.PhaseChangedAt), &w.Operation, (*postgres.Instant)(&w.OpStartedAt),
		(*postgres.Text)(&w.ArchiveOpID), (*postgres.Text)(&w.ArchiveKey), (*postgres.Text)(&w.Endpoint), (*postgres.Text)(&w.ErrorReason), (*postgres.Text)(&w.ErrorMessage), &w.ErrorCount,
		&w.DesiredState, (*postgres.Instant)(&w.LastAccessAt), (*postgres.Instant)(&w.CreatedAt), (*postgres.Instant)(&w.UpdatedAt), (*postgres.Instant)(&w.DeletedAt),
		&w.Waiting, &w.AwaitsGC, &w.Recovery, &w.DeleteNow, (*postgres.Instant)(&w.CollectedAt),
		(*postgres.Text)(&w.BasePath), (*postgres.Instant)(&w.KeepAwakeUntil), &w.Busy, (*postgres.Instant)(&w.SleepAt), (*postgres.Text)(&w.PageActivity),
		&w.Progress, (*postgres.Number)(&w.Home.Bytes), (*postgres.Number)(&w.Home.Files), (*postgres.Instant)(&w.Home.MeasuredAt), &w.Home.AtLeast,
		(*postgres.Text)(&w.ArchiveDamage), &w.ArchiveSuspected,
		(*postgres.Instant)(&w.ArchiveVerifiedAt), &w.Revert, &w.Revision)
	return w, err
}

// workspaces runs a query that selects [workspaceColumns].
func (s *Store) workspaces(ctx context.Context, doing, sql string, args ...any) ([]workspace.Workspace, error) {
	rows, err := s.pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	out, err := pgx.CollectRows(rows, scanWorkspace)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	return out, nil
}

// ids runs a query that selects ids.
func (s *Store) ids(ctx context.Context, doing, sql string, args ...any) ([]workspace.ID, error) {
	rows, err := s.pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowTo[workspace.ID])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	return out, nil
}
