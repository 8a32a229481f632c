package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/codehub/gateway/coordinator/workspace"
)

// This file holds every statement that writes desired_state and deleted_at. Only
// package service calls them (SPEC 1, contract 3).

// Outcome is what a statement that changes the desired state did, or why it did
// nothing.
type Outcome string

// The outcomes.
const (
	// Changed: the desired state was written.
	Changed Outcome = "changed"
	// Unchanged: the workspace had that desired state already, or none was given.
	Unchanged Outcome = "unchanged"
	// Busy: an operation is in progress.
	Busy Outcome = "busy"
	// UserLimit and GlobalLimit: one more workspace would exceed the limit.
	UserLimit   Outcome = "user_limit"
	GlobalLimit Outcome = "global_limit"
)

// Limits bound the workspaces that are running or have that desired state (SPEC 5).
// Zero and negative values mean no limit.
type Limits struct{ PerUser, Global int }

// Viewer is the user on whose behalf a row is read or changed: its owner, or an
// administrator when All is set.
type Viewer struct {
	// UserID is the id of the user whose workspaces are visible.
	UserID string
	// All makes every workspace visible, deleted ones included.
	All bool
}

// Change is a change of one workspace; nil fields keep their values.
type Change struct {
	Name, Description, Memo *string
	Desired                 *workspace.DesiredState
}

// runningLockSQL takes the lock under which workspaces are counted against the
// limits, one transaction at a time. Its key has two parts, so that it differs from
// the leader's lock, whose one-part key users may choose.
const runningLockSQL = `SELECT pg_advisory_xact_lock(1129268290, 1)`

// overLimit names the limit that one more workspace would exceed; $1 and $2 are the
// limits. It must run after runningLockSQL and in a statement of its own.
const overLimit = `
	WHEN $1::int > 0 AND (SELECT count(*) FROM workspaces c WHERE c.counted AND c.owner_user_id = %s) >= $1 THEN 'user_limit'
	WHEN $2::int > 0 AND (SELECT count(*) FROM workspaces c WHERE c.counted) >= $2 THEN 'global_limit'`

// updateSQL decides and writes in one statement. It locks the row before it decides,
// so the outcome is about the row that it writes.
var updateSQL = `
WITH w AS (
	SELECT id, owner_user_id, operation, desired_state, counted FROM workspaces
	WHERE id = $3 AND deleted_at IS NULL AND ($4 OR owner_user_id = $5)
	FOR UPDATE
), decision AS (
	SELECT id, CASE
		WHEN $6::text IS NULL OR $6 = desired_state THEN 'unchanged'
		WHEN operation <> 'NONE' THEN 'busy'
		WHEN $6 <> 'RUNNING' OR counted THEN 'changed'` + fmt.Sprintf(overLimit, "w.owner_user_id") + `
		ELSE 'changed' END AS outcome
	FROM w
), written AS (
	UPDATE workspaces SET
		name = COALESCE($7, name),
		description = CASE WHEN $8::text IS NULL THEN description ELSE NULLIF($8, '') END,
		memo = CASE WHEN $9::text IS NULL THEN memo ELSE NULLIF($9, '') END,
		desired_state = CASE outcome WHEN 'changed' THEN $6 ELSE desired_state END
	FROM decision
	WHERE workspaces.id = decision.id
		AND (outcome = 'changed' OR (outcome = 'unchanged' AND COALESCE($7, $8, $9) IS NOT NULL))
)
SELECT outcome FROM decision`

// Update makes the change and returns the workspace afterwards. It returns
// [ErrNotFound] for a workspace that is deleted or that v may not see. With any
// outcome but [Changed] and [Unchanged], nothing was written.
func (s *Store) Update(ctx context.Context, v Viewer, id workspace.ID, c Change, l Limits) (workspace.Workspace, Outcome, error) {
	var desired *string
	if c.Desired != nil {
		desired = nullText(*c.Desired)
	}
	running := c.Desired != nil && *c.Desired == workspace.DesiredRunning
	w, outcome, err := s.change(ctx, running, id, updateSQL, l.PerUser, l.Global,
		string(id), v.All, nullText(v.UserID), desired, c.Name, c.Description, c.Memo)
	if err != nil {
		return w, outcome, fmt.Errorf("changing workspace %s: %w", id, err)
	}
	return w, outcome, nil
}

