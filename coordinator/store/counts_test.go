package store

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/codehub/gateway/coordinator/seed"
	"github.com/codehub/gateway/coordinator/store/postgres"
)

// fullCountSQL counts by reading every workspace; triggersSQL reads the counts that the triggers maintain.
const (
	fullCountSQL = `SELECT CASE WHEN deleted_at IS NULL THEN phase WHEN watched THEN 'DELETING' ELSE 'DELETED' END || ' ' || operation || ' '
		|| COALESCE(waiting ->> 'reason', '') || ' ' || COALESCE(error_reason, '') || ' '
		|| CASE WHEN doze_at IS NOT NULL AND ` + frozen + ` THEN 'dozing' ELSE '' END AS kind, count(*) AS n FROM workspaces GROUP BY 1`
	triggersSQL = `SELECT array_to_string(kind, ' ') AS kind, sum(n)::bigint AS n FROM workspace_counts GROUP BY 1 HAVING sum(n) <> 0`
)

// checkCounts compares both in one snapshot.
func checkCounts(t *testing.T, s *Store) {
	t.Helper()
	wrong, err := postgres.Select(t.Context(), s.DB, "comparing", pgx.RowTo[string],
		`SELECT f.kind || ': ' || f.n || ' in the rows' FROM (`+fullCountSQL+`) AS f WHERE NOT EXISTS (SELECT FROM (`+triggersSQL+`) AS t WHERE t.kind = f.kind AND t.n = f.n)
		UNION ALL SELECT t.kind || ': ' || t.n || ' counted' FROM (`+triggersSQL+`) AS t WHERE NOT EXISTS (SELECT FROM (`+fullCountSQL+`) AS f WHERE t.kind = f.kind AND t.n = f.n)`)
	if err != nil || len(wrong) > 0 {
		t.Fatalf("%q, %v", wrong, err)
	}
}

// randomChange is a statement that changes some workspaces, or adds or deletes them.
func randomChange(r *rand.Rand, owner string) string {
	one := func(of ...string) string { return of[r.IntN(len(of))] }
	where := fmt.Sprintf(` WHERE abs(hashtext(id::text)) %% 4 = %d`, r.IntN(4))
	switch r.IntN(9) {
	case 0:
		return fmt.Sprintf(`INSERT INTO workspaces (owner_user_id, name, instance_backend, storage_backend, home_store_key, phase)
			SELECT '%s', 'notes', 'docker', 'docker', 'home', '%s' FROM generate_series(1, %d)`, owner, one("PENDING", "STANDBY"), r.IntN(5))
	case 1:
		return `DELETE FROM workspaces` + fmt.Sprintf(` WHERE abs(hashtext(id::text)) %% 40 = %d`, r.IntN(40))
	case 2:
		return `UPDATE workspaces SET deleted_at = now(), desired_state = 'DELETED'` + where
	case 3:
		return `UPDATE workspaces SET deleted_at = NULL, desired_state = 'STANDBY', phase = CASE phase WHEN 'DELETED' THEN 'ARCHIVED' ELSE phase END` + where
	case 4:
		return `UPDATE workspaces SET operation = 'NONE', phase = '` + one("ERROR", "RUNNING", "STANDBY", "ARCHIVED", "DELETED") + `', error_reason = ` +
			one("NULL", "'Timeout'", "'DataLost'") + where
	case 5:
		return `UPDATE workspaces SET operation = '` + one("NONE", "STARTING", "ARCHIVING") + `'` + where + ` AND phase <> 'ERROR'`
	case 6:
		return `UPDATE workspaces SET waiting = ` + one("NULL", `'{"reason": "JobQueued"}'`, `'{"reason": "JobQueued", "ahead": 3}'`, `'{"reason": "NodeAway"}'`) + where
	case 7:
		return `UPDATE workspaces SET doze_at = ` + one("NULL", "now()") +
			`, conditions = ` + one(`'{}'`, `'{"infra.dozing": {"status": "True"}}'`, `'{"infra.dozing": {"status": "False"}}'`) + where
	}
	if r.IntN(2) == 0 {
		return `UPDATE workspaces SET awaits_gc = NOT awaits_gc` + where
	}
	return `UPDATE workspaces SET last_access_at = clock_timestamp(), name = 'renamed'` + where
}

