package store

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/codehub/gateway/coordinator/workspace"
)

func TestARouteHasTheRowsValues(t *testing.T) {
	s := open(t)
	owner := addUser(t, s)
	plain := add(t, s, owner)
	failed := add(t, s, owner, `phase = 'ERROR'`, `error_reason = 'DataLost'`, `error_message = 'gone'`)
	well := add(t, s, owner, `endpoint = 'h:1'`, `base_path = '/w/1'`, `phase = 'RUNNING'`, `last_access_at = now()`, `image_ref = 'jupyter'`,
		`keep_awake_until = now()`, `sleep_at = now()`, `page_activity = 'traffic'`, `busy = '{"reason": "Job", "since": "2026-01-02T03:04:05Z"}'`)
	waits := add(t, s, owner, `waiting = '{"reason": "StoreAway", "message": "the store does not answer", "since": "2026-01-02T03:04:05Z"}'`)
	deleted := add(t, s, owner, `deleted_at = now()`, `desired_state = 'DELETED'`, `phase = 'DELETED'`)
	exec(t, s, `UPDATE workspaces SET doze_at = now() WHERE id = $1`, string(well.ID))
	got, err := s.Routes(t.Context(), []workspace.ID{plain.ID, failed.ID, well.ID, waits.ID, deleted.ID, workspace.ID(uuid.NewString())})
	if err != nil || len(got) != 5 {
		t.Fatalf("%d routes, %v; want 5", len(got), err)
	}
	for _, r := range got {
		w := read(t, s, r.ID)
		want := Route{w.ID, w.OwnerID, w.Name, w.Phase, w.Operation, w.DesiredState, w.Endpoint,
			w.BasePath, w.ImageRef, w.KeepAwakeUntil, w.Busy, w.SleepAt, w.DozeAt, w.PageActivity, w.Progress, w.ErrorReason, w.ErrorMessage,
			w.Waiting, w.Deleted(), w.PhaseChangedAt, w.ID == plain.ID, w.Revision}
		if !reflect.DeepEqual(r, want) {
			t.Errorf("route %+v, want %+v", r, want)
		}
	}
	if none, err := s.Routes(t.Context(), nil); len(none) != 0 || err != nil {
		t.Errorf("without ids: %d routes, %v", len(none), err)
	}
}

func TestAwakeRoutesAreReadPageByPage(t *testing.T) {
	s := open(t)
	crowd(t, s, 1000)
	owner := addUser(t, s)
	deleted := add(t, s, owner, `deleted_at = now()`, `desired_state = 'DELETED'`)
	var all []Route
	for after := workspace.ID(""); ; {
		page, err := s.AwakeRoutes(t.Context(), after, 10)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, page...)
		if len(page) < 10 {
			break
		}
		after = page[len(page)-1].ID
	}
	if !slices.IsSortedFunc(all, func(a, b Route) int { return strings.Compare(string(a.ID), string(b.ID)) }) {
		t.Error("the pages are not in the order of the ids")
	}
	n := map[workspace.Phase]int{}
	for _, r := range all {
		if r.ID == deleted.ID {
			t.Error("a deleted workspace is awake")
		}
		n[r.Phase]++
	}
	// Of the workspaces in ERROR, only a few are included: those whose errors are not final.
	if n[workspace.PhaseRunning] != 20 || n[workspace.PhaseStandby] != 10 || n[workspace.PhaseError] != 5 || len(all) != 35 {
		t.Errorf("awake are %v", n)
	}
}

func TestChangesSinceFollowsTheRevisions(t *testing.T) {
	s := open(t)
	owner := addUser(t, s)
	one, two, three := add(t, s, owner), add(t, s, owner), add(t, s, owner)
	before, err := s.Position(t.Context())
	if err != nil || before.Revision < read(t, s, three.ID).Revision || len(before.Timeline) != 8 {
		t.Fatalf("position %+v, %v", before, err)
	}
	if none, err := s.ChangesSince(t.Context(), before.Revision, 10); len(none) != 0 || err != nil {
		t.Fatalf("%d changes, %v; want none", len(none), err)
	}
	exec(t, s, `UPDATE workspaces SET waiting = '{"reason": "StoreAway"}' WHERE id = $1`, string(three.ID))
	exec(t, s, `UPDATE workspaces SET phase = 'STANDBY' WHERE id = $1`, string(one.ID))
	exec(t, s, `UPDATE workspaces SET last_access_at = now(), observed_at = now() WHERE id = $1`, string(two.ID)) // no reader needs to know
	first, err := s.ChangesSince(t.Context(), before.Revision, 1)
	if err != nil || len(first) != 1 || first[0].ID != three.ID || first[0].Waiting.Reason != "StoreAway" {
		t.Fatalf("the first page is %+v, %v", first, err)
	}
	rest, err := s.ChangesSince(t.Context(), first[0].Revision, 10)
	if err != nil || len(rest) != 1 || rest[0].ID != one.ID || rest[0].Phase != workspace.PhaseStandby {
		t.Fatalf("the second page is %+v, %v", rest, err)
	}
	if after, err := s.Position(t.Context()); err != nil || after.Revision != rest[0].Revision || after.Timeline != before.Timeline {
		t.Errorf("position %+v, %v; want revision %d", after, err, rest[0].Revision)
	}
}

