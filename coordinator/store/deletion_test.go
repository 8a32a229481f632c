package store

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/workspace"
)

const deletedNow = `deleted_at = now(), desired_state = 'DELETED'`

func TestUndeleteIsPossibleUntilTheCollection(t *testing.T) {
	s := open(t)
	owner, stranger := addUser(t, s), addUser(t, s)
	v := Viewer{UserID: owner, Through: "api"}
	limits := Limits{PerUser: 1, Global: 10}
	for _, c := range []struct {
		name, set string
		v         Viewer
		want      Outcome
		err       error
	}{
		{"being deleted", deletedNow + `, phase = 'STANDBY', delete_now = true`, v, Changed, nil},
		{"archived", deletedNow + `, phase = 'DELETING', awaits_gc = true`, v, Changed, nil},
		{"in ERROR", deletedNow + `, phase = 'ERROR', error_reason = 'Timeout'`, v, Changed, nil},
		{"by an administrator", deletedNow + `, phase = 'STANDBY'`, Viewer{All: true}, Changed, nil},
		{"still running, with a place", deletedNow + `, phase = 'RUNNING'`, v, Changed, nil},
		{"an operation", deletedNow + `, phase = 'STANDBY', operation = 'ARCHIVING'`, v, Busy, nil},
		{"collected", deletedNow + `, phase = 'DELETING', awaits_gc = true, collected_at = now()`, v, Collected, nil},
		{"nothing left", deletedNow + `, phase = 'DELETED'`, v, Collected, nil},
		{"not deleted", `phase = 'STANDBY', desired_state = 'STANDBY'`, v, Unchanged, nil},
		{"another's", deletedNow, Viewer{UserID: stranger}, "", postgres.ErrNotFound},
	} {
		w := add(t, s, owner)
		exec(t, s, `UPDATE workspaces SET `+c.set+` WHERE id = $1`, string(w.ID))
		before := read(t, s, w.ID)
		got, outcome, err := s.Undelete(t.Context(), c.v, w.ID, limits)
		if outcome != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: Undelete = %s, %v; want %s, %v", c.name, outcome, err, c.want, c.err)
		}
		after := read(t, s, w.ID)
		if c.want != Changed {
			if after.UpdatedAt != before.UpdatedAt {
				t.Errorf("%s: the row was written: %+v", c.name, after)
			}
		} else if after.Deleted() || after.DeleteNow || after.DesiredState != workspace.DesiredArchived || got.Revision != after.Revision {
			t.Errorf("%s: %+v, and the row %+v", c.name, got, after)
		}
		exec(t, s, `DELETE FROM workspaces`)
	}

	// A deleted workspace still runs, but another workspace has taken its place.
	deleted := add(t, s, owner, `phase = 'RUNNING'`)
	exec(t, s, `UPDATE workspaces SET `+deletedNow+` WHERE id = $1`, string(deleted.ID))
	add(t, s, owner)
	if _, outcome, err := s.Undelete(t.Context(), v, deleted.ID, limits); outcome != UserLimit || err != nil {
		t.Errorf("Undelete of a running one over the limit = %s, %v", outcome, err)
	}
	exec(t, s, `UPDATE workspaces SET phase = 'STANDBY' WHERE id = $1`, string(deleted.ID))
	if _, outcome, err := s.Undelete(t.Context(), v, deleted.ID, limits); outcome != Changed || err != nil {
		t.Errorf("Undelete once it has stopped = %s, %v", outcome, err)
	}
}

func TestDeleteNow(t *testing.T) {
	s := open(t)
	owner := addUser(t, s)
	v, admin := Viewer{UserID: owner, Through: "api"}, Viewer{All: true, Through: "cli"}
	stranger := Viewer{UserID: addUser(t, s), Through: "api"}
	for _, c := range []struct {
		name, set string
		v         Viewer
		now       bool
		want      Outcome
		err       error
	}{
		{"deleted", `phase = 'STANDBY'`, v, false, Changed, nil},
		{"deleted now", `phase = 'STANDBY'`, admin, true, Changed, nil},
		{"an operation", `operation = 'STARTING'`, admin, true, Busy, nil},
		{"deleted before", deletedNow, admin, true, Changed, nil},
		{"deleted before, an operation", deletedNow + `, operation = 'ARCHIVING'`, admin, true, Changed, nil},
		{"given up before", deletedNow + `, delete_now = true`, admin, true, Unchanged, nil},
		{"nothing left", deletedNow + `, phase = 'DELETED'`, admin, true, Unchanged, nil},
		{"deleted before, not now", deletedNow, admin, false, "", postgres.ErrNotFound},
		// Owners can give up what they deleted before.
		{"by its owner", `phase = 'STANDBY'`, v, true, Forbidden, nil},
		{"deleted before, by its owner", deletedNow + `, phase = 'STANDBY', operation = 'ARCHIVING'`, v, true, Changed, nil},
		{"given up before, by its owner", deletedNow + `, delete_now = true`, v, true, Unchanged, nil},
		{"collected, by its owner", deletedNow + `, collected_at = now()`, v, true, "", postgres.ErrNotFound},
		{"deleted before, by another", deletedNow, stranger, true, "", postgres.ErrNotFound},
	} {
		w := add(t, s, owner)
		exec(t, s, `UPDATE workspaces SET `+c.set+` WHERE id = $1`, string(w.ID))
		before := read(t, s, w.ID)
		outcome, err := s.Delete(t.Context(), c.v, w.ID, c.now)
		if outcome != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: Delete = %s, %v; want %s, %v", c.name, outcome, err, c.want, c.err)
		}
		switch after := read(t, s, w.ID); {
		case c.want != Changed && after.UpdatedAt != before.UpdatedAt:
			t.Errorf("%s: the row was written: %+v", c.name, after)
		case c.want != Changed:
		case !after.Deleted() || after.DeleteNow != c.now || before.Deleted() && after.DeletedAt != before.DeletedAt:
			t.Errorf("%s: the row is %+v", c.name, after)
		}
	}
}

