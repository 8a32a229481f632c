package store

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

var fence = postgres.Fence{Lock: "coordinator", Epoch: 7}

func lead(t testing.TB, s *Store) {
	t.Helper()
	exec(t, s, `INSERT INTO system_locks (lock_name, holder_id, epoch) VALUES ($1, 'me', $2)`, fence.Lock, fence.Epoch)
}

// micros truncates a time to PostgreSQL's precision.
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
	next.HomeCtx = workspace.HomeContext{
		VolumeRecord:  workspace.VolumeRecord{RestoreMarker: next.ArchiveKey, Dirty: true},
		RestoreRecord: workspace.RestoreRecord{RestoreOpID: "r"},
		AttemptRecord: workspace.AttemptRecord{Crashes: 2},
	}
	next.Endpoint = "10.0.0.1:8080"
	next.ErrorReason, next.ErrorMessage, next.ErrorCount = workspace.ReasonActionFailed, "it failed", 2
	next.Waiting = &workspace.Waiting{Reason: "StoreAway", Message: "no answer", Since: now}
	asked := next
	// These belong to other writers.
	asked.Name, asked.Description, asked.Memo, asked.ImageRef = "other", "other", "other", "other"
	asked.DesiredState, asked.LastAccessAt, asked.DeletedAt = workspace.DesiredArchived, now, now
	asked.DeleteNow, asked.CollectedAt, asked.Recovery, asked.Revision = true, now, &workspace.Recovery{ID: "r"}, 1_000_000
	asked.AwaitsGC = true // of no meaning for a workspace that is not deleted
	if saved, err := s.Save(t.Context(), fence, w, asked, nil); !saved || err != nil {
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
	if saved, err := s.Save(t.Context(), fence, got, cleared, nil); !saved || err != nil {
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
	if saved, err := s.Save(t.Context(), fence, w, next, nil); !saved || err != nil || !read(t, s, w.ID).AwaitsGC {
		t.Fatalf("Save = %v, %v; %+v", saved, err, read(t, s, w.ID))
	}
	if _, outcome, err := s.Undelete(t.Context(), Viewer{All: true, Through: "api"}, w.ID, Limits{}); outcome != Changed || err != nil {
		t.Fatalf("Undelete = %s, %v", outcome, err)
	}
	// The controller writes back the values that it read. This must not count as a change.
	back := read(t, s, w.ID)
	if found, err := s.Candidates(t.Context(), 0, 1, true); len(found) != 1 || err != nil {
		t.Errorf("a tick observes %v, %v; want the one whose deletion was undone", found, err)
	}
	if saved, err := s.Save(t.Context(), fence, back, back, nil); !saved || err != nil || read(t, s, w.ID).AwaitsGC {
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
		saved, err := s.Save(t.Context(), fence, prev, next, nil)
		if saved || err != nil {
			t.Errorf("after %s: Save = %v, %v", other, saved, err)
		}
		if got := read(t, s, prev.ID); !reflect.DeepEqual(got, before) {
			t.Errorf("after %s: Save changed the row", other)
		}
		if saved, err := s.Save(t.Context(), fence, before, before, nil); !saved || err != nil {
			t.Errorf("after %s: Save of the present row = %v, %v", other, saved, err)
		}
	}
	gone := add(t, s, owner)
	exec(t, s, `DELETE FROM workspaces WHERE id = $1`, string(gone.ID))
	if saved, err := s.Save(t.Context(), fence, gone, gone, nil); saved || err != nil {
		t.Errorf("Save of a deleted row = %v, %v", saved, err)
	}
}

func TestSaveOfAFormerLeaderWritesNothing(t *testing.T) {
	s := open(t)
	w := add(t, s, addUser(t, s))
	next := w
	next.Endpoint = "stale"
	try := func(what string, f postgres.Fence) {
		t.Helper()
		if saved, err := s.Save(t.Context(), f, w, next, nil); saved || err != nil {
			t.Errorf("%s: Save = %v, %v", what, saved, err)
		}
		if got := read(t, s, w.ID); !reflect.DeepEqual(got, w) {
			t.Errorf("%s: the row changed", what)
		}
	}
	try("without a leader", fence)
	lead(t, s)
	try("an older epoch", postgres.Fence{Lock: fence.Lock, Epoch: fence.Epoch - 1})
	try("a later epoch", postgres.Fence{Lock: fence.Lock, Epoch: fence.Epoch + 1})
	try("another lock", postgres.Fence{Lock: "shard-1", Epoch: fence.Epoch})
}

// While the next leader takes over, its update of the epoch is not committed at first. A write that is sent then must
// wait for the commit, and must fail.
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
		saved, err := s.Save(t.Context(), fence, w, next, nil)
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
	if saved, err := s.Save(t.Context(), fence, w, failed, nil); !saved || err != nil {
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
	if saved, err := s.Save(t.Context(), fence, got, again, nil); !saved || err != nil {
		t.Fatalf("Save = %v, %v", saved, err)
	}
	if v := read(t, s, w.ID).PhaseChangedAt; !v.Equal(got.PhaseChangedAt) {
		t.Errorf("phase_changed_at moved to %v without a change of phase", v)
	}
	again.Operation = workspace.OpStarting
	if _, err := s.Save(t.Context(), fence, got, again, nil); err == nil || !strings.Contains(err.Error(), "error_has_no_operation") {
		t.Errorf("ERROR with an operation: %v", err)
	}
}
