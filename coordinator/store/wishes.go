package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// This file holds every statement that writes desired_state and deleted_at. Only
// package service calls them (SPEC 1, contract 3).

// Verdict is PostgreSQL's answer to a wish, found by the statement that fulfils it.
type Verdict string

// The verdicts.
const (
	// Changed: the wish was written.
	Changed Verdict = "changed"
	// Kept: it was already so.
	Kept Verdict = "kept"
	// Busy: an operation is in progress.
	Busy Verdict = "busy"
	// UserLimit and GlobalLimit: as many run already as may.
	UserLimit   Verdict = "user"
	GlobalLimit Verdict = "global"
)

// Limits are the most workspaces that may be running or asked to (SPEC 5); zero
// and less mean no limit.
type Limits struct{ PerUser, Global int }

// Viewer is on whose behalf a row is touched: the owner, or anybody's when All.
type Viewer struct {
	UserID string
	All    bool
}

// Wish is a change of one workspace; nil fields stay as they are.
type Wish struct {
	Name, Description, Memo *string
	Desired                 *workspace.DesiredState
}

// The lock that wishes for RUNNING take turns at, in the space of two-part keys:
// the leader's lock, which users may number as they like, is in the other one.
const runningLockSQL = `SELECT pg_advisory_xact_lock(1129268290, 1)`

// overLimit names the limit that one more would exceed; $1 and $2 are the limits.
// It runs under the lock, in a statement later than the one that took it.
const overLimit = `
	WHEN $1::int > 0 AND (SELECT count(*) FROM workspaces c WHERE c.counted AND c.owner_user_id = %s) >= $1 THEN 'user'
	WHEN $2::int > 0 AND (SELECT count(*) FROM workspaces c WHERE c.counted) >= $2 THEN 'global'`

// wishSQL judges and writes in one statement. The row is locked before it is
// judged, so the verdict is about what is written.
var wishSQL = `
WITH w AS (
	SELECT id, owner_user_id, operation, desired_state, counted FROM workspaces
	WHERE id = $3 AND deleted_at IS NULL AND ($4 OR owner_user_id = $5)
	FOR UPDATE
), judged AS (
	SELECT id, CASE
		WHEN $6::text IS NULL OR $6 = desired_state THEN 'kept'
		WHEN operation <> 'NONE' THEN 'busy'
		WHEN $6 <> 'RUNNING' OR counted THEN 'changed'` + fmt.Sprintf(overLimit, "w.owner_user_id") + `
		ELSE 'changed' END AS verdict
	FROM w
), written AS (
	UPDATE workspaces SET
		name = COALESCE($7, name),
		description = CASE WHEN $8::text IS NULL THEN description ELSE NULLIF($8, '') END,
		memo = CASE WHEN $9::text IS NULL THEN memo ELSE NULLIF($9, '') END,
		desired_state = CASE verdict WHEN 'changed' THEN $6 ELSE desired_state END
	FROM judged
	WHERE workspaces.id = judged.id
		AND (verdict = 'changed' OR (verdict = 'kept' AND COALESCE($7, $8, $9) IS NOT NULL))
)
SELECT verdict FROM judged`

// Wish changes the workspace, unless v may not see it or it is deleted
// ([ErrNotFound]), and returns it as it is then. Any verdict but [Changed] and
// [Kept] means that nothing was written.
func (s *Store) Wish(ctx context.Context, v Viewer, id workspace.ID, wish Wish, l Limits) (workspace.Workspace, Verdict, error) {
	var desired *string
	if wish.Desired != nil {
		desired = nullText(*wish.Desired)
	}
	running := wish.Desired != nil && *wish.Desired == workspace.DesiredRunning
	w, verdict, err := s.judge(ctx, running, id, wishSQL, l.PerUser, l.Global,
		string(id), v.All, nullText(v.UserID), desired, wish.Name, wish.Description, wish.Memo)
	if err != nil {
		return w, verdict, fmt.Errorf("changing workspace %s: %w", id, err)
	}
	return w, verdict, nil
}

var createSQL = `
WITH judged AS (
	SELECT CASE` + fmt.Sprintf(overLimit, "$4") + ` ELSE 'changed' END AS verdict
), written AS (
	INSERT INTO workspaces (id, owner_user_id, name, description, image_ref, instance_backend, storage_backend, home_store_key)
	SELECT $3, $4, $5, $6, $7, $8, $9, $10 FROM judged WHERE verdict = 'changed'
)
SELECT verdict FROM judged`

// Create adds a workspace that is wished to run. Of w, only what identifies and
// describes it counts. Any verdict but [Changed] means that nothing was written.
func (s *Store) Create(ctx context.Context, w workspace.Workspace, l Limits) (workspace.Workspace, Verdict, error) {
	w, verdict, err := s.judge(ctx, true, w.ID, createSQL, l.PerUser, l.Global,
		string(w.ID), w.OwnerID, w.Name, nullText(w.Description), nullText(w.ImageRef),
		w.InstanceBackend, w.StorageBackend, w.ID.VolumeName())
	if err != nil {
		return w, verdict, fmt.Errorf("creating a workspace: %w", err)
	}
	return w, verdict, nil
}

