package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Get returns one workspace. Its owner does not see it once it is deleted, unless
// v.Deleted is set; a viewer with All does.
func (s *Store) Get(ctx context.Context, v Viewer, id workspace.ID) (workspace.Workspace, error) {
	found, err := s.workspaces(ctx, "reading workspace "+string(id), `SELECT `+workspaceColumns+` FROM workspaces
		WHERE id = $1 AND ($2 OR owner_user_id = $3 AND (deleted_at IS NULL OR $4 AND `+undeletable+`))`,
		string(id), v.All, postgres.NullText(v.UserID), v.Deleted)
	if err != nil {
		return workspace.Workspace{}, err
	}
	if len(found) == 0 {
		return workspace.Workspace{}, postgres.ErrNotFound
	}
	return found[0], nil
}

// List returns at most limit workspaces of ownerID, newest first and without
// deleted ones, that follow the given one in that order. A zero time starts at the
// beginning.
func (s *Store) List(ctx context.Context, ownerID string, limit int, createdAt time.Time, id workspace.ID) ([]workspace.Workspace, error) {
	after, id := position(createdAt, id)
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
	// which protects everything: policy.healthy is False, the phase is ERROR, or a
	// recovery or a revert was not carried out yet, whichever archive that may be about, or
	// the current archive is damaged or may be: an older one may be the best that there is.
	Deleted, Unhealthy bool
	// ArchiveKey is the current archive; ArchiveOpID is the operation that is making
	// one.
	ArchiveKey, ArchiveOpID string
	// Newest and Replaced are archives that are no surprise although they are younger than
	// the current one: somebody has chosen that although these existed. They are the way back.
	Newest, Replaced string
	// Phase is the workspace's phase, and DeletedAt when its owner deleted it.
	Phase     workspace.Phase
	DeletedAt time.Time
	// CollectedAt is set once the deletion cannot be undone any more; only then a
	// deleted workspace's archives may be deleted.
	CollectedAt time.Time
}

// Protection returns what protects the archives of ids. An id that is missing from
// the result has no row at all.
func (s *Store) Protection(ctx context.Context, ids []workspace.ID) (map[workspace.ID]Protection, error) {
	const doing = "reading which archives are protected"
	rows, err := s.pool.Query(ctx, `
		SELECT id, deleted_at IS NOT NULL,
			phase = 'ERROR' OR COALESCE(conditions -> $2 ->> 'status' = 'False', false)
				OR recovery IS NOT NULL AND recovery ->> 'id' IS DISTINCT FROM home_ctx ->> 'recovery_id'
				OR revert IS NOT NULL AND revert ->> 'id' IS DISTINCT FROM home_ctx ->> 'revert_id'
				OR archive_damage IS NOT NULL OR archive_suspected,
			archive_key, archive_op_id::text, home_ctx ->> 'newest', home_ctx ->> 'replaced', phase, deleted_at, collected_at
		FROM workspaces WHERE id = ANY($1::uuid[])`, texts(ids), string(workspace.PolicyHealthy))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	out := make(map[workspace.ID]Protection, len(ids))
	var id workspace.ID
	var p Protection
	_, err = pgx.ForEachRow(rows, []any{&id, &p.Deleted, &p.Unhealthy, (*postgres.Text)(&p.ArchiveKey), (*postgres.Text)(&p.ArchiveOpID), (*postgres.Text)(&p.Newest), (*postgres.Text)(&p.Replaced),
		&p.Phase, (*postgres.Instant)(&p.DeletedAt), (*postgres.Instant)(&p.CollectedAt)},
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
