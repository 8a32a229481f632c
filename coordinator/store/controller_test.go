package store

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

var fence = Fence{Lock: "coordinator", Epoch: 7}

func lead(t testing.TB, s *Store) {
	t.Helper()
	exec(t, s, `INSERT INTO system_locks (lock_name, holder_id, epoch) VALUES ($1, 'me', $2)`, fence.Lock, fence.Epoch)
}

// micros is a time as PostgreSQL keeps it.
func micros(t time.Time) time.Time { return t.Truncate(time.Microsecond).UTC() }

func TestSaveWritesOnlyTheControllersColumns(t *testing.T) {
	s := open(t)
	lead(t, s)
	w := add(t, s, addUser(t, s))
	if w.Phase != workspace.PhasePending || w.Operation != workspace.OpNone || w.DesiredState != workspace.DesiredRunning ||
		w.Conditions == nil || w.CreatedAt.IsZero() || w.PhaseChangedAt.IsZero() || !w.LastAccessAt.IsZero() ||
		value[string](t, s, `SELECT home_store_key FROM workspaces`) != w.ID.VolumeName() {
		t.Fatalf("a new workspace is %+v", w)
	}
	now := micros(time.Now())
	next := w
	next.Conditions = workspace.Conditions{workspace.VolumeReady: {Status: "True", Reason: "Found", Message: "ä", LastTransitionTime: now}}
	next.ObservedAt = now
	next.Phase, next.PhaseChangedAt = workspace.PhaseStandby, now.Add(-time.Second)
	next.Operation, next.OpStartedAt = workspace.OpArchiving, now.Add(-time.Minute)
	next.ArchiveOpID = uuid.NewString()
	next.ArchiveKey = w.ID.ArchiveKey(next.ArchiveOpID)
	next.HomeCtx = workspace.HomeContext{RestoreMarker: next.ArchiveKey, RestoreOpID: "r", Dirty: true, Crashes: 2}
	next.Endpoint = "10.0.0.1:8080"
	next.ErrorReason, next.ErrorMessage, next.ErrorCount = workspace.ReasonActionFailed, "it failed", 2
	next.Waiting = &workspace.Waiting{Reason: "StoreAway", Message: "no answer", Since: now}
	asked := next
	// These belong to other writers.
	asked.Name, asked.Description, asked.Memo, asked.ImageRef = "other", "other", "other", "other"
	asked.DesiredState, asked.LastAccessAt, asked.DeletedAt = workspace.DesiredArchived, now, now
	asked.DeleteNow, asked.CollectedAt, asked.Recovery, asked.Revision = true, now, &workspace.Recovery{ID: "r"}, 1_000_000
	asked.AwaitsGC = true // of no meaning for a workspace that is not deleted
	if saved, err := s.Save(t.Context(), fence, w, asked); !saved || err != nil {
		t.Fatalf("Save = %v, %v", saved, err)
	}
	got := read(t, s, w.ID)
	if got.Revision <= w.Revision {
		t.Errorf("revision %d after %d", got.Revision, w.Revision)
	}
	next.UpdatedAt, next.Revision = got.UpdatedAt, got.Revision
	if !reflect.DeepEqual(got, next) {
		t.Errorf("read\n%+v, want\n%+v", got, next)
	}

	// And back to NULL.
	cleared := w
	cleared.Conditions, cleared.HomeCtx = nil, workspace.HomeContext{}
	if saved, err := s.Save(t.Context(), fence, got, cleared); !saved || err != nil {
		t.Fatalf("Save = %v, %v", saved, err)
	}
	back := read(t, s, w.ID)
	w.PhaseChangedAt, w.UpdatedAt, w.Revision = cleared.PhaseChangedAt, back.UpdatedAt, back.Revision
	if !reflect.DeepEqual(back, w) {
		t.Errorf("read\n%+v, want\n%+v", back, w)
	}
	nulls := value[int](t, s, `SELECT num_nulls(observed_at, op_started_at, archive_op_id, archive_key, endpoint, error_reason, error_message, waiting) FROM workspaces`)
	if nulls != 8 {
		t.Errorf("%d columns are NULL, want 8", nulls)
	}
}