// Every process repeats these queries all the time. They read only the rows that they return, and no row of a sleeping
// workspace.
func TestTheQueriesOfTheFeedReadNothingThatSleeps(t *testing.T) {
	s := open(t)
	crowd(t, s, 100_000)
	p, err := s.Position(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, sql, index string
		rows             float64
	}{
		{"awake, first page", strings.NewReplacer("$1", "'00000000-0000-0000-0000-000000000000'", "$2", "100").Replace(awakeRoutesSQL), "workspaces_watched", 35},
		{"changes, none", strings.NewReplacer("$1", fmt.Sprint(p.Revision), "$2", "500").Replace(changesSinceSQL), "workspaces_revision", 0},
		{"changes, a page of many", strings.NewReplacer("$1", "0", "$2", "500").Replace(changesSinceSQL), "workspaces_revision", 500},
	} {
		var plans []struct{ Plan map[string]any }
		text := value[string](t, s, `EXPLAIN (FORMAT JSON, ANALYZE, TIMING OFF) `+c.sql)
		if err := json.Unmarshal([]byte(text), &plans); err != nil {
			t.Fatal(err)
		}
		nodes := walk(plans[0].Plan)
		if slices.Contains(nodes, "Seq Scan ") || !slices.ContainsFunc(nodes, func(n string) bool { return strings.HasSuffix(n, " "+c.index) }) {
			t.Errorf("%s: the plan does not read %s: %q", c.name, c.index, nodes)
		}
		if n := plans[0].Plan["Actual Rows"].(float64); n != c.rows || strings.Contains(text, `Rows Removed by Filter": 1`) {
			t.Errorf("%s: %v rows, want %v\n%s", c.name, n, c.rows, text)
		}
	}
}

func TestWhatHasChangedOfAUsersWorkspacesSinceAPosition(t *testing.T) {
	s := open(t)
	owner, other := addUser(t, s), addUser(t, s)
	same, changed, late := add(t, s, owner), add(t, s, owner), add(t, s, owner)
	tx, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), `UPDATE workspaces SET memo = 'late' WHERE id = $1`, string(late.ID)); err != nil {
		t.Fatal(err)
	}
	p, err := s.Position(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.pool.Exec(t.Context(), `UPDATE workspaces SET memo = 'changed' WHERE id = $1`, string(changed.ID)); err != nil {
		t.Fatal(err)
	}
	deleted := add(t, s, owner, `deleted_at = now()`, `desired_state = 'DELETED'`)
	add(t, s, other)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	now, err := s.Position(t.Context())
	if err != nil || !now.Follows(p) || now.Origin != p.Origin || p.Origin == "" {
		t.Fatalf("%+v does not follow %+v, %v", now, p, err)
	}
	var got, want []workspace.ID
	for after := workspace.ID(""); ; after = got[len(got)-1] {
		page, err := s.OwnedSince(t.Context(), owner, p, after, 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		got = append(got, page[0].ID)
	}
	want = append(want, changed.ID, late.ID, deleted.ID)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v, without %s", got, want, same.ID)
	}
}

func TestAPositionFollowsAnother(t *testing.T) {
	before := Position{Origin: "here", Oldest: 1000, Next: 1010}
	for name, c := range map[string]struct {
		now  Position
		want bool
	}{
		"the same":                {before, true},
		"later":                   {Position{Origin: "here", Oldest: 5000, Next: 5001}, true},
		"earlier":                 {Position{Origin: "here", Oldest: 999, Next: 1010}, false},
		"elsewhere":               {Position{Origin: "there", Oldest: 5000, Next: 5001}, false},
		"as much later as can be": {Position{Origin: "here", Oldest: 5000, Next: 1000 + 1<<31 - 1}, true},
		"too much later":          {Position{Origin: "here", Oldest: 5000, Next: 1000 + 1<<31}, false},
	} {
		if got := c.now.Follows(before); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
