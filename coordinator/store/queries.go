package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/codehub/gateway/coordinator/workspace"
)

// Get returns one workspace. Its owner does not see it once it is deleted; a viewer
// with All does.
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

// List returns at most limit workspaces of ownerID, newest first and without
// deleted ones, that follow the given one in that order. A zero time starts at the
// beginning.
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

// Running returns the workspaces of ownerID that count against the limits, the
// longest unused first.
func (s *Store) Running(ctx context.Context, ownerID string) ([]workspace.Workspace, error) {
	return s.workspaces(ctx, "reading running workspaces", `SELECT `+workspaceColumns+` FROM workspaces
		WHERE owner_user_id = $1 AND counted ORDER BY GREATEST(last_access_at, phase_changed_at)`, ownerID)
}

// Protection is what the garbage collector must know of a workspace (SPEC 7).
type Protection struct {
	// Deleted means that nothing is protected. It takes precedence over Unhealthy,
	// which protects everything: policy.healthy is False, or the phase is ERROR.
	Deleted, Unhealthy bool
	// ArchiveKey is the current archive; ArchiveOpID is the operation that is making
	// one.
	ArchiveKey, ArchiveOpID string
}

// Protection returns what protects the archives of ids. An id that is missing from
// the result has no row at all.
func (s *Store) Protection(ctx context.Context, ids []workspace.ID) (map[workspace.ID]Protection, error) {
	const doing = "reading which archives are protected"
	rows, err := s.pool.Query(ctx, `
		SELECT id, deleted_at IS NOT NULL,
			phase = 'ERROR' OR COALESCE(conditions -> $2 ->> 'status' = 'False', false),
			archive_key, archive_op_id::text
		FROM workspaces WHERE id = ANY($1::uuid[])`, texts(ids), string(workspace.PolicyHealthy))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	out := make(map[workspace.ID]Protection, len(ids))
	var id workspace.ID
	var p Protection
	_, err = pgx.ForEachRow(rows, []any{&id, &p.Deleted, &p.Unhealthy, (*text)(&p.ArchiveKey), (*text)(&p.ArchiveOpID)},
		func() error { out[id] = p; return nil })
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	return out, nil
}

// CountWorkspaces counts all rows, deleted ones included. An empty table next to a
// full bucket is the wrong database (SPEC 7).
func (s *Store) CountWorkspaces(ctx context.Context) (int64, error) {
	var n int64
	if err := s.pool.QueryRow(ctx, `SELECT count(*) FROM workspaces`).Scan(&n); err != nil {
		return 0, fmt.Errorf("counting workspaces: %w", err)
	}
	return n, nil
}

// Route is the part of a workspace's row that a gateway needs to serve it. The fields
// mean the same as in [workspace.Workspace].
type Route struct {
	ID             workspace.ID
	OwnerID, Name  string
	Phase          workspace.Phase
	Operation      workspace.Operation
	Desired        workspace.DesiredState
	Endpoint       string
	ErrorReason    workspace.ErrorReason
	ErrorMessage   string
	Waiting        *workspace.Waiting
	Deleted        bool // by its owner; the row remains for some time
	PhaseChangedAt time.Time
	LastAccessAt   time.Time
}

const routeColumns = `id, owner_user_id, name, phase, operation, desired_state, endpoint,
	error_reason, error_message, waiting, deleted_at IS NOT NULL, phase_changed_at, last_access_at`

// Routes returns the routes of ids, or, without any ids, of all workspaces that are
// not DELETED. An id that is missing from the result no longer needs a route.
func (s *Store) Routes(ctx context.Context, ids ...workspace.ID) ([]Route, error) {
	const doing = "reading routes"
	sql, args := `SELECT `+routeColumns+` FROM workspaces WHERE phase <> 'DELETED'`, []any(nil)
	if len(ids) > 0 {
		sql, args = sql+` AND id = ANY($1::uuid[])`, []any{texts(ids)}
	}
	rows, err := s.pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Route, error) {
		var r Route
		err := row.Scan(&r.ID, &r.OwnerID, &r.Name, &r.Phase, &r.Operation, &r.Desired, (*text)(&r.Endpoint),
			(*text)(&r.ErrorReason), (*text)(&r.ErrorMessage), &r.Waiting, &r.Deleted, (*instant)(&r.PhaseChangedAt), (*instant)(&r.LastAccessAt))
		return r, err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	return out, nil
}