func TestOnlyADeletedWorkspaceAwaitsTheGC(t *testing.T) {
	s := open(t)
	lead(t, s)
	w := add(t, s, addUser(t, s), `phase = 'DELETING'`, `deleted_at = now()`, `desired_state = 'DELETED'`)
	next := w
	next.AwaitsGC = true
	if saved, err := s.Save(t.Context(), fence, w, next); !saved || err != nil || !read(t, s, w.ID).AwaitsGC {
		t.Fatalf("Save = %v, %v; %+v", saved, err, read(t, s, w.ID))
	}
	if _, outcome, err := s.Undelete(t.Context(), Viewer{All: true, Through: "api"}, w.ID, Limits{}); outcome != Changed || err != nil {
		t.Fatalf("Undelete = %s, %v", outcome, err)
	}
	// The controller writes what it has read, and means nothing by it.
	back := read(t, s, w.ID)
	if found, err := s.Candidates(t.Context(), 0, 1, true); len(found) != 1 || err != nil {
		t.Errorf("a tick observes %v, %v; want the one whose deletion was undone", found, err)
	}
	if saved, err := s.Save(t.Context(), fence, back, back); !saved || err != nil || read(t, s, w.ID).AwaitsGC {
		t.Errorf("Save = %v, %v; %+v", saved, err, read(t, s, w.ID))
	}
}

func TestSaveFailsAfterAnotherWrite(t *testing.T) {
	s := open(t)
	lead(t, s)
	owner := addUser(t, s)
	for _, other := range []string{
		`operation = 'STARTING'`,
		`op_started_at = now()`,
		`desired_state = 'STANDBY'`,
		`deleted_at = now(), desired_state = 'DELETED'`,
		`phase = 'STANDBY'`,
		`error_reason = 'Timeout'`,
		`error_count = 1`,
	} {
		prev := add(t, s, owner)
		exec(t, s, `UPDATE workspaces SET `+other+` WHERE id = $1`, string(prev.ID))
		before := read(t, s, prev.ID)
		next := prev
		next.Operation, next.Endpoint = workspace.OpProvisioning, "mine"
		saved, err := s.Save(t.Context(), fence, prev, next)
		if saved || err != nil {
			t.Errorf("after %s: Save = %v, %v", other, saved, err)
		}
		if got := read(t, s, prev.ID); !reflect.DeepEqual(got, before) {
			t.Errorf("after %s: Save changed the row", other)
		}
		if saved, err := s.Save(t.Context(), fence, before, before); !saved || err != nil {
			t.Errorf("after %s: Save of the present row = %v, %v", other, saved, err)
		}
	}
	gone := add(t, s, owner)
	exec(t, s, `DELETE FROM workspaces WHERE id = $1`, string(gone.ID))
	if saved, err := s.Save(t.Context(), fence, gone, gone); saved || err != nil {
		t.Errorf("Save of a deleted row = %v, %v", saved, err)
	}
}

func TestSaveOfAFormerLeaderWritesNothing(t *testing.T) {
	s := open(t)
	w := add(t, s, addUser(t, s))
	next := w
	next.Endpoint = "stale"
	try := func(what string, f Fence) {
		t.Helper()
		if saved, err := s.Save(t.Context(), f, w, next); saved || err != nil {
			t.Errorf("%s: Save = %v, %v", what, saved, err)
		}
		if got := read(t, s, w.ID); !reflect.DeepEqual(got, w) {
			t.Errorf("%s: the row changed", what)
		}
	}
	try("without a leader", fence)
	lead(t, s)
	try("an older epoch", Fence{fence.Lock, fence.Epoch - 1})
	try("a later epoch", Fence{fence.Lock, fence.Epoch + 1})
	try("another lock", Fence{"shard-1", fence.Epoch})
}

