package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Arrivals are when a person came to a workspace, in any order.
type Arrivals struct {
	ID workspace.ID `db:"workspace_id"`
	At []time.Time
}

// Arrivals returns when people came since a time to the workspaces that may be started ahead, at least so many times.
func (s *Store) Arrivals(ctx context.Context, since time.Time, least int) ([]Arrivals, error) {
	return postgres.Select(ctx, s.DB, "reading when people come", postgres.RowToStruct[Arrivals], `
		SELECT a.workspace_id, array_agg(a.at) AS at FROM arrivals a JOIN workspaces w ON w.id = a.workspace_id
		WHERE a.at >= $1 AND w.start_ahead AND w.deleted_at IS NULL
		GROUP BY a.workspace_id HAVING count(*) >= $2`, since, least)
}

// Ahead is a start ahead of a person.
type Ahead struct {
	// Day is the beginning of the day that it is for. Whoever came since then is not expected.
	Day time.Time
	// Until is when the person has usually come. The workspace does not go to sleep before.
	Until time.Time
	// Why goes to the history.
	Why string
}

// roomLeft are the cases of overLimit for a start that leaves room for people: the last place of the user, and the last
// place and a tenth of all places, are theirs.
const roomLeft = `
		WHEN ` + ownRunning + ` > 0 AND ` + ownRunning + ` - 1 <=
			(SELECT count(*) FROM workspaces c WHERE c.counted AND c.owner_user_id = w.owner_user_id) THEN 'user_limit'
		WHEN @global::int > 0 AND @global - GREATEST(1, @global / 10) <= (SELECT count(*) FROM workspaces c WHERE c.counted)
			THEN 'global_limit'`

// startAheadSQL records the start in the statement that makes it: neither exists without the other, and a second one of
// the day is not made, whoever leads.
const startAheadSQL = `
WITH w AS (
	SELECT id, owner_user_id, desired_state FROM workspaces
	WHERE id = @id AND start_ahead AND deleted_at IS NULL AND operation = 'NONE' AND phase IN ('STANDBY', 'ARCHIVED')
		AND phase = desired_state AND NOT EXISTS (SELECT FROM arrivals WHERE workspace_id = @id AND at >= @since)
		AND EXISTS (SELECT FROM users u WHERE u.id = owner_user_id AND u.disabled_at IS NULL)
	FOR UPDATE
), decision AS (
	SELECT id, owner_user_id, desired_state AS was, CASE
		WHEN EXISTS (SELECT FROM predictions WHERE workspace_id = @id AND day = @day::date) THEN 'unchanged'` + roomLeft + `
		ELSE 'changed' END AS outcome
	FROM w
), recorded AS (
	INSERT INTO predictions (workspace_id, day, owner_user_id)
	SELECT id, @day::date, owner_user_id FROM decision WHERE outcome = 'changed'
), written AS (
	UPDATE workspaces SET desired_state = 'RUNNING', ahead_until = @until
	FROM decision WHERE workspaces.id = decision.id AND outcome = 'changed'
), history AS (
	INSERT INTO workspace_history (workspace_id, kind, old_value, new_value, message, cause)
	SELECT id, 'desired_state', was, 'RUNNING', @why, @cause FROM decision WHERE outcome = 'changed'
)
SELECT outcome FROM decision`

// StartAhead sets the desired state RUNNING of a workspace that is at rest, whose owner allows it and did not come on that
// day. It returns [Changed]; [Unchanged] if it has been started ahead on that day or is not such a workspace; or the limit
// that leaves no room.
func (s *Store) StartAhead(ctx context.Context, id workspace.ID, a Ahead, through string, l Limits) (Outcome, error) {
	_, outcome, err := s.change(ctx, true, id, startAheadSQL, postgres.Args{
		"per_user": l.PerUser, "global": l.Global, "id": string(id), "since": a.Day, "day": a.Day.Format(time.DateOnly),
		"until": a.Until, "why": a.Why, "cause": through,
	})
	switch {
	case errors.Is(err, postgres.ErrNotFound):
		return Unchanged, nil
	case err != nil:
		return outcome, fmt.Errorf("starting workspace %s ahead: %w", id, err)
	}
	return outcome, nil
}

// TrimArrivals deletes at most limit arrivals that are older than olderThan, the oldest first, and returns how many.
func (s *Store) TrimArrivals(ctx context.Context, olderThan time.Duration, limit int) (int64, error) {
	tag, err := s.pool.Exec(ctx, `DELETE FROM arrivals WHERE (workspace_id, at) IN (
		SELECT workspace_id, at FROM arrivals WHERE at < now() - $1::interval ORDER BY at LIMIT $2)`, olderThan, limit)
	if err != nil {
		return 0, fmt.Errorf("trimming the arrivals: %w", err)
	}
	return tag.RowsAffected(), nil
}
