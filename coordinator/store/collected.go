package store

import (
	"context"
	"time"

	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/workspace"
)

// markCollectedSQL locks the rows in the order of their ids before it decides, because a deletion may be undone
// at the same time. If the undeletion comes first, this statement sees that the row is not deleted any more;
// otherwise the undeletion sees collected_at.
const markCollectedSQL = `
WITH fence AS (
	SELECT FROM system_locks WHERE lock_name = $1 AND epoch = $2 FOR SHARE
), due AS (
	SELECT w.id, w.collected_at FROM workspaces w, fence
	WHERE w.id = ANY($3::uuid[]) AND w.deleted_at IS NOT NULL
		AND (w.collected_at IS NOT NULL OR w.operation = 'NONE' AND (w.phase = 'DELETED'
			OR w.awaits_gc AND (w.delete_now OR w.deleted_at <= now() - $4::interval)))
	ORDER BY w.id
	FOR UPDATE OF w
), written AS (
	UPDATE workspaces SET collected_at = now()
	FROM due WHERE workspaces.id = due.id AND due.collected_at IS NULL
	RETURNING workspaces.id
), history AS (
	INSERT INTO workspace_history (workspace_id, kind, cause, lock_name, epoch)
	SELECT id, 'collected', 'gc', $1, $2 FROM written
)
SELECT id FROM due`

// MarkCollected sets collected_at of deleted workspaces. It selects from ids the deleted workspaces of which only
// archives are left and whose deletion is at least window old or keeps nothing. It returns these workspaces and those
// that were marked before. The archives of the returned workspaces may be deleted, because from now on their deletion
// cannot be undone. The archives of the others must not be deleted, even if the caller read another state of them
// earlier. If the epoch is no longer f's, it returns no workspace.
func (s *Store) MarkCollected(ctx context.Context, f postgres.Fence, ids []workspace.ID, window time.Duration) (
	marked []workspace.ID, err error) {
	return s.ids(ctx, "marking workspaces as collected", markCollectedSQL, f.Lock, f.Epoch, texts(ids), window)
}