var createSQL = `
WITH decision AS (
	SELECT CASE` + fmt.Sprintf(overLimit, "$4") + ` ELSE 'changed' END AS outcome
), written AS (
	INSERT INTO workspaces (id, owner_user_id, name, description, image_ref, instance_backend, storage_backend, home_store_key)
	SELECT $3, $4, $5, $6, $7, $8, $9, $10 FROM decision WHERE outcome = 'changed'
)
SELECT outcome FROM decision`

// Create adds a workspace with the desired state RUNNING. It uses only the fields
// of w that identify and describe it. With any outcome but [Changed], nothing was
// written.
func (s *Store) Create(ctx context.Context, w workspace.Workspace, l Limits) (workspace.Workspace, Outcome, error) {
	w, outcome, err := s.change(ctx, true, w.ID, createSQL, l.PerUser, l.Global,
		string(w.ID), w.OwnerID, w.Name, nullText(w.Description), nullText(w.ImageRef),
		w.InstanceBackend, w.StorageBackend, w.ID.VolumeName())
	if err != nil {
		return w, outcome, fmt.Errorf("creating a workspace: %w", err)
	}
	return w, outcome, nil
}

// change sends the lock (if running: the change counts against the limits), the
// statement, and a query of the row as one implicit transaction in one round trip.
// Each statement has its own snapshot, so the limits are counted after every
// earlier holder of the lock has committed.
func (s *Store) change(ctx context.Context, running bool, id workspace.ID, sql string, args ...any) (w workspace.Workspace, outcome Outcome, err error) {
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
	batch.Queue(sql, args...).QueryRow(func(row pgx.Row) error { return row.Scan(&outcome) })
	batch.Queue(`SELECT `+workspaceColumns+` FROM workspaces WHERE id = $1`, string(id)).Query(func(rows pgx.Rows) error {
		found, err := pgx.CollectRows(rows, scanWorkspace)
		if len(found) == 1 && (outcome == Changed || outcome == Unchanged) {
			w = found[0]
		}
		return err
	})
	err = s.pool.SendBatch(ctx, batch).Close()
	if errors.Is(err, pgx.ErrNoRows) {
		err = ErrNotFound
	}
	return w, outcome, err
}

// Delete marks the workspace deleted and sets the desired state DELETED. It returns
// [ErrNotFound] like [Store.Update]; the outcome is [Changed] or [Busy].
func (s *Store) Delete(ctx context.Context, v Viewer, id workspace.ID) (outcome Outcome, err error) {
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
		string(id), v.All, nullText(v.UserID)).Scan(&outcome)
	if errors.Is(err, pgx.ErrNoRows) {
		err = ErrNotFound
	}
	if err != nil {
		return "", fmt.Errorf("deleting workspace %s: %w", id, err)
	}
	return outcome, nil
}

// Recover clears the error of a workspace in ERROR, deleted or not; the next tick
// observes it and computes its phase (SPEC 3). In any other phase it does nothing.
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

// ExpireRunning sets the desired state STANDBY if the workspace still meets the
// condition of [Store.ExpiredRunning], and reports whether it did. False means that
// the workspace was used or changed in the meantime.
func (s *Store) ExpireRunning(ctx context.Context, id workspace.ID, ttl time.Duration) (bool, error) {
	return s.expire(ctx, id, ttl, `UPDATE workspaces SET desired_state = 'STANDBY' WHERE id = $2 AND `+expiredRunning)
}

// ExpireStandby does the same for the desired state ARCHIVED and the condition of
// [Store.ExpiredStandby].
func (s *Store) ExpireStandby(ctx context.Context, id workspace.ID, ttl time.Duration) (bool, error) {
	return s.expire(ctx, id, ttl, `UPDATE workspaces SET desired_state = 'ARCHIVED' WHERE id = $2 AND `+expiredStandby)
}

// expire runs an update with the ttl and the id as its arguments, and reports whether
// it changed the row.
func (s *Store) expire(ctx context.Context, id workspace.ID, ttl time.Duration, sql string) (bool, error) {
	tag, err := s.pool.Exec(ctx, sql, ttl, string(id))
	if err != nil {
		return false, fmt.Errorf("expiring workspace %s: %w", id, err)
	}
	return tag.RowsAffected() == 1, nil
}
