package store

import (
	"context"
	"fmt"
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/jackc/pgx/v5"
)

// TouchLastAccess moves last_access_at to the given times, only ever forward, and
// not beyond the database's own time: a use that is yet to come, by a clock that is
// wrong, would keep a workspace awake until then. Unknown and deleted workspaces
// are passed over.
func (s *Store) TouchLastAccess(ctx context.Context, at map[workspace.ID]time.Time) error {
	if len(at) == 0 {
		return nil
	}
	ids, times := make([]string, 0, len(at)), make([]time.Time, 0, len(at))
	for id, t := range at {
		ids, times = append(ids, string(id)), append(times, t)
	}
	// The rows are locked in the order of their ids, so that two of these at once
	// cannot wait for each other.
	_, err := s.pool.Exec(ctx, `
		WITH used AS (
			SELECT w.id, u.at
			FROM (SELECT id, LEAST(at, now()) AS at FROM unnest($1::uuid[], $2::timestamptz[]) AS v (id, at)) AS u
			JOIN workspaces w ON w.id = u.id
			WHERE w.deleted_at IS NULL AND (w.last_access_at IS NULL OR w.last_access_at < u.at)
			ORDER BY w.id
			FOR UPDATE OF w
		)
		UPDATE workspaces w SET last_access_at = used.at FROM used WHERE w.id = used.id`, ids, times)
	if err != nil {
		return fmt.Errorf("writing the last access of %d workspaces: %w", len(at), err)
	}
	return nil
}

// The conditions of expiry: the TTL runner reads by them, and its wish checks
// them again (see [Store.Expire]).
const (
	expiredRunning = `phase = 'RUNNING' AND operation = 'NONE' AND deleted_at IS NULL AND desired_state = 'RUNNING'
		AND GREATEST(last_access_at, phase_changed_at) < now() - $1::interval`
	expiredStandby = `phase = 'STANDBY' AND operation = 'NONE' AND deleted_at IS NULL AND desired_state = 'STANDBY'
		AND phase_changed_at < now() - $1::interval`

	expiredRunningSQL = `SELECT id FROM workspaces WHERE ` + expiredRunning +
		` ORDER BY GREATEST(last_access_at, phase_changed_at) LIMIT $2`
	expiredStandbySQL = `SELECT id FROM workspaces WHERE ` + expiredStandby + ` ORDER BY phase_changed_at LIMIT $2`
)

// ExpiredRunning returns at most limit workspaces that run, are wished to run,
// and have been used neither within ttl nor since they came up, longest first.
// The database's clock decides.
func (s *Store) ExpiredRunning(ctx context.Context, ttl time.Duration, limit int) ([]workspace.ID, error) {
	return s.ids(ctx, "reading the unused", expiredRunningSQL, ttl, limit)
}

// ExpiredStandby returns at most limit workspaces that have stood by for longer
// than ttl and are wished to, longest first. The database's clock decides.
func (s *Store) ExpiredStandby(ctx context.Context, ttl time.Duration, limit int) ([]workspace.ID, error) {
	return s.ids(ctx, "reading the long asleep", expiredStandbySQL, ttl, limit)
}

// Protection is what the garbage collector must know of a workspace (SPEC 7).
type Protection struct {
	// Deleted protects nothing; it comes before Unhealthy, which protects
	// everything: policy.healthy is False, or the phase is ERROR.
	Deleted, Unhealthy bool
	// ArchiveKey is the current archive; ArchiveOpID names the one being made.
	ArchiveKey, ArchiveOpID string
}

// Protection returns what protects the archives of ids. An id that is not in the
// result has no row at all.
func (s *Store) Protection(ctx context.Context, ids []workspace.ID) (map[workspace.ID]Protection, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT id, deleted_at IS NOT NULL,
			phase = 'ERROR' OR COALESCE(conditions -> $2 ->> 'status' = 'False', false),
			archive_key, archive_op_id::text
		FROM workspaces WHERE id = ANY($1::uuid[])`, texts(ids), string(workspace.PolicyHealthy))
	if err != nil {
		return nil, fmt.Errorf("reading what protects archives: %w", err)
	}
	out := make(map[workspace.ID]Protection, len(ids))
	var id workspace.ID
	var p Protection
	_, err = pgx.ForEachRow(rows, []any{&id, &p.Deleted, &p.Unhealthy, (*text)(&p.ArchiveKey), (*text)(&p.ArchiveOpID)},
		func() error { out[id] = p; return nil })
	if err != nil {
		return nil, fmt.Errorf("reading what protects archives: %w", err)
	}
	return out, nil
}

// CountWorkspaces counts all rows, deleted ones too: an empty table beside a full
// bucket is the wrong database (SPEC 7).
func (s *Store) CountWorkspaces(ctx context.Context) (int64, error) {
	var n int64
	if err := s.pool.QueryRow(ctx, `SELECT count(*) FROM workspaces`).Scan(&n); err != nil {
		return 0, fmt.Errorf("counting the workspaces: %w", err)
	}
	return n, nil
}

// Route is what a gateway must know of a workspace to serve it.
type Route struct {
	ID             workspace.ID
	OwnerID, Name  string
	Phase          workspace.Phase
	Operation      workspace.Operation
	Desired        workspace.DesiredState
	Endpoint       string
	ErrorReason    workspace.ErrorReason
	ErrorMessage   string
	Deleted        bool
	PhaseChangedAt time.Time
	LastAccessAt   time.Time
}

const routeColumns = `id, owner_user_id, name, phase, operation, desired_state, endpoint,
	error_reason, error_message, deleted_at IS NOT NULL, phase_changed_at, last_access_at`

// Routes returns the routes of ids, or, without any, of all workspaces of which
// something may be left. An id that is not in the result no longer needs one.
func (s *Store) Routes(ctx context.Context, ids ...workspace.ID) ([]Route, error) {
	sql, args := `SELECT `+routeColumns+` FROM workspaces WHERE phase <> 'DELETED'`, []any(nil)
	if len(ids) > 0 {
		sql, args = sql+` AND id = ANY($1::uuid[])`, []any{texts(ids)}
	}
	rows, err := s.pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("reading the routes: %w", err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Route, error) {
		var r Route
		err := row.Scan(&r.ID, &r.OwnerID, &r.Name, &r.Phase, &r.Operation, &r.Desired, (*text)(&r.Endpoint),
			(*text)(&r.ErrorReason), (*text)(&r.ErrorMessage), &r.Deleted, (*instant)(&r.PhaseChangedAt), (*instant)(&r.LastAccessAt))
		return r, err
	})
	if err != nil {
		return nil, fmt.Errorf("reading the routes: %w", err)
	}
	return out, nil
}
