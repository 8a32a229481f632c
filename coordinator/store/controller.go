package store

import (
	"context"
	"fmt"

	"github.com/codehub/gateway/coordinator/workspace"
)

const (
	candidatesSQL = `SELECT ` + workspaceColumns + ` FROM workspaces WHERE watched`
	standbySQL    = `SELECT id FROM workspaces WHERE phase = 'STANDBY' AND operation = 'NONE' AND deleted_at IS NULL`
)

// Candidates returns the workspaces that every tick must observe: with an operation
// in progress, with a phase that is not the desired one, RUNNING (a container can
// exit by itself), in ERROR if recovered or if the reason is not terminal, and
// deleted ones until nothing is left of them (SPEC 12.7). It reads no other rows
// (SPEC 4): the rule is the generated column watched of the schema.
func (s *Store) Candidates(ctx context.Context) ([]workspace.Workspace, error) {
	return s.workspaces(ctx, "reading candidates", candidatesSQL)
}

// Workspaces returns the rows of ids, deleted ones included, in no particular
// order. Ids without a row are omitted.
func (s *Store) Workspaces(ctx context.Context, ids []workspace.ID) ([]workspace.Workspace, error) {
	return s.workspaces(ctx, "reading workspaces",
		`SELECT `+workspaceColumns+` FROM workspaces WHERE id = ANY($1::uuid[])`, texts(ids))
}

// StandbyIDs returns the workspaces in STANDBY without an operation. Ticks do not
// observe them; a slow sweep does, because their volumes can disappear.
func (s *Store) StandbyIDs(ctx context.Context) ([]workspace.ID, error) {
	return s.ids(ctx, "reading standby workspaces", standbySQL)
}

// Fence identifies the leader's term under which a write is made (SPEC 5).
type Fence struct {
	// Lock is the lock_name of the row in system_locks.
	Lock string
	// Epoch is the number of the term. The row holds it until the next leader takes
	// over.
	Epoch int64
}

// saveSQL reads the fence FOR SHARE: a new leader's epoch waits for writes in
// progress, and a write that waited for a new leader's epoch affects no row.
const saveSQL = `
WITH fence AS (
	SELECT FROM system_locks WHERE lock_name = $1 AND epoch = $2 FOR SHARE
)
UPDATE workspaces w SET
	conditions = $11, observed_at = $12,
	phase = $13,
	phase_changed_at = CASE WHEN w.phase <> $13 THEN COALESCE($14, now()) ELSE w.phase_changed_at END,
	operation = $15, op_started_at = $16, archive_op_id = $17, archive_key = $18,
	home_ctx = $19, endpoint = $20, error_reason = $21, error_message = $22, error_count = $23,
	waiting = $24, awaits_gc = $25
FROM fence
WHERE w.id = $3
	AND w.operation = $4 AND w.op_started_at IS NOT DISTINCT FROM $5
	AND w.desired_state = $6 AND w.deleted_at IS NOT DISTINCT FROM $7
	AND w.phase = $8 AND w.error_reason IS NOT DISTINCT FROM $9 AND w.error_count = $10`

// Save replaces the controller's columns (SPEC 4) of prev with those of next, in one
// statement. It does so only if the row's operation, op_started_at, desired_state,
// deleted_at, phase, error_reason and error_count are still those of prev, and the
// epoch is still f's. Otherwise the row has changed or another process leads: saved
// is false, nothing was written, and the caller decides again on a new observation.
// phase_changed_at is written only when the phase changes. Save writes even if next
// equals prev.
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
		next.HomeCtx, nullText(next.Endpoint), nullText(next.ErrorReason), nullText(next.ErrorMessage), next.ErrorCount,
		next.Waiting, next.AwaitsGC)
	if err != nil {
		return false, fmt.Errorf("saving workspace %s: %w", prev.ID, err)
	}
	return tag.RowsAffected() == 1, nil
}
