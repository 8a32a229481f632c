package store

import (
	"context"
	"time"

	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/workspace"
)

// TransitionKind is what changed in a [Transition].
type TransitionKind string

// The kinds. The old and the new value of a transition are those of the column named by the kind, unless the
// comments below say otherwise.
const (
	KindCreated TransitionKind = "created"
	KindPhase   TransitionKind = "phase"
	// KindOperation: an operation began or ended.
	KindOperation TransitionKind = "operation"
	// KindError: an attempt failed. New is its reason, Message its message.
	KindError TransitionKind = "error"
	// KindWaiting: New is the reason of the wait, or empty when the wait is over.
	KindWaiting      TransitionKind = "waiting"
	KindDesiredState TransitionKind = "desired_state"
	// KindDeleted: Old is the previous desired state. New is "now" when an administrator gave up what the
	// deletion would keep.
	KindDeleted   TransitionKind = "deleted"
	KindUndeleted TransitionKind = "undeleted"
	// KindRecovered: Old is the reason for the error, New is the choice, and Message is the key of the chosen archive.
	KindRecovered TransitionKind = "recovered"
	// KindCollected: the garbage collector began to delete the archives.
	KindCollected TransitionKind = "collected"
	// KindReverting: a user asked to go back to the older archive New; Old was the current one. KindReverted is
	// the result: New is the current archive since then, or empty with the reason in Message if the revert
	// failed.
	KindReverting TransitionKind = "reverting"
	KindReverted  TransitionKind = "reverted"
	// KindDozed: the workspace was idle, and its container is frozen. KindThawed: it was wanted again.
	KindDozed  TransitionKind = "dozed"
	KindThawed TransitionKind = "thawed"
)

// Transition is one row of the history of a workspace (SPEC 4). Empty strings stand for NULL.
type Transition struct {
	// ID orders the transitions of a workspace.
	ID   int64
	At   time.Time
	Kind TransitionKind
	// Old and New are values of the column that changed; Message explains New.
	Old     string `db:"old_value"`
	New     string `db:"new_value"`
	Message string
	// Cause says what made the change: "api", "gateway", "ttl", "disk", "memory", "limits", "cli", "controller", "gc".
	// UserID and Username name the user who requested it, if any.
	Cause, UserID, Username string
	// Lock and Epoch are the term of the leader that wrote it, if any.
	Lock  string `db:"lock_name"`
	Epoch int64
}

// controllerHistory returns the transitions that [Store.Save] records: the differences in the controller's
// columns that people care about. A wait is recorded when its reason changes, not with each step of its
// progress. An error is recorded once per attempt.
func controllerHistory(prev, next workspace.Workspace) []Transition {
	var out []Transition
	add := func(kind TransitionKind, from, to, message string) {
		out = append(out, Transition{Kind: kind, Old: from, New: to, Message: message})
	}
	if next.ErrorReason != "" && (next.ErrorReason != prev.ErrorReason || next.ErrorCount != prev.ErrorCount) {
		add(KindError, string(prev.ErrorReason), string(next.ErrorReason), next.ErrorMessage)
	}
	if next.Operation != prev.Operation {
		add(KindOperation, string(prev.Operation), string(next.Operation), "")
	}
	if next.Phase != prev.Phase {
		add(KindPhase, string(prev.Phase), string(next.Phase), "")
	}
	if next.HomeCtx.RevertID != prev.HomeCtx.RevertID {
		to := next.ArchiveKey
		if next.HomeCtx.RevertProblem != "" {
			to = ""
		}
		add(KindReverted, prev.ArchiveKey, to, next.HomeCtx.RevertProblem)
	}
	var was, is workspace.Waiting
	if prev.Waiting != nil {
		was = *prev.Waiting
	}
	if next.Waiting != nil {
		is = *next.Waiting
	}
	if is.Reason != was.Reason {
		add(KindWaiting, string(was.Reason), string(is.Reason), is.Message)
	}
	return out
}

// columns returns one array per column of the history, for unnest.
func columns(ts []Transition) (kinds []string, from, to, messages []*string) {
	kinds = make([]string, len(ts))
	from, to, messages = make([]*string, len(ts)), make([]*string, len(ts)), make([]*string, len(ts))
	for i, t := range ts {
		kinds[i] = string(t.Kind)
		from[i], to[i], messages[i] = postgres.NullText(t.Old), postgres.NullText(t.New), postgres.NullText(t.Message)
	}
	return kinds, from, to, messages
}

// historySQL selects what [Store.History] returns. The newest ones have the largest ids.
const historySQL = `
	SELECT h.id, h.at, h.kind, h.old_value, h.new_value, h.message, h.cause, h.user_id, u.username, h.lock_name, h.epoch
	FROM workspace_history h LEFT JOIN users u ON u.id = h.user_id
	WHERE h.workspace_id = $1 AND ($2::bigint <= 0 OR h.id < $2)
	ORDER BY h.id DESC LIMIT $3`

// History returns at most limit transitions of a workspace, the newest first, that are older than the
// transition with the id before. Zero starts with the newest.
func (s *Store) History(ctx context.Context, id workspace.ID, limit int, before int64) ([]Transition, error) {
	return postgres.Select(ctx, s.DB, "reading the history of workspace "+string(id), postgres.RowToStruct[Transition],
		historySQL, string(id), before, limit)
}

// trimHistorySQL deletes in bounded steps, so that no statement locks many rows.
const trimHistorySQL = `
	DELETE FROM workspace_history WHERE id IN (
		SELECT id FROM workspace_history WHERE at < now() - $1::interval ORDER BY at LIMIT $2)`

// TrimHistory deletes at most limit transitions that are older than olderThan, the oldest first, and returns
// how many it deleted.
func (s *Store) TrimHistory(ctx context.Context, olderThan time.Duration, limit int) (int64, error) {
	return s.Exec(ctx, "trimming the history", trimHistorySQL, olderThan, limit)
}
