package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Counts are numbers of workspaces. They include the workspaces that are not deleted, and deleted ones that are not
// completely removed yet. The latter count as DELETING.
type Counts struct {
	// Phases, Operations, Waiting and Errors count by phase, by the operation in progress, by the reason of the
	// wait and by the error.
	Phases, Operations, Waiting, Errors map[string]int64
	// Dozing counts the RUNNING ones that doze: their containers are frozen.
	Dozing int64
}

// manyCounts is how many rows the counts may have before they are compacted. There are a few hundred kinds at
// most.
const manyCounts = 2000

// The statements about the counts, which triggers maintain. None waits for a change of a workspace.
const (
	countSQL = `
		SELECT kind[1] AS phase, kind[2] AS operation, kind[3] AS waiting, kind[4] AS error, kind[5] <> '' AS dozing,
			sum(n)::bigint AS count, count(*) AS rows
		FROM workspace_counts GROUP BY kind`

	// addUpSQL replaces the rows of each kind by one row. Rows that are committed meanwhile stay beside it.
	addUpSQL = `
		WITH gone AS (DELETE FROM workspace_counts RETURNING kind, n)
		INSERT INTO workspace_counts (kind, n) SELECT kind, sum(n) FROM gone GROUP BY kind HAVING sum(n) <> 0`

	// recountSQL adds what is missing. It reads one consistent snapshot.
	recountSQL = `
		INSERT INTO workspace_counts (kind, n) SELECT kind, sum(n) FROM (
			SELECT workspace_kind(w) AS kind, count(*) AS n FROM workspaces w GROUP BY 1
			UNION ALL
			SELECT kind, -n FROM workspace_counts
		) AS c GROUP BY kind HAVING sum(n) <> 0`
)

// kindCount is the count of one kind of workspaces; Rows is how many rows that count has.
type kindCount struct {
	Phase, Operation, Waiting, Error string
	Dozing                           bool
	Count, Rows                      int64
}

// Count returns the counts. It reads no workspace, only a row for each kind and for each change since the last call. If
// nothing has been counted yet, for example because the rows were loaded without triggers, Count calls [Store.Recount]
// first.
func (s *Store) Count(ctx context.Context) (Counts, error) {
	c := Counts{
		Phases: make(map[string]int64), Operations: make(map[string]int64),
		Waiting: make(map[string]int64), Errors: make(map[string]int64),
	}
	all, err := s.countKinds(ctx)
	if err == nil && len(all) == 0 {
		if _, err = s.Recount(ctx); err == nil {
			all, err = s.countKinds(ctx)
		}
	}
	if err != nil {
		return c, err
	}
	rows := int64(0)
	for _, n := range all {
		rows += n.Rows
		if n.Count == 0 || n.Phase == string(workspace.PhaseDeleted) {
			continue
		}
		c.Phases[n.Phase] += n.Count
		if n.Operation != string(workspace.OpNone) {
			c.Operations[n.Operation] += n.Count
		}
		if n.Waiting != "" {
			c.Waiting[n.Waiting] += n.Count
		}
		if n.Error != "" {
			c.Errors[n.Error] += n.Count
		}
		if n.Dozing {
			c.Dozing += n.Count
		}
	}
	if rows <= manyCounts {
		return c, nil
	}
	_, err = s.Exec(ctx, "adding up the counts of workspaces", addUpSQL)
	return c, err
}

func (s *Store) countKinds(ctx context.Context) ([]kindCount, error) {
	return postgres.Select(ctx, s.DB, "counting workspaces", postgres.RowToStruct[kindCount], countSQL)
}

// Recount compares the counts with the workspaces, corrects them, and returns how many kinds were wrong. Counts become
// wrong when rows change without triggers, for example while a backup is loaded. It reads all workspaces, so call it
// rarely.
func (s *Store) Recount(ctx context.Context) (wrong int64, err error) {
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		// Without a lock, two concurrent calls would both add the difference. Because of the lock, the second call sees
		// what the first one has added.
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(`+exclusiveCounts+`)`); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, recountSQL)
		wrong = tag.RowsAffected()
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("comparing the counts with the workspaces: %w", err)
	}
	return wrong, nil
}

// exclusiveCounts is the key of the lock of [Store.Recount].
const exclusiveCounts = `hashtextextended('codehub counts', 0)`
