package store

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/codehub/gateway/coordinator/workspace"
)

// watched, inTransition and counted are the rules of the generated columns, written in Go.
func watched(w workspace.Workspace) bool {
	switch {
	case w.Phase == workspace.PhaseDeleted, w.AwaitsGC && w.Deleted():
		return false
	case w.Operation != workspace.OpNone, w.Deleted(), w.Phase == workspace.PhaseRunning:
		return true
	case w.Phase == workspace.PhaseError:
		return !w.ErrorReason.Terminal() || w.ErrorReason.EndsWhenReady() && w.DesiredState == workspace.DesiredRunning
	}
	return w.Reverting() || string(w.Phase) != string(w.DesiredState)
}

func inTransition(w workspace.Workspace) bool {
	switch {
	case !watched(w):
		return false
	case w.Operation != workspace.OpNone:
		return true
	case w.Phase == workspace.PhaseError:
		return w.ErrorReason == ""
	}
	return w.Waiting == nil && (w.Reverting() || string(w.Phase) != string(w.DesiredState))
}

func counted(w workspace.Workspace) bool {
	holds := w.Phase != workspace.PhaseError || w.ErrorReason == "" // recovered, so on its way out of ERROR
	frozen := w.Conditions.True(workspace.Dozing) && (!w.DozeAt.IsZero() || w.DesiredState != workspace.DesiredRunning)
	return !w.Deleted() && holds && !frozen && (w.Phase == workspace.PhaseRunning || w.DesiredState == workspace.DesiredRunning)
}

// shard is the rule of the column slot, written in Go.
func shard(t testing.TB, id workspace.ID, shards int) int {
	slot, err := strconv.ParseUint(string(id[len(id)-4:]), 16, 16)
	if err != nil {
		t.Fatal(err)
	}
	return int(slot) % shards
}

// TestTheSchemasRulesAreThoseOfGo compares them for rows with every combination of values.
func TestTheSchemasRulesAreThoseOfGo(t *testing.T) {
	s := open(t)
	owner := addUser(t, s)
	exec(t, s, `INSERT INTO workspaces (owner_user_id, name, instance_backend, storage_backend, home_store_key,
			phase, operation, desired_state, deleted_at, error_reason, awaits_gc, waiting, revert, home_ctx, conditions, doze_at)
		SELECT $1, 'x', 'docker', 'docker', 'x', p, o, d, CASE d WHEN 'DELETED' THEN now() END, e, g, w, '{"id": "r"}'::jsonb, h, c, CASE WHEN z THEN now() END
		FROM unnest($2::text[]) p, unnest($3::text[]) o, unnest($4::text[]) d, unnest($5::text[] || NULL) e,
			unnest('{f,t}'::bool[]) g, unnest('{"{\"reason\": \"StoreAway\"}",NULL}'::jsonb[]) w,
			unnest('{"{\"revert_id\": \"r\"}","{}"}'::jsonb[]) h,
			(VALUES ('{}'::jsonb, false), ('{"infra.dozing": {"status": "False"}}', true), ('{"infra.dozing": {"status": "True"}}', false),
				('{"infra.dozing": {"status": "True"}}', true)) AS dozing (c, z)
		WHERE (p <> 'ERROR' OR o = 'NONE') AND (p NOT IN ('DELETING', 'DELETED') OR d = 'DELETED')`, owner,
		constants(t, "Phase"), constants(t, "Operation"), constants(t, "DesiredState"), constants(t, "ErrorReason"))
	all, err := s.workspaces(t.Context(), "reading all", `SELECT `+workspaceColumns+` FROM workspaces`)
	if err != nil || len(all) < 16000 {
		t.Fatalf("%d rows, %v", len(all), err)
	}
	running, err := s.Running(t.Context(), owner)
	if err != nil {
		t.Fatal(err)
	}
	const shards = 3
	is := map[string]map[workspace.ID]bool{"watched": {}, "in_transition": {}, "counted": {}}
	for _, w := range running {
		is["counted"][w.ID] = true
	}
	for column, transitionOnly := range map[string]bool{"watched": false, "in_transition": true} {
		for n := range shards {
			found, err := s.Candidates(t.Context(), n, shards, transitionOnly)
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range found {
				is[column][w.ID] = true
				if shard(t, w.ID, shards) != n {
					t.Errorf("%s is in shard %d, want %d", w.ID, n, shard(t, w.ID, shards))
				}
			}
		}
	}
	for column, rule := range map[string]func(workspace.Workspace) bool{"watched": watched, "in_transition": inTransition, "counted": counted} {
		for _, w := range all {
			if is[column][w.ID] != rule(w) {
				t.Errorf("%s = %v: phase %s, operation %s, desired %s, error %q, deleted %v, awaits_gc %v, waiting %v",
					column, is[column][w.ID], w.Phase, w.Operation, w.DesiredState, w.ErrorReason, w.Deleted(), w.AwaitsGC, w.Waiting)
			}
		}
	}
}