func TestListDeletedHasWhatCanBeUndone(t *testing.T) {
	s := open(t)
	owner, other := addUser(t, s), addUser(t, s)
	var want, all []workspace.ID
	for range 5 {
		mine := add(t, s, owner, deletedNow, `phase = 'STANDBY'`)
		theirs := add(t, s, other, deletedNow, `phase = 'STANDBY'`)
		want, all = append(want, mine.ID), append(all, mine.ID, theirs.ID)
	}
	add(t, s, owner)
	add(t, s, owner, deletedNow, `phase = 'DELETED'`)
	add(t, s, owner, deletedNow, `collected_at = now()`)
	slices.Reverse(want)
	slices.Reverse(all)
	for _, c := range []struct {
		name  string
		owner string
		want  []workspace.ID
	}{{"the owner's", owner, want}, {"all", "", all}} {
		f := Filter{Owner: c.owner, Deleted: true, Order: ByDeletion, Descending: true}
		if got := listedIDs(pages(t, s, f, 2)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	for _, c := range []struct {
		v   Viewer
		err error
	}{{Viewer{UserID: owner}, postgres.ErrNotFound}, {Viewer{UserID: owner, Deleted: true}, nil}, {Viewer{UserID: other, Deleted: true}, postgres.ErrNotFound}} {
		if _, err := s.Get(t.Context(), c.v, want[0]); !errors.Is(err, c.err) {
			t.Errorf("Get by %+v = %v, want %v", c.v, err, c.err)
		}
	}
}

func TestMarkCollectedTakesOnlyWhatIsGone(t *testing.T) {
	s := open(t)
	lead(t, s)
	owner := addUser(t, s)
	var ids, want []workspace.ID
	for _, c := range []struct {
		name, set string
		marked    bool
	}{
		{"only an archive left", deletedNow + `, phase = 'DELETING', awaits_gc = true`, true},
		{"nothing left", deletedNow + `, phase = 'DELETED'`, true},
		{"marked before", deletedNow + `, phase = 'DELETING', awaits_gc = true, collected_at = now()`, true},
		{"a volume left", deletedNow + `, phase = 'DELETING'`, false},
		{"an operation", deletedNow + `, phase = 'DELETING', awaits_gc = true, operation = 'DELETING'`, false},
		{"in ERROR, kept", deletedNow + `, phase = 'ERROR', error_reason = 'Timeout'`, false},
		{"undeleted", `phase = 'DELETING', awaits_gc = true`, false},
		{"not deleted", `phase = 'ARCHIVED'`, false},
	} {
		w := add(t, s, owner)
		exec(t, s, `UPDATE workspaces SET `+c.set+` WHERE id = $1`, string(w.ID))
		ids = append(ids, w.ID)
		if c.marked {
			want = append(want, w.ID)
		}
	}
	slices.Sort(want)
	if got, err := s.MarkCollected(t.Context(), postgres.Fence{Lock: fence.Lock, Epoch: fence.Epoch - 1}, ids, 0); len(got) != 0 || err != nil {
		t.Errorf("a former leader marks %v, %v", got, err)
	}
	before := read(t, s, want[2])
	for range 2 {
		got, err := s.MarkCollected(t.Context(), fence, ids, 0)
		slices.Sort(got)
		if !slices.Equal(got, want) || err != nil {
			t.Errorf("MarkCollected = %v, %v; want %v", got, err, want)
		}
		before, after := before, read(t, s, want[2])
		if !before.CollectedAt.IsZero() && before.CollectedAt != after.CollectedAt {
			t.Errorf("collected_at moved from %v to %v", before.CollectedAt, after.CollectedAt)
		}
	}
	for _, id := range ids {
		if w := read(t, s, id); !w.CollectedAt.IsZero() != slices.Contains(want, id) {
			t.Errorf("collected_at of %+v", w)
		}
	}
}

// TestMarkCollectedWaitsForTheWindow: a recent deletion can be undone unless it keeps nothing.
func TestMarkCollectedWaitsForTheWindow(t *testing.T) {
	s := open(t)
	lead(t, s)
	owner := addUser(t, s)
	for _, c := range []struct {
		name, ago, set string
		marked         bool
	}{
		{"lately", "6 days 23 hours", `phase = 'DELETING'`, false},
		{"long ago", "7 days 1 minute", `phase = 'DELETING'`, true},
		{"lately, to go at once", "1 minute", `phase = 'DELETING', delete_now = true`, true},
		{"lately, and nothing is left", "1 minute", `phase = 'DELETED'`, true},
	} {
		w := add(t, s, owner)
		exec(t, s, `UPDATE workspaces SET desired_state = 'DELETED', awaits_gc = true, deleted_at = now() - interval '`+c.ago+`', `+c.set+
			` WHERE id = $1`, string(w.ID))
		got, err := s.MarkCollected(t.Context(), fence, []workspace.ID{w.ID}, 7*24*time.Hour)
		if err != nil || (len(got) == 1) != c.marked || read(t, s, w.ID).CollectedAt.IsZero() == c.marked {
			t.Errorf("%s: MarkCollected = %v, %v", c.name, got, err)
		}
	}
}

// In either order, exactly one of an undeletion and a collection succeeds.
func TestUndeleteAndCollectionExcludeEachOther(t *testing.T) {
	s := open(t)
	lead(t, s)
	v := Viewer{UserID: addUser(t, s), Through: "api"}
	var undeleted, collected atomic.Int64
	for range 100 {
		w := add(t, s, v.UserID, deletedNow, `phase = 'DELETING'`, `awaits_gc = true`)
		var wg sync.WaitGroup
		var marked []workspace.ID
		var outcome Outcome
		wg.Go(func() {
			var err error
			if marked, err = s.MarkCollected(t.Context(), fence, []workspace.ID{w.ID}, 0); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() {
			var err error
			if _, outcome, err = s.Undelete(t.Context(), v, w.ID, Limits{}); err != nil {
				t.Error(err)
			}
		})
		wg.Wait()
		switch got := read(t, s, w.ID); {
		case len(marked) == 1 && outcome == Collected && got.Deleted() && !got.CollectedAt.IsZero():
			collected.Add(1)
		case len(marked) == 0 && outcome == Changed && !got.Deleted() && got.CollectedAt.IsZero():
			undeleted.Add(1)
		default:
			t.Errorf("marked %v, undeletion %s, row %+v", marked, outcome, got)
		}
	}
	t.Logf("%d undeleted, %d collected", undeleted.Load(), collected.Load())
}

// While an undeletion holds the row's lock, a collection waits for it, and vice versa. The one that waited then sees
// what the other has written.
func TestTheLaterOfUndeleteAndCollectionSeesTheOther(t *testing.T) {
	s := open(t)
	lead(t, s)
	v := Viewer{UserID: addUser(t, s), Through: "api"}
	for _, c := range []struct {
		name, first string
		second      func(workspace.ID) (string, error)
		want        string
	}{
		{"the collection comes first", `collected_at = now()`, func(id workspace.ID) (string, error) {
			_, outcome, err := s.Undelete(t.Context(), v, id, Limits{})
			return string(outcome), err
		}, string(Collected)},
		{"the undeletion comes first", `deleted_at = NULL, desired_state = 'ARCHIVED'`, func(id workspace.ID) (string, error) {
			marked, err := s.MarkCollected(t.Context(), fence, []workspace.ID{id}, 0)
			if len(marked) == 0 {
				return "none", err
			}
			return "marked", err
		}, "none"},
	} {
		w := add(t, s, v.UserID, deletedNow, `phase = 'DELETING'`, `awaits_gc = true`)
		tx, err := s.pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), `UPDATE workspaces SET `+c.first+` WHERE id = $1`, string(w.ID)); err != nil {
			t.Fatal(err)
		}
		type result struct {
			got string
			err error
		}
		done := make(chan result, 1)
		go func() {
			got, err := c.second(w.ID)
			done <- result{got, err}
		}()
		waitForLock(t, s)
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		if r := <-done; r.got != c.want || r.err != nil {
			t.Errorf("%s: %s, %v; want %s", c.name, r.got, r.err, c.want)
		}
	}
}

func TestACollectionOfAFormerLeaderWaitsForTheTakeoverAndThenMarksNothing(t *testing.T) {
	s := open(t)
	lead(t, s)
	w := add(t, s, addUser(t, s), deletedNow, `phase = 'DELETING'`, `awaits_gc = true`)
	tx, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `UPDATE system_locks SET epoch = epoch + 1`); err != nil {
		t.Fatal(err)
	}
	done := make(chan []workspace.ID, 1)
	go func() {
		marked, err := s.MarkCollected(t.Context(), fence, []workspace.ID{w.ID}, 0)
		if err != nil {
			t.Error(err)
		}
		done <- marked
	}()
	waitForLock(t, s)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if marked := <-done; len(marked) != 0 {
		t.Errorf("marked %v", marked)
	}
	if got := read(t, s, w.ID); !got.CollectedAt.IsZero() {
		t.Errorf("collected at %s", got.CollectedAt.Format(time.RFC3339))
	}
}
