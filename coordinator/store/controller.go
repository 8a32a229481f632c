package store

import (
	"cmp"
	"context"
	"fmt"
	"reflect"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/workspace"
)

// inShard selects the rows of @shard of @shards. The query planner assumes that a plain remainder matches one
// row in 200, regardless of the number of shards, and would then sort the whole table for a page of the sweep.
// For a CASE it assumes one in two.
const inShard = `CASE slot % @shards WHEN @shard THEN true END`

// endsWhenReady selects the rows with an error that clears itself once the container is ready, see
// [workspace.ErrorReason.EndsWhenReady].
const endsWhenReady = `phase = 'ERROR' AND error_reason IN ('Timeout', 'RetryExceeded', 'ImagePullFailed')
	AND desired_state = 'RUNNING' AND deleted_at IS NULL`

const (
	candidatesSQL = `SELECT ` + workspaceColumns + `
		FROM workspaces WHERE (watched OR ` + endsWhenReady + `) AND ` + inShard
	transitionalSQL = `SELECT ` + workspaceColumns + ` FROM workspaces WHERE in_transition AND ` + inShard
	sweepSQL        = `SELECT ` + workspaceColumns + ` FROM workspaces
		WHERE (phase = 'STANDBY' OR awaits_gc) AND ` + inShard + ` AND id > @after ORDER BY id LIMIT @limit`
)

// Candidates returns the workspaces of a shard that a tick must observe (SPEC 12.7):
//   - with an operation in progress, or a phase that is not the desired one,
//   - RUNNING, as a container can exit by itself,
//   - in ERROR, if recovered, or if the reason is not terminal or clears once the container is ready,
//   - deleted ones, until only an archive is left.
//
// With transitionOnly, it returns only the workspaces that are about to change. The others change only when their
// containers or volumes do. It reads no other rows (SPEC 4): the rules are the generated columns watched and
// in_transition of the schema.
func (s *Store) Candidates(ctx context.Context, shard, shards int, transitionOnly bool) ([]workspace.Workspace, error) {
	sql := candidatesSQL
	if transitionOnly {
		sql = transitionalSQL
	}
	return s.workspaces(ctx, "reading candidates", sql, postgres.Args{"shard": shard, "shards": shards})
}

// SweepPage returns the workspaces of a shard that ticks skip although they may change from outside: those in
// STANDBY, whose volume can disappear, and deleted ones with an archive left. It returns at most limit that
// follow after, in the order of their ids; an empty after starts at the beginning.
func (s *Store) SweepPage(ctx context.Context, shard, shards int, after workspace.ID, limit int) (
	[]workspace.Workspace, error,
) {
	return s.workspaces(ctx, "reading workspaces to sweep", sweepSQL, postgres.Args{
		"shard": shard, "shards": shards, "after": string(cmp.Or(after, noID)), "limit": limit,
	})
}

// noID precedes every id.
const noID workspace.ID = "00000000-0000-0000-0000-000000000000"

// Workspaces returns the rows of ids, deleted ones included, in no particular order. Ids without a row are
// omitted.
func (s *Store) Workspaces(ctx context.Context, ids []workspace.ID) ([]workspace.Workspace, error) {
	return s.workspaces(ctx, "reading workspaces",
		`SELECT `+workspaceColumns+` FROM workspaces WHERE id = ANY($1::uuid[])`, texts(ids))
}