func TestASweepReadsItsShardInPages(t *testing.T) {
	s := open(t)
	owner := addUser(t, s)
	want := map[workspace.ID]bool{}
	for range 20 {
		want[add(t, s, owner, `phase = 'STANDBY'`, `desired_state = 'STANDBY'`).ID] = true
		want[add(t, s, owner, `phase = 'DELETING'`, `desired_state = 'DELETED'`, `deleted_at = now()`, `awaits_gc = true`).ID] = true
		add(t, s, owner, `phase = 'ARCHIVED'`, `desired_state = 'ARCHIVED'`)
		add(t, s, owner, `phase = 'RUNNING'`)
	}
	const shards, limit = 2, 7
	for n := range shards {
		var after workspace.ID
		for {
			page, err := s.SweepPage(t.Context(), n, shards, after, limit)
			if err != nil || len(page) > limit {
				t.Fatalf("a page of %d, %v", len(page), err)
			}
			for _, w := range page {
				if !want[w.ID] || shard(t, w.ID, shards) != n || w.ID <= after {
					t.Errorf("after %s in shard %d: %+v", after, n, w)
				}
				delete(want, w.ID)
				after = w.ID
			}
			if len(page) < limit {
				break
			}
		}
	}
	if len(want) > 0 {
		t.Errorf("not swept: %v", want)
	}
}

// crowd adds n converged workspaces in STANDBY and ARCHIVED, and a few workspaces of each kind that the queries select.
func crowd(t testing.TB, s *Store, n int) (owner string) {
	t.Helper()
	owner = addUser(t, s)
	other := addUser(t, s)
	exec(t, s, `ALTER TABLE workspaces DISABLE TRIGGER USER`)
	insert := `INSERT INTO workspaces (owner_user_id, name, instance_backend, storage_backend, home_store_key, phase, desired_state, operation, error_reason, phase_changed_at)
		SELECT $1, 'w' || i, 'docker', 'docker', 'x', $3, $4, $5, $6, now() - i * interval '1 second' FROM generate_series(1, $2) i`
	var null *string
	terminal := "DataLost"
	exec(t, s, insert, other, n/2, "STANDBY", "STANDBY", "NONE", null)
	exec(t, s, insert, other, n/2, "ARCHIVED", "ARCHIVED", "NONE", null)
	// Deleted ones with an archive left wait for the garbage collector.
	exec(t, s, insert, other, n/100, "ARCHIVED", "ARCHIVED", "NONE", null)
	exec(t, s, `UPDATE workspaces SET phase = 'DELETING', desired_state = 'DELETED', deleted_at = now(), awaits_gc = true
		WHERE id IN (SELECT id FROM workspaces WHERE phase = 'ARCHIVED' LIMIT $1)`, n/100)
	exec(t, s, insert, owner, 20, "RUNNING", "RUNNING", "NONE", null)
	exec(t, s, insert, owner, 5, "STANDBY", "RUNNING", "NONE", null)
	exec(t, s, insert, owner, 5, "STANDBY", "RUNNING", "STARTING", null)
	exec(t, s, insert, owner, 5, "ERROR", "STANDBY", "NONE", null)
	exec(t, s, insert, owner, 50, "ERROR", "STANDBY", "NONE", &terminal)
	exec(t, s, `ALTER TABLE workspaces ENABLE TRIGGER USER`)
	exec(t, s, `VACUUM ANALYZE workspaces`)
	return owner
}

