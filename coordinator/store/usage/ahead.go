package usage

import (
	"context"
	"fmt"
	"time"

	"github.com/codehub/gateway/coordinator/store/postgres"
)

// Ahead is what became of workspaces that were started ahead of their owners (SPEC 15).
type Ahead struct {
	// Started is how many were, Opened how many of them their owners have opened, and Waiting how many still wait for that.
	Started, Opened, Waiting int
	// Awake is for how long they were started before they were opened or given up: what it has cost.
	Awake time.Duration
}

// Ahead returns that of the starts from the first day up to the last one, which is not part of it, by the days of the time zone of
// `ttl predict`. A user's id or name leaves out all others.
func (s *Store) Ahead(ctx context.Context, from, to time.Time, user string) (Ahead, error) {
	args := postgres.Args{"from": from.Format(time.DateOnly), "to": to.Format(time.DateOnly)}
	if user != "" {
		args["user"] = user
	}
	type row struct {
		Started, Opened, Waiting int
		Micros                   int64
	}
	r, err := postgres.SelectOne(ctx, s.db, "reading what became of starts ahead", postgres.RowToStruct[row], owned(`
		SELECT count(*) AS started, count(*) FILTER (WHERE opened) AS opened, count(*) FILTER (WHERE ended_at IS NULL) AS waiting,
			(EXTRACT(epoch FROM sum(GREATEST(COALESCE(ended_at, now()) - at, '0'))) * 1000000)::bigint AS micros
		FROM predictions s WHERE day >= @from::date AND day < @to::date @owned`, user), args)
	return Ahead{r.Started, r.Opened, r.Waiting, time.Duration(r.Micros) * time.Microsecond}, err
}

// TrimAhead deletes at most limit starts ahead that are older than olderThan, the oldest first, and returns how many.
func (s *Store) TrimAhead(ctx context.Context, olderThan time.Duration, limit int) (int64, error) {
	tag, err := s.db.Pool().Exec(ctx, `DELETE FROM predictions WHERE (workspace_id, day) IN (
		SELECT workspace_id, day FROM predictions WHERE day < now() - $1::interval ORDER BY day LIMIT $2)`, olderThan, limit)
	if err != nil {
		return 0, fmt.Errorf("trimming the starts ahead: %w", err)
	}
	return tag.RowsAffected(), nil
}
