package store

import (
	"reflect"
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/codehub/gateway/coordinator/workspace"
)

func TestRecoverClearsTheErrorThatWasJudgedAndNoOther(t *testing.T) {
	s := open(t)
	owner := addUser(t, s)
	v := Viewer{All: true, Through: "cli"}
	choice := workspace.Recovery{ID: uuid.NewString(), Choice: workspace.RecoverArchive, Key: "k"}
	const lost = `phase = 'ERROR', error_reason = 'DataLost', error_message = 'gone', error_count = 3`
	for _, c := range []struct {
		name, set string
		want      Outcome
		desired   workspace.DesiredState
	}{
		{"DataLost", lost, Changed, "RUNNING"},
		{"archived", lost + `, desired_state = 'ARCHIVED'`, Changed, "ARCHIVED"},
		{"deleted", lost + `, ` + deletedNow, Changed, "DELETED"},
		{"another reason", `phase = 'ERROR', error_reason = 'Conflict', error_count = 3`, Unchanged, "RUNNING"},
		{"recovered before", `phase = 'ERROR', error_count = 3`, Unchanged, "RUNNING"},
		{"no longer in ERROR", `phase = 'STANDBY', error_reason = 'DataLost', error_count = 3`, Unchanged, "RUNNING"},
	} {
		w := add(t, s, owner)
		exec(t, s, `UPDATE workspaces SET `+c.set+` WHERE id = $1`, string(w.ID))
		before := read(t, s, w.ID)
		got, outcome, err := s.Recover(t.Context(), v, w.ID, workspace.ReasonDataLost, choice, Limits{})
		if outcome != c.want || err != nil || got.DesiredState != c.desired {
			t.Errorf("%s: Recover = %s, %v, desired %s; want %s", c.name, outcome, err, got.DesiredState, c.want)
		}
		after := read(t, s, w.ID)
		if c.want == Unchanged {
			if !reflect.DeepEqual(after, before) {
				t.Errorf("%s: the row changed to %+v", c.name, after)
			}
			continue
		}
		if after.Phase != workspace.PhaseError || after.ErrorReason != "" || after.ErrorMessage != "" || after.ErrorCount != 0 ||
			after.Recovery == nil || *after.Recovery != choice || after.Deleted() != before.Deleted() {
			t.Errorf("%s: the row is %+v, recovery %+v", c.name, after, after.Recovery)
		}
	}
}

// A workspace in ERROR holds no place. Once it is recovered, it either holds one or should not run.
func TestARecoveryNeverExceedsTheLimits(t *testing.T) {
	s := open(t)
	owner := addUser(t, s)
	v := Viewer{All: true, Through: "cli"}
	failed := func() workspace.ID {
		return add(t, s, owner, `phase = 'ERROR'`, `error_reason = 'Timeout'`).ID
	}
	recover := func(l Limits) workspace.DesiredState {
		w, outcome, err := s.Recover(t.Context(), v, failed(), "Timeout", workspace.Recovery{ID: "r", Choice: workspace.RecoverRetry}, l)
		if outcome != Changed || err != nil {
			t.Fatalf("Recover = %s, %v", outcome, err)
		}
		return w.DesiredState
	}
	failed()
	for i, c := range []struct {
		limits Limits
		want   workspace.DesiredState
	}{
		{Limits{PerUser: 2, Global: 10}, "RUNNING"}, {Limits{PerUser: 2, Global: 10}, "RUNNING"},
		{Limits{PerUser: 2, Global: 10}, "STANDBY"}, {Limits{PerUser: 5, Global: 2}, "STANDBY"}, {Limits{}, "RUNNING"},
	} {
		if got := recover(c.limits); got != c.want {
			t.Errorf("recovery %d is to be %s, want %s", i+1, got, c.want)
		}
	}
	if n := value[int](t, s, `SELECT count(*) FROM workspaces WHERE counted`); n != 3 {
		t.Errorf("%d hold a place, want the 3 recovered ones that are to run", n)
	}
	if n := value[int](t, s, `SELECT count(*) FROM workspace_history WHERE kind = 'desired_state' AND new_value = 'STANDBY'
		AND message IN ('user_limit', 'global_limit')`); n != 2 {
		t.Errorf("%d changes of the desired state are recorded, want 2", n)
	}
}

func TestFailedReadsTheWorkspacesOfAReasonInPages(t *testing.T) {
	s := open(t)
	owner := addUser(t, s)
	var want []workspace.ID
	for range 7 {
		want = append(want, add(t, s, owner, `phase = 'ERROR'`, `error_reason = 'DataLost'`).ID)
		add(t, s, owner, `phase = 'ERROR'`, `error_reason = 'Conflict'`)
		add(t, s, owner, `phase = 'ERROR'`, `error_reason = 'DataLost'`, deletedNow)
		add(t, s, owner, `error_reason = 'DataLost'`)
	}
	slices.Sort(want)
	var got []workspace.ID
	var after workspace.ID
	for {
		page, err := s.Failed(t.Context(), workspace.ReasonDataLost, after, 3)
		if err != nil || len(page) > 3 {
			t.Fatalf("a page of %d, %v", len(page), err)
		}
		got = append(got, page...)
		if len(page) < 3 {
			break
		}
		after = page[2]
	}
	if !slices.Equal(got, want) {
		t.Errorf("read %v, want %v", got, want)
	}
}

func TestFailuresAreThoseOfAllUsersTheNewestFirst(t *testing.T) {
	s := open(t)
	ann, bob := addUser(t, s), addUser(t, s)
	var want []workspace.ID
	for _, owner := range []string{ann, bob, ann, bob, ann} {
		want = append(want, add(t, s, owner, `phase = 'ERROR'`, `error_reason = 'DataLost'`).ID)
		add(t, s, owner, `phase = 'ERROR'`)
		add(t, s, owner, `error_reason = 'Timeout'`)
		add(t, s, owner, `phase = 'ERROR'`, `error_reason = 'DataLost'`, deletedNow)
	}
	slices.Reverse(want)
	found := pages(t, s, Filter{Phases: []workspace.Phase{workspace.PhaseError}, Order: ByCreation, Descending: true}, 2)
	for _, f := range found {
		var name string
		if err := s.pool.QueryRow(t.Context(), `SELECT username FROM users WHERE id = $1`, f.OwnerID).Scan(&name); err != nil || f.Owner != name {
			t.Errorf("the owner is %q, want %q (%v)", f.Owner, name, err)
		}
	}
	if got := listedIDs(found); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
