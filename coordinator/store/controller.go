package store

import (
	"context"
	"fmt"

	"github.com/codehub/gateway/coordinator/workspace"
)

const (
	candidatesSQL = `SELECT ` + workspaceColumns + ` FROM workspaces WHERE watched`
	standbySQL    = `SELECT id FROM workspaces WHERE phase = 'STANDBY' AND operation = 'NONE' AND deleted_at IS NULL`
	failedSQL     = `SELECT id FROM workspaces WHERE phase = 'ERROR' AND deleted_at IS NULL ORDER BY phase_changed_at`
)

// Candidates returns what a tick must look at: an operation in progress, a phase
// that is not the desired one, running (containers can die on their own), ERROR
// that was recovered or whose reason is tried again, and deleted ones until
// nothing is left of them (SPEC 12.7). It reads these rows only (SPEC 4): the
// rule is the generated column watched of the schema.
func (s *Store) Candidates(ctx context.Context) ([]workspace.Workspace, error) {
	return s.workspaces(ctx, "reading the candidates", candidatesSQL)
}

// Workspaces returns the rows of ids, deleted ones too, in no order. Ids that do
// not exist are left out.
func (s *Store) Workspaces(ctx context.Context, ids []workspace.ID) ([]workspace.Workspace, error) {
	return s.workspaces(ctx, "reading workspaces",
		`SELECT `+workspaceColumns+` FROM workspaces WHERE id = ANY($1::uuid[])`, texts(ids))
}

// StandbyIDs returns the workspaces that stand by with nothing going on. A tick
// does not look at them; a slow sweep does, for volumes can vanish.
func (s *Store) StandbyIDs(ctx context.Context) ([]workspace.ID, error) {
	return s.ids(ctx, "reading the standing by", standbySQL)
}

// Failed returns the workspaces in ERROR that nobody has deleted, longest first.
func (s *Store) Failed(ctx context.Context) ([]workspace.ID, error) {
	return s.ids(ctx, "reading the failed", failedSQL)
}

// Fence is the leadership under which a write is made (SPEC 5).
type Fence struct {
	// Lock is the lock_name of the row in system_locks.
	Lock string
	// Epoch is the leadership's number: the row holds it until the next leader
	// has taken over.
	Epoch int64
}

// saveSQL reads the fence FOR SHARE: a new leader's epoch waits for a write that
// is under way, and a write that waited for a new leader's epoch finds none.
const saveSQL = `
WITH fence AS (
	SELECT FROM system_locks WHERE lock_name = $1 AND epoch = $2 FOR SHARE
)
UPDATE workspaces w SET
	conditions = $11, observed_at = $12,
	phase = $13,
	phase_changed_at = CASE WHEN w.phase <> $13 THEN COALESCE($14, now()) ELSE w.phase_changed_at END,
	operation = $15, op_started_at = $16, archive_op_id = $17, archive_key = $18,
	home_ctx = $19, endpoint = $20, error_reason = $21, error_message = $22, error_count = $23
FROM fence
WHERE w.id = $3
	AND w.operation = $4 AND w.op_started_at IS NOT DISTINCT FROM $5
	AND w.desired_state = $6 AND w.deleted_at IS NOT DISTINCT FROM $7
	AND w.phase = $8 AND w.error_reason IS NOT DISTINCT FROM $9 AND w.error_count = $10`

// Save writes the controller's columns (SPEC 4) of next over prev, in one
// statement, and only if the row's operation, op_started_at, desired_state,
// deleted_at, phase, error_reason and error_count are still prev's and the
// leadership is still f. Otherwise somebody else wrote or leads: saved is false,
// nothing has changed, and the next tick looks again. phase_changed_at becomes
// next's only when the phase changes. Whether there is anything to write is for
// the caller to see.
func (s *Store) Save(ctx context.Context, f Fence, prev, next workspace.Workspace) (saved bool, err error) {
	conditions := next.Conditions
	if conditions == nil {
		conditions = workspace.Conditions{}
	}
	tag, err := s.pool.Exec(ctx, saveSQL, f.Lock, f.Epoch,
		string(prev.ID), string(prev.Operation), nullTime(prev.OpStartedAt),
		string(prev.DesiredState), nullTime(prev.DeletedAt),
		string(prev.Phase), nullText(prev.ErrorReason), prev.ErrorCount,
		conditions, nullTime(next.ObservedAt), string(next.Phase), nullTime(next.PhaseChangedAt),
		string(next.Operation), nullTime(next.OpStartedAt), nullText(next.ArchiveOpID), nullText(next.ArchiveKey),
		next.HomeCtx, nullText(next.Endpoint), nullText(next.ErrorReason), nullText(next.ErrorMessage), next.ErrorCount)
	if err != nil {
		return false, fmt.Errorf("saving workspace %s: %w", prev.ID, err)
	}
	return tag.RowsAffected() == 1, nil
}
