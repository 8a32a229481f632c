package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/workspace"
)

// This file holds the rule for taking a running place (SPEC 5). A workspace that counts against the limits holds a
// place; the column counted says so. A statement takes a place only if it runs after runningLockSQL and has checked
// overLimit. The trigger admission gives the place up, and puts the workspace to sleep if it would otherwise run
// without one.

// runningLockSQL takes the lock that a transaction must hold while it counts workspaces against the limits. Its key has
// two parts, so that it differs from the leader's lock, whose one-part key users may choose.
const runningLockSQL = `SELECT pg_advisory_xact_lock(1129268290, 1)`

// The limits of w.owner_user_id: the user's own, or those of all users.
const (
	ownRunning    = `COALESCE((SELECT max_running FROM users u WHERE u.id = w.owner_user_id), @per_user::int)`
	ownWorkspaces = `COALESCE((SELECT max_workspaces FROM users u WHERE u.id = w.owner_user_id), @workspaces::int)`
)

// overLimit are branches of a CASE. They name the limit (the user's, or @global) that one more running workspace of
// w.owner_user_id would exceed. It must run after runningLockSQL and in a statement of its own.
const overLimit = `
		WHEN ` + ownRunning + ` > 0 AND ` + ownRunning + ` <=
			(SELECT count(*) FROM workspaces c WHERE c.counted AND c.owner_user_id = w.owner_user_id) THEN 'user_limit'
		WHEN @global::int > 0 AND @global <= (SELECT count(*) FROM workspaces c WHERE c.counted) THEN 'global_limit'`

// hasRoom means that no limit forbids one more running workspace of w.owner_user_id. It must run like
// overLimit.
const hasRoom = `CASE` + overLimit + ` ELSE 'none' END = 'none'`

// endDozeSQL ends the doze of a workspace. If the workspace still has its place, or if a place is free, it resumes;
// otherwise it goes to sleep.
const endDozeSQL = `
WITH w AS (
	SELECT id, owner_user_id, counted FROM workspaces WHERE id = @id AND doze_at IS NOT NULL FOR UPDATE
), written AS (
	UPDATE workspaces SET doze_at = NULL, counted = w.counted OR ` + hasRoom + `
	FROM w WHERE workspaces.id = w.id RETURNING workspaces.id, workspaces.desired_state
), history AS (
	INSERT INTO workspace_history (workspace_id, kind, cause) SELECT id, 'thawed', @cause FROM written WHERE desired_state = 'RUNNING'
)
SELECT 'changed' FROM written`