// saveSQL reads the fence FOR SHARE. So a new leader cannot write its epoch while writes are in progress. A write that
// has waited for a new leader's epoch affects no row.
const saveSQL = `
WITH fence AS (
	SELECT FROM system_locks WHERE lock_name = @lock AND epoch = @epoch FOR SHARE
), saved AS (
	UPDATE workspaces w SET
		conditions = (w.conditions - @conditions_gone::text[]) || @conditions, observed_at = @observed_at,
		phase = @phase, phase_changed_at = CASE WHEN w.phase <> @phase THEN COALESCE(@phase_changed_at, now())
			ELSE w.phase_changed_at END,
		operation = @operation, op_started_at = @op_started_at,
		archive_op_id = @archive_op_id, archive_key = @archive_key,
		home_ctx = (w.home_ctx - @home_ctx_gone::text[]) || @home_ctx,
		endpoint = @endpoint, base_path = @base_path,
		error_reason = @error_reason, error_message = @error_message, error_count = @error_count,
		counted = w.counted OR @takes_place::boolean AND ` + hasRoom + `,
		awaits_gc = @awaits_gc AND w.deleted_at IS NOT NULL,
		waiting = CASE WHEN @waiting_changed THEN @waiting ELSE w.waiting END,
		progress = CASE WHEN @progress_changed THEN @progress ELSE w.progress END,
		home_bytes = CASE WHEN @measured THEN @home_bytes ELSE w.home_bytes END,
		home_files = CASE WHEN @measured THEN @home_files ELSE w.home_files END,
		home_measured_at = CASE WHEN @measured THEN @home_measured_at ELSE w.home_measured_at END,
		home_at_least = CASE WHEN @measured THEN @home_at_least ELSE w.home_at_least END,
		archive_damage = CASE WHEN @verified THEN NULL
			WHEN w.archive_key IS NOT DISTINCT FROM @archive_key THEN w.archive_damage
			ELSE (SELECT damage FROM archives a WHERE a.workspace_id = w.id AND a.key = @archive_key) END,
		archive_suspected = CASE WHEN @verified THEN false
			WHEN w.archive_key IS NOT DISTINCT FROM @archive_key THEN w.archive_suspected
			ELSE EXISTS (SELECT FROM archives a
				WHERE a.workspace_id = w.id AND a.key = @archive_key AND a.suspected_at IS NOT NULL) END,
		archive_verified_at = CASE WHEN @verified THEN now()
			WHEN w.archive_key IS NOT DISTINCT FROM @archive_key THEN w.archive_verified_at
			ELSE (SELECT verified_at FROM archives a WHERE a.workspace_id = w.id AND a.key = @archive_key) END
	FROM fence
	WHERE w.id = @id
		AND w.operation = @was_operation AND w.op_started_at IS NOT DISTINCT FROM @was_op_started_at
		AND w.desired_state = @desired_state AND w.deleted_at IS NOT DISTINCT FROM @deleted_at
		AND w.phase = @was_phase
		AND w.error_reason IS NOT DISTINCT FROM @was_error_reason AND w.error_count = @was_error_count
	RETURNING w.id
), archived AS (
	INSERT INTO archives AS a (workspace_id, key, size, content_bytes, files, sha256, verified_at)
	SELECT saved.id, @archive_key, @size, @content_bytes, @files, @sha256, CASE WHEN @verified THEN now() END
	FROM saved WHERE @archived
	ON CONFLICT (workspace_id, key) DO UPDATE SET
		size = COALESCE(NULLIF(EXCLUDED.size, 0), a.size),
		content_bytes = COALESCE(EXCLUDED.content_bytes, a.content_bytes),
		files = COALESCE(EXCLUDED.files, a.files),
		sha256 = COALESCE(EXCLUDED.sha256, a.sha256),
		verified_at = COALESCE(EXCLUDED.verified_at, a.verified_at),
		damage = CASE WHEN @verified THEN NULL ELSE a.damage END,
		suspected_at = CASE WHEN @verified THEN NULL ELSE a.suspected_at END
), history AS (
	INSERT INTO workspace_history (workspace_id, kind, old_value, new_value, message, cause, lock_name, epoch)
	SELECT saved.id, h.kind, h.old_value, h.new_value, h.message, 'controller', @lock, @epoch
	FROM saved, unnest(@kinds::text[], @old_values::text[], @new_values::text[], @messages::text[])
		AS h (kind, old_value, new_value, message)
)
SELECT FROM saved`

// Save replaces the controller's columns (SPEC 4) of prev with those of next, and records the transitions among
// them, in one statement. It writes only if the row still has the operation, op_started_at, desired_state,
// deleted_at, phase, error_reason and error_count of prev, and the epoch is still f's. Otherwise the row has
// changed or another process leads: saved is false, nothing was written, and the caller decides again on a new
// observation. The column phase_changed_at is written only when the phase changes. The size of the home is
// written only if it differs between prev and next: a size that [Store.SaveHome] has written meanwhile stays.
// Save writes even if next equals prev.
//
// Of the JSON columns it writes only the members that differ between prev and next. Members that a newer
// release has added stay (SPEC 12.14).
//
// If archived is not nil, the same statement records it as the description of the archive at next's archive_key. The
// damage of that archive and the time of its verification come from the table of archives.
func (s *Store) Save(ctx context.Context, f postgres.Fence, prev, next workspace.Workspace,
	archived *workspace.ArchiveRecord,
) (saved bool, err error) {
	return s.save(ctx, f, prev, next, archived, nil)
}

