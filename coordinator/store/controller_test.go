package store

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

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
	asked := next
	// These belong to other writers.
	asked.Name, asked.Description, asked.Memo, asked.ImageRef = "other", "other", "other", "other"
	asked.DesiredState, asked.LastAccessAt, asked.DeletedAt = workspace.DesiredArchived, now, now
	if saved, err := s.Save(t.Context(), fence, w, asked); !saved || err != nil {
		t.Fatalf("Save = %v, %v", saved, err)
	}
	got := read(t, s, w.ID)
	next.UpdatedAt = got.UpdatedAt
	if !reflect.DeepEqual(got, next) {
		t.Errorf("read\n%+v, want\n%+v", got, next)
	}

	// And back to NULL.
	cleared := w
	cleared.Conditions, cleared.HomeCtx = nil, workspace.HomeContext{}
	if saved, err := s.Save(t.Context(), fence, got, cleared); !saved || err != nil {
		t.Fatalf("Save = %v, %v", saved, err)
	}
	w.PhaseChangedAt, w.UpdatedAt = cleared.PhaseChangedAt, read(t, s, w.ID).UpdatedAt
	if got := read(t, s, w.ID); !reflect.DeepEqual(got, w) {
		t.Errorf("read\n%+v, want\n%+v", got, w)
	}
	nulls := value[int](t, s, `SELECT num_nulls(observed_at, op_started_at, archive_op_id, archive_key, endpoint, error_reason, error_message) FROM workspaces`)
	if nulls != 7 {
		t.Errorf("%d columns are NULL, want 7", nulls)
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
	for t.Context().Err() == nil {
		if value[bool](t, s, `SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND pid IN (
			SELECT pid FROM pg_stat_activity WHERE datname = current_database()))`) {
			return
		}
	}
	t.Fatal("no statement waits for a lock")
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

// candidate is the rule of [Store.Candidates], written in Go.
func candidate(w workspace.Workspace) bool {
	switch {
	case w.Phase == workspace.PhaseDeleted:
		return false
	case w.Operation != workspace.OpNone, w.Deleted(), w.Phase == workspace.PhaseRunning:
		return true
	case w.Phase == workspace.PhaseError:
		return !w.ErrorReason.Terminal()
	}
	return string(w.Phase) != string(w.DesiredState)
}

func TestCandidatesAreExactlyWhatATickMustObserve(t *testing.T) {
	s := open(t)
	owner := addUser(t, s)
	exec(t, s, `INSERT INTO workspaces (owner_user_id, name, instance_backend, storage_backend, home_store_key,
			phase, operation, desired_state, deleted_at, error_reason)
		SELECT $1, 'x', 'docker', 'docker', 'x', p, o, d, CASE d WHEN 'DELETED' THEN now() END, e
		FROM unnest($2::text[]) p, unnest($3::text[]) o, unnest($4::text[]) d, unnest($5::text[] || NULL) e
		WHERE (p <> 'ERROR' OR o = 'NONE') AND (p NOT IN ('DELETING', 'DELETED') OR d = 'DELETED')`, owner,
		constants(t, "Phase"), constants(t, "Operation"), constants(t, "DesiredState"), constants(t, "ErrorReason"))
	all, err := s.workspaces(t.Context(), "reading all", `SELECT `+workspaceColumns+` FROM workspaces`)
	if err != nil || len(all) < 1000 {
		t.Fatalf("%d rows, %v", len(all), err)
	}
	found, err := s.Candidates(t.Context(), 0, 1, false)
	if err != nil {
		t.Fatal(err)
	}
	is := map[workspace.ID]bool{}
	for _, w := range found {
		is[w.ID] = true
	}
	for _, w := range all {
		if is[w.ID] != candidate(w) {
			t.Errorf("candidate = %v: phase %s, operation %s, desired %s, error %q, deleted %v",
				is[w.ID], w.Phase, w.Operation, w.DesiredState, w.ErrorReason, w.Deleted())
		}
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
		{"running of a user", perUser, "workspaces_counted"},
		{"running globally", `SELECT count(*) FROM workspaces c WHERE c.counted`, "workspaces_counted"},
		{"unused", literal(expiredRunningSQL, "'10 minutes'", "100"), "workspaces_idle"},
		{"long in standby", literal(expiredStandbySQL, "'2 days'", "100"), "workspaces_asleep"},
		{"in ERROR", `SELECT id FROM workspaces WHERE phase = 'ERROR' AND deleted_at IS NULL ORDER BY phase_changed_at`, "workspaces_failed"},
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
	found, err := s.Candidates(t.Context(), 0, 1, false)
	if err != nil || len(found) != 35 {
		t.Errorf("Candidates returns %d rows, %v; want 35", len(found), err)
	}
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