// countRunning makes runningLockSQL the first statement of the batch. The caller must call done after sending the
// batch.
func (s *Store) countRunning(ctx context.Context, batch *pgx.Batch) (done func(), err error) {
	select {
	case s.running <- struct{}{}:
		batch.Queue(runningLockSQL)
		return func() { <-s.running }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// change sends the statement and a query of the row. If counts is set, the change may count against the limits, and
// change sends runningLockSQL first. They are one implicit transaction in one round trip. Each statement has its own
// snapshot, so the limits are counted after every earlier holder of the lock has committed. doing begins the errors.
func (s *Store) change(ctx context.Context, doing string, counts bool, id workspace.ID, sql string, args postgres.Args) (
	w workspace.Workspace, outcome Outcome, err error,
) {
	batch := &pgx.Batch{}
	if counts {
		done, err := s.countRunning(ctx, batch)
		if err != nil {
			return w, "", fmt.Errorf("%s: %w", doing, err)
		}
		defer done()
		batch.Queue(`SELECT FROM workspaces WHERE id = $1 FOR UPDATE`, string(id)) // so that the snapshot holds what the last writer did
	}
	batch.Queue(sql, args).QueryRow(func(row pgx.Row) error { return row.Scan(&outcome) })
	batch.Queue(`SELECT `+workspaceColumns+` FROM workspaces WHERE id = $1`, string(id)).Query(
		func(rows pgx.Rows) error {
			found, err := pgx.CollectRows(rows, scanWorkspace)
			if len(found) == 1 && (outcome == Changed || outcome == Unchanged) {
				w = found[0]
			}
			return err
		})
	err = s.pool.SendBatch(ctx, batch).Close()
	if errors.Is(err, pgx.ErrNoRows) {
		err = postgres.ErrNotFound
	}
	if err != nil {
		return w, outcome, fmt.Errorf("%s: %w", doing, err)
	}
	return w, outcome, nil
}

// Limited is a store for background writers: the controller, the TTL runner and the recording of activity. If
// their write ends a doze or clears a transient error, Limited takes a place for the workspace; without a free
// place the workspace goes to STANDBY. With the methods of [Store] it always goes to STANDBY.
type Limited struct {
	*Store
	// Limits returns the present limits.
	Limits func() Limits
}

// Save is [Store.Save].
func (s Limited) Save(ctx context.Context, f postgres.Fence, prev, next workspace.Workspace,
	archived *workspace.ArchiveRecord,
) (saved bool, err error) {
	if !needsPlace(prev, next) {
		return s.Store.Save(ctx, f, prev, next, archived)
	}
	l := s.Limits()
	return s.save(ctx, f, prev, next, archived, &l)
}

// needsPlace reports whether the workspace should run after the write although it may have held no place before.
func needsPlace(prev, next workspace.Workspace) bool {
	failed := func(w workspace.Workspace) bool { return w.Phase == workspace.PhaseError && w.ErrorReason != "" }
	return next.DesiredState == workspace.DesiredRunning && !next.Deleted() && (failed(prev) && !failed(next) ||
		!prev.DozeAt.IsZero() && (prev.Phase != next.Phase || prev.Operation != next.Operation))
}

// TouchLastAccess is [Store.TouchLastAccess].
func (s Limited) TouchLastAccess(ctx context.Context, ages, inputs map[workspace.ID]time.Duration) error {
	if len(ages) == 0 {
		return nil
	}
	// The ids include workspaces that still hold their places, because they may give these up before the use is
	// written.
	ids, err := s.ids(ctx, "reading which workspaces were used before they dozed",
		`SELECT id FROM (`+usedSQL+`) AS used WHERE doze_at IS NOT NULL`, usedArgs(ages, inputs)...)
	if err == nil {
		err = s.endEach(ctx, ids, audit.Gateway)
	}
	if err != nil {
		return err
	}
	return s.Store.TouchLastAccess(ctx, ages, inputs)
}

// EndUnmadeDozes is [Store.EndUnmadeDozes].
func (s Limited) EndUnmadeDozes(ctx context.Context, limit time.Duration) ([]workspace.ID, error) {
	// These workspaces hold no place: their containers were frozen, then thawed from outside, and the engine does not
	// freeze them again.
	ids, err := s.ids(ctx, "reading the dozes that are not made", `SELECT id FROM workspaces WHERE `+unmade+` AND NOT counted`,
		postgres.Args{"limit": limit})
	if err == nil {
		err = s.endEach(ctx, ids, audit.TTL)
	}
	if err != nil {
		return nil, err
	}
	more, err := s.Store.EndUnmadeDozes(ctx, limit)
	return append(ids, more...), err
}

// EndDozes is [Store.EndDozes]. The most recent dozes take a place first.
func (s Limited) EndDozes(ctx context.Context) error {
	ids, err := s.ids(ctx, "reading what dozes",
		`SELECT id FROM workspaces WHERE doze_at IS NOT NULL ORDER BY doze_at DESC`)
	if err == nil {
		err = s.endEach(ctx, ids, audit.TTL)
	}
	if err != nil {
		return err
	}
	return s.Store.EndDozes(ctx)
}

// endEach ends the doze of each workspace.
func (s Limited) endEach(ctx context.Context, ids []workspace.ID, cause audit.Through) error {
	for _, id := range ids {
		l := s.Limits()
		_, _, err := s.change(ctx, "ending the doze of workspace "+string(id), true, id, endDozeSQL, postgres.Args{
			"id": string(id), "per_user": l.PerUser, "global": l.Global, "cause": cause,
		})
		if err != nil && !errors.Is(err, postgres.ErrNotFound) {
			return err
		}
	}
	return nil
}
