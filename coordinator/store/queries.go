package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Get returns one workspace. The owner sees a deleted workspace only if v.Deleted is set; a viewer with All always sees
// it.
func (s *Store) Get(ctx context.Context, v Viewer, id workspace.ID) (workspace.Workspace, error) {
	return postgres.SelectOne(ctx, s.DB, "reading workspace "+string(id), scanWorkspace, `
		SELECT `+workspaceColumns+` FROM workspaces
		WHERE id = $1 AND ($2 OR owner_user_id = $3 AND (deleted_at IS NULL OR $4 AND `+undeletable+`))`,
		string(id), v.All, postgres.NullText(v.UserID), v.Deleted)
}

// Running returns the workspaces of ownerID that count against the limits, the longest unused first.
func (s *Store) Running(ctx context.Context, ownerID string) ([]workspace.Workspace, error) {
	return s.workspaces(ctx, "reading running workspaces", `SELECT `+workspaceColumns+` FROM workspaces
		WHERE owner_user_id = $1 AND counted ORDER BY GREATEST(last_access_at, phase_changed_at)`, ownerID)
}

// Protection is what the garbage collector must know about a workspace (SPEC 7).
type Protection struct {
	// Deleted means that the workspace was deleted: once the deletion cannot be undone, nothing is protected. It takes
	// precedence over Unhealthy, which protects everything. As long as the deletion can be undone, Unhealthy also
	// protects a deleted workspace. A workspace is Unhealthy if policy.healthy is False, if the phase is ERROR, or
	// while a recovery or a revert is pending, whichever archive that concerns. It is also Unhealthy if the current
	// archive is damaged or may be: an older one may be the best that is left.
	Deleted, Unhealthy bool
	// ArchiveKey is the current archive; ArchiveOpID is the operation that is making one.
	ArchiveKey, ArchiveOpID string
	// Newest and Replaced are archives that may legitimately be younger than the current one: a person chose the
	// current one although these already existed. They are the way back.
	Newest, Replaced string
	// Phase is the workspace's phase, CreatedAt when its row was inserted, and DeletedAt when its owner deleted
	// it.
	Phase                workspace.Phase
	CreatedAt, DeletedAt time.Time
	// CollectedAt is set once the deletion cannot be undone any more; only then may a deleted workspace's
	// archives be deleted.
	CollectedAt time.Time
	// DeletedFor is how long ago the workspace was deleted, by the database's clock. DeleteNow means that nothing is
	// kept for an undeletion.
	DeletedFor time.Duration
	DeleteNow  bool
}

// Undeletable returns for how much longer the archives of a deleted workspace are kept so that its deletion can be
// undone. It returns zero for any other workspace, and once the archives may be deleted.
func (p *Protection) Undeletable(window time.Duration) time.Duration {
	if !p.Deleted || p.DeleteNow || !p.CollectedAt.IsZero() || p.Phase == workspace.PhaseDeleted {
		return 0
	}
	return max(window-p.DeletedFor, 0)
}

// MarkUnreadable protects everything of a workspace whose row cannot be read.
func (p *Protection) MarkUnreadable(error) {
	p.Deleted, p.Unhealthy, p.CollectedAt = false, true, time.Time{}
}

// Protection returns what protects the archives of ids. An id that is missing from the result has no row.
func (s *Store) Protection(ctx context.Context, ids []workspace.ID) (map[workspace.ID]Protection, error) {
	all, err := postgres.Select(ctx, s.DB, "reading which archives are protected", postgres.RowToStruct[struct {
		ID workspace.ID
		Protection
	}], `
		SELECT id, deleted_at IS NOT NULL AS deleted,
			phase = 'ERROR' OR COALESCE(conditions -> $2 ->> 'status' = 'False', false)
				OR recovery IS NOT NULL AND recovery ->> 'id' IS DISTINCT FROM home_ctx ->> 'recovery_id'
				OR revert IS NOT NULL AND revert ->> 'id' IS DISTINCT FROM home_ctx ->> 'revert_id'
				OR archive_damage IS NOT NULL OR archive_suspected
				OR COALESCE('string' <> ANY (ARRAY[jsonb_typeof(home_ctx -> 'newest'), jsonb_typeof(home_ctx -> 'replaced')]), false)
				AS unhealthy,
			archive_key, archive_op_id, home_ctx ->> 'newest' AS newest, home_ctx ->> 'replaced' AS replaced,
			phase, created_at, deleted_at, collected_at, delete_now,
			COALESCE(now() - deleted_at, '0'::interval) AS deleted_for
		FROM workspaces WHERE id = ANY($1::uuid[])`, texts(ids), string(workspace.PolicyHealthy))
	if err != nil {
		return nil, err
	}
	out := make(map[workspace.ID]Protection, len(all))
	for _, p := range all {
		out[p.ID] = p.Protection
	}
	return out, nil
}

// CountWorkspaces counts all rows, deleted ones included. If the table is empty but the bucket is full, this is the
// wrong database (SPEC 7).
func (s *Store) CountWorkspaces(ctx context.Context) (int64, error) {
	return postgres.SelectOne(ctx, s.DB, "counting workspaces", pgx.RowTo[int64], `SELECT count(*) FROM workspaces`)
}