// A write that is sent while the next leader takes over must not succeed between the
// update of the epoch and its commit.
func TestSaveWaitsForATakeoverAndThenFails(t *testing.T) {
	s := open(t)
	lead(t, s)
	w := add(t, s, addUser(t, s))
	tx, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `UPDATE system_locks SET epoch = epoch + 1`); err != nil {
		t.Fatal(err)
	}
	type result struct {
		saved bool
		err   error
	}
	done := make(chan result)
	go func() {
		next := w
		next.Endpoint = "stale"
		saved, err := s.Save(t.Context(), fence, w, next)
		done <- result{saved, err}
	}()
	waitForLock(t, s)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := <-done; r.saved || r.err != nil {
		t.Errorf("Save = %v, %v", r.saved, r.err)
	}
}

// waitForLock returns when a statement waits for a lock.
func waitForLock(t testing.TB, s *Store) {
	t.Helper()
	wait.Until(t, "a statement waits for a lock", func() bool {
		return value[bool](t, s, `SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND pid IN (
			SELECT pid FROM pg_stat_activity WHERE datname = current_database()))`)
	})
}

func TestErrorIsOneStatementAndChangesPhaseChangedAtOnce(t *testing.T) {
	s := open(t)
	lead(t, s)
	w := add(t, s, addUser(t, s), `operation = 'PROVISIONING'`, `op_started_at = now()`, `phase_changed_at = now() - interval '1 hour'`)
	failed := w
	failed.Phase, failed.Operation, failed.OpStartedAt = workspace.PhaseError, workspace.OpNone, time.Time{}
	failed.PhaseChangedAt = micros(time.Now())
	failed.ErrorReason, failed.ErrorCount = workspace.ReasonTimeout, 1
	if saved, err := s.Save(t.Context(), fence, w, failed); !saved || err != nil {
		t.Fatalf("Save = %v, %v", saved, err)
	}
	got := read(t, s, w.ID)
	if got.Phase != workspace.PhaseError || got.Operation != workspace.OpNone || got.ErrorReason != workspace.ReasonTimeout || got.ErrorCount != 1 {
		t.Errorf("row is %+v", got)
	}
	if !got.PhaseChangedAt.Equal(failed.PhaseChangedAt) {
		t.Errorf("phase_changed_at = %v, want %v", got.PhaseChangedAt, failed.PhaseChangedAt)
	}
	again := got
	again.PhaseChangedAt = got.PhaseChangedAt.Add(time.Hour)
	if saved, err := s.Save(t.Context(), fence, got, again); !saved || err != nil {
		t.Fatalf("Save = %v, %v", saved, err)
	}
	if v := read(t, s, w.ID).PhaseChangedAt; !v.Equal(got.PhaseChangedAt) {
		t.Errorf("phase_changed_at moved to %v without a change of phase", v)
	}
	again.Operation = workspace.OpStarting
	if _, err := s.Save(t.Context(), fence, got, again); err == nil || !strings.Contains(err.Error(), "error_has_no_operation") {
		t.Errorf("ERROR with an operation: %v", err)
	}
}

// watched, inTransition and counted are the rules of the generated columns, written
// in Go.
func watched(w workspace.Workspace) bool {
	switch {
	case w.Phase == workspace.PhaseDeleted, w.AwaitsGC && w.Deleted():
		return false
	case w.Operation != workspace.OpNone, w.Deleted(), w.Phase == workspace.PhaseRunning:
		return true
	case w.Phase == workspace.PhaseError:
		return !w.ErrorReason.Terminal()
	}
	return string(w.Phase) != string(w.DesiredState)
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
	return w.Waiting == nil && string(w.Phase) != string(w.DesiredState)
}

func counted(w workspace.Workspace) bool {
	holds := w.Phase != workspace.PhaseError || w.ErrorReason == "" // recovered, so on its way out of ERROR
	return !w.Deleted() && holds && (w.Phase == workspace.PhaseRunning || w.DesiredState == workspace.DesiredRunning)
}