// TestTheCountsAreWhatAFullCountSays: two connections change workspaces at random and roll some changes back.
// The counts match a full count at every moment, also while they are being compacted and compared.
func TestTheCountsAreWhatAFullCountSays(t *testing.T) {
	seed.Each(t, func(t *testing.T, r *rand.Rand) {
		s := open(t)
		owner := addUser(t, s)
		var writers sync.WaitGroup
		for range 2 {
			random := rand.New(rand.NewPCG(r.Uint64(), 0))
			writers.Go(func() {
				for range 40 {
					tx, err := s.pool.Begin(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					// The other connection may have locked the same rows in another order. If PostgreSQL aborts this
					// transaction because of that, roll it back.
					for range 1 + random.IntN(3) {
						if _, err = tx.Exec(t.Context(), randomChange(random, owner)); err != nil {
							break
						}
					}
					switch {
					case err != nil && !strings.Contains(err.Error(), "40P01"):
						t.Error(err)
						return
					case err != nil || random.IntN(4) == 0:
						err = tx.Rollback(t.Context())
					default:
						err = tx.Commit(t.Context())
					}
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		ended := make(chan struct{})
		go func() { writers.Wait(); close(ended) }()
		for more := true; more; {
			select {
			case <-ended:
				more = false
			default:
			}
			checkCounts(t, s)
			switch r.IntN(3) {
			case 0:
				exec(t, s, addUpSQL)
			case 1:
				if wrong, err := s.Recount(t.Context()); err != nil || wrong != 0 {
					t.Errorf("%d kinds are wrong, %v", wrong, err)
				}
			}
		}
		checkCounts(t, s)
	})
}

// TestWrongCountsArePutRight: wrong counts are corrected exactly once, even if two processes correct them at the same
// time while others write.
func TestWrongCountsArePutRight(t *testing.T) {
	s := open(t)
	owner := addUser(t, s)
	exec(t, s, `ALTER TABLE workspaces DISABLE TRIGGER USER`)
	exec(t, s, `INSERT INTO workspaces (owner_user_id, name, instance_backend, storage_backend, home_store_key, phase)
		SELECT $1, 'notes', 'docker', 'docker', 'home', 'STANDBY' FROM generate_series(1, 300)`, owner)
	exec(t, s, `ALTER TABLE workspaces ENABLE TRIGGER USER`)
	exec(t, s, `INSERT INTO workspace_counts VALUES ('{RUNNING,NONE,"","",""}', 7)`)
	results := make([]int64, 3)
	var all sync.WaitGroup
	for i := range results {
		all.Go(func() {
			var err error
			if results[i], err = s.Recount(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if slices.Sort(results); !slices.Equal(results, []int64{0, 0, 2}) {
		t.Errorf("%d kinds were wrong", results)
	}
	checkCounts(t, s)
}

// TestTheCensusReadsKindsAndNotWorkspaces: counting reads one row per kind and no workspace. The number of these rows
// stays small, however many changes there were.
func TestTheCensusReadsKindsAndNotWorkspaces(t *testing.T) {
	s := open(t)
	owner := addUser(t, s)
	exec(t, s, `INSERT INTO workspaces (owner_user_id, name, instance_backend, storage_backend, home_store_key, phase)
		SELECT $1, 'notes', 'docker', 'docker', 'home', CASE WHEN i % 4 = 0 THEN 'STANDBY' ELSE 'ARCHIVED' END FROM generate_series(1, 5000) i`, owner)
	counts, err := s.Count(t.Context())
	if err != nil || !maps.Equal(counts.Phases, map[string]int64{"STANDBY": 1250, "ARCHIVED": 3750}) {
		t.Errorf("%+v, %v", counts, err)
	}
	if n := value[int64](t, s, `SELECT count(*) FROM workspace_counts`); n != 2 {
		t.Errorf("two kinds have %d rows", n)
	}
	tx, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	read := func() (n int64) {
		t.Helper()
		if err := tx.QueryRow(t.Context(), `SELECT sum(seq_tup_read + COALESCE(idx_tup_fetch, 0))::bigint FROM pg_stat_xact_user_tables
			WHERE relname LIKE 'workspace%'`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := read()
	if _, err := tx.Exec(t.Context(), countSQL); err != nil {
		t.Fatal(err)
	}
	if n := read() - before; n != 2 {
		t.Errorf("the census reads %d rows", n)
	}
}