// save is [Store.Save]. With limits, the workspace takes a place if they allow it.
func (s *Store) save(ctx context.Context, f postgres.Fence, prev, next workspace.Workspace,
	archived *workspace.ArchiveRecord, limits *Limits,
) (saved bool, err error) {
	conditions, noConditions, err := changes(prev.Conditions, next.Conditions)
	if err != nil {
		return false, fmt.Errorf("saving the conditions of workspace %s: %w", prev.ID, err)
	}
	home, noHome, err := changes(prev.HomeCtx, next.HomeCtx)
	if err != nil {
		return false, fmt.Errorf("saving the home context of workspace %s: %w", prev.ID, err)
	}
	var record workspace.ArchiveRecord
	if archived != nil {
		record = *archived
	}
	kinds, from, to, messages := columns(controllerHistory(prev, next))
	batch := &pgx.Batch{}
	if limits != nil {
		done, err := s.countRunning(ctx, batch)
		if err != nil {
			return false, err
		}
		defer done()
	}
	room := cmp.Or(limits, &Limits{})
	batch.Queue(saveSQL, postgres.Args{
		"lock": f.Lock, "epoch": f.Epoch, "id": string(prev.ID),
		"takes_place": limits != nil, "per_user": room.PerUser, "global": room.Global,
		// The state that the row must still have.
		"was_operation": string(prev.Operation), "was_op_started_at": postgres.NullTime(prev.OpStartedAt),
		"desired_state": string(prev.DesiredState), "deleted_at": postgres.NullTime(prev.DeletedAt),
		"was_phase": string(prev.Phase), "was_error_reason": postgres.NullText(prev.ErrorReason),
		"was_error_count": prev.ErrorCount,
		// The new state.
		"conditions": conditions, "conditions_gone": noConditions, "observed_at": postgres.NullTime(next.ObservedAt),
		"phase": string(next.Phase), "phase_changed_at": postgres.NullTime(next.PhaseChangedAt),
		"operation": string(next.Operation), "op_started_at": postgres.NullTime(next.OpStartedAt),
		"archive_op_id": postgres.NullText(next.ArchiveOpID), "archive_key": postgres.NullText(next.ArchiveKey),
		"home_ctx": home, "home_ctx_gone": noHome,
		"endpoint": postgres.NullText(next.Endpoint), "base_path": postgres.NullText(next.BasePath),
		"error_reason": postgres.NullText(next.ErrorReason), "error_message": postgres.NullText(next.ErrorMessage),
		"error_count": next.ErrorCount, "awaits_gc": next.AwaitsGC,
		"waiting": next.Waiting, "waiting_changed": !reflect.DeepEqual(prev.Waiting, next.Waiting),
		"progress": next.Progress, "progress_changed": !reflect.DeepEqual(prev.Progress, next.Progress),
		"measured": next.Home != prev.Home, "home_measured_at": postgres.NullTime(next.Home.MeasuredAt),
		"home_bytes": homeNumber(next.Home, next.Home.Bytes), "home_files": homeNumber(next.Home, next.Home.Files),
		"home_at_least": next.Home.AtLeast,
		// The records of the archive and in the history.
		"archived": archived != nil && next.ArchiveKey != "", "verified": record.Verified, "size": record.Size,
		"content_bytes": nullNumber(record.Content), "files": nullNumber(record.Files),
		"sha256": postgres.NullText(record.SHA256),
		"kinds":  kinds, "old_values": from, "new_values": to, "messages": messages,
	}).Exec(func(tag pgconn.CommandTag) error {
		saved = tag.RowsAffected() == 1
		return nil
	})
	if err := s.pool.SendBatch(ctx, batch).Close(); err != nil {
		return false, fmt.Errorf("saving workspace %s: %w", prev.ID, err)
	}
	return saved, nil
}

// nullNumber writes 0 as NULL.
func nullNumber(n int64) *int64 {
	if n == 0 {
		return nil
	}
	return &n
}

// homeNumber returns a number of a home's size, or nil if the home was never measured.
func homeNumber(h workspace.HomeSize, n int64) *int64 {
	if h.MeasuredAt.IsZero() {
		return nil
	}
	return &n
}