// shard is the rule of the column slot, written in Go.
func shard(t testing.TB, id workspace.ID, shards int) int {
	slot, err := strconv.ParseUint(string(id[len(id)-4:]), 16, 16)
	if err != nil {
		t.Fatal(err)
	}
	return int(slot) % shards
}

// TestTheSchemasRulesAreThoseOfGo compares them for rows with every combination of
// values.
func TestTheSchemasRulesAreThoseOfGo(t *testing.T) {
	s := open(t)
	owner := addUser(t, s)
	exec(t, s, `INSERT INTO workspaces (owner_user_id, name, instance_backend, storage_backend, home_store_key,
			phase, operation, desired_state, deleted_at, error_reason, awaits_gc, waiting)
		SELECT $1, 'x', 'docker', 'docker', 'x', p, o, d, CASE d WHEN 'DELETED' THEN now() END, e, g, w
		FROM unnest($2::text[]) p, unnest($3::text[]) o, unnest($4::text[]) d, unnest($5::text[] || NULL) e,
			unnest('{f,t}'::bool[]) g, unnest('{"{\"reason\": \"StoreAway\"}",NULL}'::jsonb[]) w
		WHERE (p <> 'ERROR' OR o = 'NONE') AND (p NOT IN ('DELETING', 'DELETED') OR d = 'DELETED')`, owner,
		constants(t, "Phase"), constants(t, "Operation"), constants(t, "DesiredState"), constants(t, "ErrorReason"))
	all, err := s.workspaces(t.Context(), "reading all", `SELECT `+workspaceColumns+` FROM workspaces`)
	if err != nil || len(all) < 4000 {
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

// crowd adds n converged workspaces in STANDBY and ARCHIVED, and a few of each kind
// that the queries select.
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
	// Deleted ones of which an archive is left wait for the garbage collector.
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
	literal := func(sql string, args ...string) string {
		for i, a := range args {
			sql = strings.ReplaceAll(sql, fmt.Sprintf("$%d", i+1), a)
		}
		return sql
	}
	for _, c := range []struct{ name, sql, index string }{
		{"candidates", literal(candidatesSQL, "0", "1"), "workspaces_watched"},
		{"candidates of a shard", literal(candidatesSQL, "3", "8"), "workspaces_watched"},
		{"in transition", literal(transitionalSQL, "3", "8"), "workspaces_in_transition"},
		{"sweep", literal(sweepSQL, "3", "8", "'"+string(noID)+"'", "500"), "workspaces_sweep"},
		{"running of a user", perUser, "workspaces_counted"},
		{"running globally", `SELECT count(*) FROM workspaces c WHERE c.counted`, "workspaces_counted"},
		{"unused", literal(expiredRunningSQL, "'10 minutes'", "100"), "workspaces_idle"},
		{"long in standby", literal(expiredStandbySQL, "'2 days'", "100"), "workspaces_asleep"},
		{"in ERROR for a reason", literal(failedSQL, "'DataLost'", "'"+string(noID)+"'", "500"), "workspaces_failed"},
		{"a user's deleted ones", literal(listOwnDeletedSQL, "'infinity'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'", "51", "'"+owner+"'"), "workspaces_undeletable"},
		{"a user's list", `SELECT * FROM workspaces WHERE owner_user_id = '` + owner + `' AND deleted_at IS NULL
			AND (created_at, id) < ('infinity', 'ffffffff-ffff-ffff-ffff-ffffffffffff') ORDER BY created_at DESC, id DESC LIMIT 51`, "workspaces_owned"},
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

// rowsRead is how many rows of workspaces were read so far, by scans of the table and
// through its indexes.
func rowsRead(t testing.TB, s *Store) int64 {
	t.Helper()
	// Each backend reports its counters when it is idle, at the latest after a second.
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
