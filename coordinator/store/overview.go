package store

import (
	"context"
	"time"

	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Overview summarises all workspaces of the installation for administrators.
type Overview struct {
	// Phases, Waiting and Errors count the workspaces that are not deleted: by phase, by the reason for their wait, and
	// by error. Operations counts those with an operation in progress.
	Phases, Operations, Waiting, Errors []Count
	// Running is the number of workspaces that count against the global limit (SPEC 5). Dozing is the number of frozen
	// workspaces, which do not count against it. Deleted is the number of deleted workspaces that can still be
	// undeleted.
	Running, Dozing, Deleted int
	// DeletedBytes is the space that these deleted workspaces take up: their archives, and homes on remaining volumes.
	DeletedBytes int64
	// HomeBytes is the total size of the homes that were measured.
	HomeBytes int64
	Users     int
	Leaders   []Leader
}

// Count is a number of workspaces of a kind.
type Count struct {
	Of    string
	Count int
}

// Leader names the process that leads a shard (or all workspaces, if there are no shards), and says since when it has
// led. Its term may have ended since.
type Leader struct {
	Lock  string `db:"lock_name"`
	Node  string `db:"holder_id"`
	Epoch int64
	Since time.Time `db:"acquired_at"`
}

// Overview computes the overview. It reads every workspace, so call it rarely.
func (s *Store) Overview(ctx context.Context) (o Overview, err error) {
	type counted struct {
		Kind string
		Count
	}
	all, err := postgres.Select(ctx, s.DB, "counting workspaces", postgres.RowToStruct[counted], `
		WITH w AS (
			SELECT phase, operation, waiting ->> 'reason' AS waits, error_reason FROM workspaces WHERE deleted_at IS NULL
		)
		SELECT 'phase' AS kind, phase AS of, count(*) AS count FROM w GROUP BY phase
		UNION ALL SELECT 'operation', operation, count(*) FROM w WHERE operation <> 'NONE' GROUP BY operation
		UNION ALL SELECT 'waiting', waits, count(*) FROM w WHERE waits IS NOT NULL GROUP BY waits
		UNION ALL SELECT 'error', error_reason, count(*) FROM w WHERE error_reason IS NOT NULL GROUP BY error_reason
		ORDER BY 1, 3 DESC, 2`)
	if err != nil {
		return o, err
	}
	into := map[string]*[]Count{"phase": &o.Phases, "operation": &o.Operations, "waiting": &o.Waiting, "error": &o.Errors}
	for _, c := range all {
		*into[c.Kind] = append(*into[c.Kind], c.Count)
	}
	sums, err := postgres.SelectOne(ctx, s.DB, "counting users and homes", postgres.RowToStruct[struct {
		Running, Dozing, Deleted, Users int
		HomeBytes, DeletedBytes         int64
	}], `
		SELECT count(*) FILTER (WHERE counted) AS running, count(*) FILTER (WHERE doze_at IS NOT NULL AND `+frozen+`) AS dozing, count(*) FILTER (WHERE `+undeletable+`) AS deleted,
			COALESCE(sum(home_bytes) FILTER (WHERE deleted_at IS NULL), 0)::bigint AS home_bytes,
			COALESCE(sum(CASE WHEN `+undeletable+` THEN `+keptBytes+` END), 0)::bigint AS deleted_bytes,
			(SELECT count(*) FROM users) AS users
		FROM workspaces`)
	if err != nil {
		return o, err
	}
	o.Running, o.Dozing, o.Deleted, o.Users, o.HomeBytes = sums.Running, sums.Dozing, sums.Deleted, sums.Users, sums.HomeBytes
	o.DeletedBytes = sums.DeletedBytes
	o.Leaders, err = postgres.Select(ctx, s.DB, "reading who leads", postgres.RowToStruct[Leader], `
		SELECT lock_name, holder_id, epoch, acquired_at FROM system_locks WHERE lock_name LIKE 'coordinator%' ORDER BY lock_name`)
	return o, err
}

// Event is a transition of any workspace.
type Event struct {
	Transition
	WorkspaceID workspace.ID
	Name        string
	Owner       string
}

// Events returns at most limit transitions of all workspaces, like [Store.History]. Waits are omitted, as they
// come and go.
func (s *Store) Events(ctx context.Context, limit int, before int64) ([]Event, error) {
	return postgres.Select(ctx, s.DB, "reading the history of all workspaces", postgres.RowToStruct[Event], `
		SELECT h.id, h.at, h.kind, h.old_value, h.new_value, h.message, h.cause, h.user_id, u.username, h.lock_name, h.epoch,
			h.workspace_id, w.name, o.username AS owner
		FROM workspace_history h JOIN workspaces w ON w.id = h.workspace_id JOIN users o ON o.id = w.owner_user_id
			LEFT JOIN users u ON u.id = h.user_id
		WHERE h.kind <> 'waiting' AND ($1::bigint <= 0 OR h.id < $1)
		ORDER BY h.id DESC LIMIT $2`, before, limit)
}
