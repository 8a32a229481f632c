package store

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/codehub/gateway/coordinator/seed"
	"github.com/codehub/gateway/coordinator/workspace"
)

// pages reads a list page by page.
func pages(t testing.TB, s *Store, f Filter, limit int) (all []Listed) {
	t.Helper()
	var after *Cursor
	for {
		page, err := s.List(t.Context(), f, limit, after)
		if err != nil || len(page) > limit {
			t.Fatalf("a page of %d of %+v: %v", len(page), f, err)
		}
		all = append(all, page...)
		if len(page) < limit {
			return all
		}
		after = new(page[limit-1].Cursor())
	}
}

func listedIDs(all []Listed) (ids []workspace.ID) {
	for _, w := range all {
		ids = append(ids, w.ID)
	}
	return ids
}

// TestListsAreFilteredAndSorted compares the pages of random lists with what the same filter and order select
// from all workspaces in memory.
func TestListsAreFilteredAndSorted(t *testing.T) {
	s := open(t)
	r := seed.Source(seed.New(t))
	owners := []string{addUser(t, s), addUser(t, s)}
	one := func(of ...string) string { return of[r.IntN(len(of))] }
	for range 60 {
		set := []string{
			`name = '` + one("Alpha", "alpha", "beta", "100%", "100x", "a_b", "aXb", `a\b`) + `'`,
			`phase = '` + one("RUNNING", "STANDBY", "ARCHIVED", "ERROR") + `'`,
			`created_at = '2026-01-01Z'::timestamptz + ` + fmt.Sprint(r.IntN(10)) + ` * interval '1.000001 seconds'`,
		}
		for _, more := range []string{
			`memo = 'the ALPHA memo'`, `description = 'beta'`, `error_reason = 'Timeout'`, `home_measured_at = now(), home_bytes = ` + fmt.Sprint(r.IntN(4)),
			`last_access_at = '2026-02-01Z'::timestamptz + ` + fmt.Sprint(r.IntN(5)) + ` * interval '1 microsecond'`,
			`deleted_at = '2026-03-01Z'::timestamptz + ` + fmt.Sprint(r.IntN(5)) + ` * interval '1 second', desired_state = 'DELETED'`,
		} {
			if r.IntN(3) == 0 {
				set = append(set, more)
			}
		}
		add(t, s, owners[r.IntN(2)], set...)
	}
	rows := append(pages(t, s, Filter{Order: ByCreation}, 500), pages(t, s, Filter{Order: ByDeletion, Deleted: true}, 500)...)
	if len(rows) != 60 {
		t.Fatalf("%d of 60 workspaces were read", len(rows))
	}
	orders := []Order{ByCreation, ByUse, ByName, ByPhase, BySize}
	for range 150 {
		f := Filter{Order: orders[r.IntN(len(orders))], Descending: r.IntN(2) == 0, Deleted: r.IntN(4) == 0}
		if f.Deleted && r.IntN(2) == 0 {
			f.Order = ByDeletion
		}
		switch r.IntN(3) {
		case 0:
			f.Owner = owners[r.IntN(2)]
		case 1:
			f.OwnerName = one(strings.ToUpper(rows[r.IntN(60)].Owner), rows[r.IntN(60)].OwnerID, "nobody")
		}
		for range r.IntN(3) {
			f.Phases = append(f.Phases, workspace.Phase(one("RUNNING", "STANDBY", "ARCHIVED", "ERROR")))
		}
		if r.IntN(2) == 0 {
			f.Text = one("alpha", "BETA", "%", "_", `\`, "100%", "none", string(rows[r.IntN(60)].ID)[:3])
		}
		want := slices.DeleteFunc(slices.Clone(rows), func(w Listed) bool { return !f.selects(w) })
		slices.SortFunc(want, f.compare)
		if got := listedIDs(pages(t, s, f, 1+r.IntN(9))); !slices.Equal(got, listedIDs(want)) {
			t.Fatalf("the list %+v:\n got %v\nwant %v", f, got, listedIDs(want))
		}
	}
}

// selects is a filter's condition, written in Go.
func (f Filter) selects(w Listed) bool {
	has := func(text string) bool { return strings.Contains(strings.ToLower(text), strings.ToLower(f.Text)) }
	return w.Deleted() == f.Deleted && (f.Owner == "" || w.OwnerID == f.Owner) &&
		(f.OwnerName == "" || strings.EqualFold(w.Owner, f.OwnerName) || w.OwnerID == f.OwnerName) &&
		(f.Phases == nil || slices.Contains(f.Phases, w.Phase) && (w.Phase != workspace.PhaseError || w.ErrorReason != "")) &&
		(has(w.Name) || has(w.Description) || has(w.Memo) || has(w.ImageRef) || strings.HasPrefix(string(w.ID), strings.ToLower(f.Text)))
}

// compare is the order, written in Go. Names are compared as the test's database does.
func (f Filter) compare(a, b Listed) int {
	c := 0
	switch f.Order {
	case ByCreation:
		c = a.CreatedAt.Compare(b.CreatedAt)
	case ByDeletion:
		c = a.DeletedAt.Compare(b.DeletedAt)
	case ByUse:
		c = a.LastAccessAt.Compare(b.LastAccessAt)
	case ByName:
		c = strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name))
	case ByPhase:
		c = cmp.Compare(a.Phase, b.Phase)
	case BySize:
		c = cmp.Compare(a.bytes(), b.bytes())
	}
	if c = cmp.Or(c, strings.Compare(string(a.ID), string(b.ID))); f.Descending {
		c = -c
	}
	return c
}

// bytes is the size of a home; -1 when it was not measured.
func (l Listed) bytes() int64 {
	if l.Home.MeasuredAt.IsZero() {
		return -1
	}
	return l.Home.Bytes
}

// TestAListIsReadWhileItChanges: workspaces that are created or deleted between two pages neither repeat nor
// hide others.
func TestAListIsReadWhileItChanges(t *testing.T) {
	s := open(t)
	owner := addUser(t, s)
	var want []workspace.ID
	for range 9 {
		want = append(want, add(t, s, owner).ID)
	}
	f := Filter{Owner: owner, Order: ByCreation}
	var got []workspace.ID
	var after *Cursor
	for {
		page, err := s.List(t.Context(), f, 2, after)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		got = append(got, listedIDs(page)...)
		after = new(page[len(page)-1].Cursor())
		add(t, s, owner, `created_at = '2001-01-01Z'`)                                                                      // before what was read
		exec(t, s, `UPDATE workspaces SET deleted_at = now(), desired_state = 'DELETED' WHERE id = $1`, string(page[0].ID)) // what was read
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
