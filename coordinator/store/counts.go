package store

import (
	"context"

	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Counts are how many workspaces there are that are not deleted, and of the deleted ones those of which
// something is left to remove: they count as DELETING.
type Counts struct {
	// Phases, Operations, Waiting and Errors are by phase, by the operation in progress, by why they wait,
	// and by their error.
	Phases, Operations, Waiting, Errors map[string]int64
	// Dozing are RUNNING and doze: their containers are frozen.
	Dozing int64
}

// countSQL reads the rows that the controller watches and those with an error that stays. Of those that
// sleep or doze, and of all, an index entry each is enough. Those that are archived are what is left of all.
const countSQL = `
SELECT CASE WHEN deleted_at IS NULL THEN phase ELSE 'DELETING' END AS phase, operation,
	COALESCE(waiting ->> 'reason', '') AS waiting, COALESCE(error_reason, '') AS error, count(*) AS count
	FROM workspaces WHERE watched GROUP BY 1, 2, 3, 4
UNION ALL SELECT 'ASLEEP', 'NONE', '', '', count(*) FROM workspaces
	WHERE phase = 'STANDBY' AND operation = 'NONE' AND deleted_at IS NULL
UNION ALL SELECT 'DOZING', 'NONE', '', '', count(*) FROM workspaces WHERE doze_at IS NOT NULL AND ` + frozen + `
UNION ALL SELECT 'ERROR', 'NONE', '', COALESCE(error_reason, ''), count(*) FROM workspaces
	WHERE phase = 'ERROR' AND NOT watched AND deleted_at IS NULL GROUP BY 4
UNION ALL SELECT 'ALL', 'NONE', '', '', count(*) FROM workspaces WHERE deleted_at IS NULL`

// Count counts them. It looks at every workspace: not for every request.
func (s *Store) Count(ctx context.Context) (Counts, error) {
	type counted struct {
		Phase, Operation, Waiting, Error string
		Count                            int64
	}
	c := Counts{
		Phases: make(map[string]int64), Operations: make(map[string]int64),
		Waiting: make(map[string]int64), Errors: make(map[string]int64),
	}
	all, err := postgres.Select(ctx, s.DB, "counting workspaces", postgres.RowToStruct[counted], countSQL)
	if err != nil {
		return c, err
	}
	const archived, asleep = string(workspace.PhaseArchived), string(workspace.PhaseStandby)
	for _, n := range all {
		switch {
		case n.Phase == "ALL":
			c.Phases[archived] += n.Count
			continue
		case n.Phase == "DOZING":
			c.Dozing = n.Count
			continue
		case n.Phase == "ASLEEP":
			n.Phase = asleep
			fallthrough
		case n.Phase != archived && (n.Phase != asleep || n.Operation != string(workspace.OpNone)):
			c.Phases[n.Phase] += n.Count
			if n.Phase != string(workspace.PhaseDeleting) {
				c.Phases[archived] -= n.Count
			}
		}
		if n.Operation != string(workspace.OpNone) {
			c.Operations[n.Operation] += n.Count
		}
		if n.Waiting != "" {
			c.Waiting[n.Waiting] += n.Count
		}
		if n.Error != "" {
			c.Errors[n.Error] += n.Count
		}
	}
	return c, nil
}