// judge sends the lock (when the wish counts against the limits), the statement
// and a look at the row as one implicit transaction in one round trip. Each
// statement has its own snapshot, so the limits are counted after all who held
// the lock before have committed.
func (s *Store) judge(ctx context.Context, running bool, id workspace.ID, sql string, args ...any) (w workspace.Workspace, verdict Verdict, err error) {
	batch := &pgx.Batch{}
	if running {
		select {
		case s.running <- struct{}{}:
			defer func() { <-s.running }()
		case <-ctx.Done():
			return w, "", ctx.Err()
		}
		batch.Queue(runningLockSQL)
	}
	batch.Queue(sql, args...).QueryRow(func(row pgx.Row) error { return row.Scan(&verdict) })
	batch.Queue(`SELECT `+workspaceColumns+` FROM workspaces WHERE id = $1`, string(id)).Query(func(rows pgx.Rows) error {
		found, err := pgx.CollectRows(rows, scanWorkspace)
		if len(found) == 1 && (verdict == Changed || verdict == Kept) {
			w = found[0]
		}
		return err
	})
	err = s.pool.SendBatch(ctx, batch).Close()
	if errors.Is(err, pgx.ErrNoRows) {
		err = ErrNotFound
	}
	return w, verdict, err
}

// Delete marks the workspace deleted and wishes it gone.
func (s *Store) Delete(ctx context.Context, v Viewer, id workspace.ID) (verdict Verdict, err error) {
	err = s.pool.QueryRow(ctx, `
		WITH w AS (
			SELECT id, operation FROM workspaces
			WHERE id = $1 AND deleted_at IS NULL AND ($2 OR owner_user_id = $3)
			FOR UPDATE
		), written AS (
			UPDATE workspaces SET desired_state = 'DELETED', deleted_at = now()
			FROM w WHERE workspaces.id = w.id AND w.operation = 'NONE'
		)
		SELECT CASE operation WHEN 'NONE' THEN 'changed' ELSE 'busy' END FROM w`,
		string(id), v.All, nullText(v.UserID)).Scan(&verdict)
	if errors.Is(err, pgx.ErrNoRows) {
		err = ErrNotFound
	}
	if err != nil {
		return "", fmt.Errorf("deleting workspace %s: %w", id, err)
	}
	return verdict, nil
}

// Recover takes the error away from a workspace in ERROR, deleted or not; the
// next tick observes it and computes its phase (SPEC 3). In any other phase
// there is nothing to do.
func (s *Store) Recover(ctx context.Context, id workspace.ID) error {
	var exists bool
	err := s.pool.QueryRow(ctx, `
		WITH written AS (
			UPDATE workspaces SET error_reason = NULL, error_message = NULL, error_count = 0
			WHERE id = $1 AND phase = 'ERROR'
		)
		SELECT EXISTS (SELECT FROM workspaces WHERE id = $1)`, string(id)).Scan(&exists)
	if err == nil && !exists {
		err = ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("recovering workspace %s: %w", id, err)
	}
	return nil
}

// ExpireRunning wishes a workspace to stand by if it is still one that
// [Store.ExpiredRunning] would return; ExpireStandby wishes one archived that
// [Store.ExpiredStandby] would. False means that it was used meanwhile, or wished
// for otherwise, and nothing has changed.
func (s *Store) ExpireRunning(ctx context.Context, id workspace.ID, ttl time.Duration) (bool, error) {
	return s.expire(ctx, id, ttl, `UPDATE workspaces SET desired_state = 'STANDBY' WHERE id = $2 AND `+expiredRunning)
}

// ExpireStandby is described at [Store.ExpireRunning].
func (s *Store) ExpireStandby(ctx context.Context, id workspace.ID, ttl time.Duration) (bool, error) {
	return s.expire(ctx, id, ttl, `UPDATE workspaces SET desired_state = 'ARCHIVED' WHERE id = $2 AND `+expiredStandby)
}

func (s *Store) expire(ctx context.Context, id workspace.ID, ttl time.Duration, sql string) (bool, error) {
	tag, err := s.pool.Exec(ctx, sql, ttl, string(id))
	if err != nil {
		return false, fmt.Errorf("expiring workspace %s: %w", id, err)
	}
	return tag.RowsAffected() == 1, nil
}

// Get returns one workspace: to its owner unless it is deleted, to All in any case.
func (s *Store) Get(ctx context.Context, v Viewer, id workspace.ID) (workspace.Workspace, error) {
	found, err := s.workspaces(ctx, "reading workspace "+string(id), `SELECT `+workspaceColumns+` FROM workspaces
		WHERE id = $1 AND ($2 OR (owner_user_id = $3 AND deleted_at IS NULL))`, string(id), v.All, nullText(v.UserID))
	if err != nil {
		return workspace.Workspace{}, err
	}
	if len(found) == 0 {
		return workspace.Workspace{}, ErrNotFound
	}
	return found[0], nil
}

// List returns at most limit workspaces of ownerID, newest first, that come
// after the given one in that order; a zero time starts at the beginning.
func (s *Store) List(ctx context.Context, ownerID string, limit int, createdAt time.Time, id workspace.ID) ([]workspace.Workspace, error) {
	after := pgtype.Timestamptz{Time: createdAt, Valid: true}
	if createdAt.IsZero() {
		after = pgtype.Timestamptz{InfinityModifier: pgtype.Infinity, Valid: true}
		id = "ffffffff-ffff-ffff-ffff-ffffffffffff"
	}
	return s.workspaces(ctx, "listing workspaces", `SELECT `+workspaceColumns+` FROM workspaces
		WHERE owner_user_id = $1 AND deleted_at IS NULL AND (created_at, id) < ($2, $3::uuid)
		ORDER BY created_at DESC, id DESC LIMIT $4`, ownerID, after, string(id), limit)
}

// Running returns the workspaces of ownerID that the limits count, the longest
// unused first.
func (s *Store) Running(ctx context.Context, ownerID string) ([]workspace.Workspace, error) {
	return s.workspaces(ctx, "reading the running", `SELECT `+workspaceColumns+` FROM workspaces
		WHERE owner_user_id = $1 AND counted ORDER BY GREATEST(last_access_at, phase_changed_at)`, ownerID)
}
