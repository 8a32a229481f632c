package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

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

// text reads NULL as the empty string.
type text string

// ScanText implements [pgtype.TextScanner].
func (t *text) ScanText(v pgtype.Text) error {
	*t = text(v.String)
	return nil
}

// instant reads NULL as the zero time, and everything else in UTC.
type instant time.Time

// ScanTimestamptz implements [pgtype.TimestamptzScanner].
func (t *instant) ScanTimestamptz(v pgtype.Timestamptz) error {
	if !v.Valid {
		*t = instant{}
		return nil
	}
	*t = instant(v.Time.UTC())
	return nil
}

// number reads NULL as 0.
type number int64

// ScanInt64 implements [pgtype.Int64Scanner].
func (n *number) ScanInt64(v pgtype.Int8) error {
	*n = number(v.Int64)
	return nil
}

// nullText and nullTime write the empty string and the zero time as NULL.
func nullText[T ~string](s T) *string {
	if s == "" {
		return nil
	}
	v := string(s)
	return &v
}

func nullTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

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
	err := row.Scan(&w.ID, &w.OwnerID, &w.Name, (*text)(&w.Description), (*text)(&w.Memo), (*text)(&w.ImageRef),
		&w.InstanceBackend, &w.StorageBackend, &w.HomeCtx,
		&w.Conditions, (*instant)(&w.ObservedAt), &w.Phase, (*instant)(&w.PhaseChangedAt), &w.Operation, (*instant)(&w.OpStartedAt),
		(*text)(&w.ArchiveOpID), (*text)(&w.ArchiveKey), (*text)(&w.Endpoint), (*text)(&w.ErrorReason), (*text)(&w.ErrorMessage), &w.ErrorCount,
		&w.DesiredState, (*instant)(&w.LastAccessAt), (*instant)(&w.CreatedAt), (*instant)(&w.UpdatedAt), (*instant)(&w.DeletedAt),
		&w.Waiting, &w.AwaitsGC, &w.Recovery, &w.DeleteNow, (*instant)(&w.CollectedAt),
		(*text)(&w.BasePath), (*instant)(&w.KeepAwakeUntil), &w.Busy, (*instant)(&w.SleepAt), (*text)(&w.PageActivity),
		&w.Progress, (*number)(&w.Home.Bytes), (*number)(&w.Home.Files), (*instant)(&w.Home.MeasuredAt), &w.Home.AtLeast,
		(*text)(&w.ArchiveDamage), &w.ArchiveSuspected,
		(*instant)(&w.ArchiveVerifiedAt), &w.Revert, &w.Revision)
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