func TestFrequentQueriesUseAnIndexOf100000Rows(t *testing.T) {
	s := open(t)
	owner := crowd(t, s, 100_000)
	perUser := `SELECT count(*) FROM workspaces c WHERE c.counted AND c.owner_user_id = '` + owner + `'`
	literal := func(sql string, arguments ...string) string { return strings.NewReplacer(arguments...).Replace(sql) }
	// The second page of a list. The table of users is too small for an index.
	list := func(f Filter) string {
		sql, _ := f.statement(51, &Cursor{})
		return literal(sql, ownersName, "NULL", "@owner", "'"+owner+"'", "@limit", "51",
			"@key", "'4102444800000000'", "@id", "'ffffffff-ffff-ffff-ffff-ffffffffffff'")
	}
	shard := []string{"@shards", "8", "@shard", "3", "@after", "'" + string(noID) + "'", "@limit", "500"}
	for _, c := range []struct{ name, sql, index string }{
		{"candidates", literal(candidatesSQL, "@shards", "1", "@shard", "0"), "workspaces_watched"},
		{"candidates of a shard", literal(candidatesSQL, shard...), "workspaces_watched"},
		{"in transition", literal(transitionalSQL, shard...), "workspaces_in_transition"},
		{"sweep", literal(sweepSQL, shard...), "workspaces_sweep"},
		{"running of a user", perUser, "workspaces_counted"},
		{"running globally", `SELECT count(*) FROM workspaces c WHERE c.counted`, "workspaces_counted"},
		{"unused", literal(unusedSQL, "@ttl", "'10 minutes'", "@idle", "'10 minutes'",
			"@after_id", "'"+string(noID)+"'", "@after", "'-infinity'", "@limit", "100"), "workspaces_idle"},
		{"long in standby", literal(expiredStandbySQL, "@ttl", "'2 days'", "@limit", "100"), "workspaces_asleep"},
		{"in ERROR for a reason", literal(failedSQL, "$1", "'DataLost'", "$2", "'"+string(noID)+"'", "$3", "500"), "workspaces_failed"},
		{"a user's deleted ones", list(Filter{Owner: owner, Deleted: true, Order: ByDeletion, Descending: true}), "workspaces_undeletable"},
		{"a user's list", list(Filter{Owner: owner, Order: ByCreation, Descending: true}), "workspaces_owned"},
		{"all users' list", list(Filter{Order: ByCreation, Descending: true}), "workspaces_created"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var plans []struct {
				Plan map[string]any
			}
			text := value[string](t, s, `EXPLAIN (FORMAT JSON, ANALYZE, TIMING OFF) `+c.sql)
			if err := json.Unmarshal([]byte(text), &plans); err != nil {
				t.Fatal(err)
			}
			nodes := walk(plans[0].Plan)
			if slices.Contains(nodes, "Seq Scan ") || !slices.ContainsFunc(nodes, func(n string) bool { return strings.HasSuffix(n, " "+c.index) }) {
				t.Errorf("plan does not read %s: %q\n%s", c.index, nodes, text)
			}
		})
	}
	t.Run("the count is that of all rows", func(t *testing.T) {
		counts, err := s.Count(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		all, err := s.Overview(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for name, c := range map[string]struct {
			got  map[string]int64
			want []Count
		}{
			"phases": {counts.Phases, all.Phases}, "operations": {counts.Operations, all.Operations},
			"waits": {counts.Waiting, all.Waiting}, "errors": {counts.Errors, all.Errors},
		} {
			want := make(map[string]int64)
			for _, n := range c.want {
				want[n.Of] = int64(n.Count)
			}
			if !maps.Equal(c.got, want) {
				t.Errorf("%s are %v, want %v", name, c.got, want)
			}
		}
	})
	for _, c := range []struct {
		transitionOnly bool
		want           int
	}{{false, 35}, {true, 15}} {
		before := rowsRead(t, s)
		found, err := s.Candidates(t.Context(), 0, 1, c.transitionOnly)
		if err != nil || len(found) != c.want {
			t.Errorf("Candidates(transitionOnly %v) returns %d rows, %v; want %d", c.transitionOnly, len(found), err, c.want)
		}
		if n := rowsRead(t, s) - before; n != int64(c.want) {
			t.Errorf("Candidates(transitionOnly %v) reads %d rows of the table for %d", c.transitionOnly, n, c.want)
		}
	}
}

// rowsRead returns how many rows of workspaces have been read so far, by scans of the table and through its indexes.
func rowsRead(t testing.TB, s *Store) int64 {
	t.Helper()
	// Each server process reports its counters when it is idle, at the latest after a second.
	for _, c := range s.pool.AcquireAllIdle(t.Context()) {
		if _, err := c.Exec(t.Context(), `SELECT pg_stat_force_next_flush()`); err != nil {
			t.Fatal(err)
		}
		c.Release()
	}
	return value[int64](t, s, `SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_user_tables WHERE relname = 'workspaces'`)
}

// walk lists the nodes of a plan as "type index".
func walk(plan map[string]any) []string {
	index, _ := plan["Index Name"].(string)
	out := []string{plan["Node Type"].(string) + " " + index}
	children, _ := plan["Plans"].([]any)
	for _, c := range children {
		out = append(out, walk(c.(map[string]any))...)
	}
	return out
}
