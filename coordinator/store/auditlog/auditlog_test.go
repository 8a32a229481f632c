package auditlog_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/store/auditlog"
	"github.com/codehub/gateway/coordinator/store/storetest"
)

// list returns the actions of a filter, newest first.
func (c *changes) list(f auditlog.Filter, limit int, before *auditlog.Cursor) (actions []string, last auditlog.Cursor) {
	c.t.Helper()
	found, err := c.log.List(c.t.Context(), f, limit, before)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, e := range found {
		actions, last = append(actions, string(e.Action)), e.Cursor()
	}
	return actions, last
}

// fill replaces the audit with entries that are a minute apart. The newest is a minute old.
func (c *changes) fill(bob string) {
	c.t.Helper()
	c.exec(`DELETE FROM audit_log`)
	for i, e := range []struct{ action, actor, user, workspace string }{
		{"workspace.create", c.owner.ID, c.owner.ID, string(c.workspace)},
		{"user.sign_in", bob, bob, ""},
		{"user.limits", c.owner.ID, bob, ""}, // by one user, about the other
		{"workspace.sleep", bob, c.owner.ID, string(c.workspace)},
		{"system.gc", "", "", ""},
	} {
		null := func(s string) *string {
			if s == "" {
				return nil
			}
			return &s
		}
		c.exec(`INSERT INTO audit_log (at, action, actor, user_id, workspace_id) VALUES (now() - make_interval(mins => $1), $2,
			jsonb_strip_nulls(jsonb_build_object('kind', 'user', 'id', $3::text)), $4, $5)`,
			5-i, e.action, null(e.actor), null(e.user), null(e.workspace))
	}
}

func TestList(t *testing.T) {
	c := newChanges(t)
	bob := c.user("bob").ID
	c.fill(bob)
	now := storetest.Value[time.Time](t, c.store, `SELECT now()`)
	for _, f := range []struct {
		name string
		auditlog.Filter
		want string
	}{
		{"all", auditlog.Filter{}, "system.gc workspace.sleep user.limits user.sign_in workspace.create"},
		{"by or about a user, by name", auditlog.Filter{User: "BOB"}, "workspace.sleep user.limits user.sign_in"},
		{"by or about a user, by id", auditlog.Filter{User: c.owner.ID}, "workspace.sleep user.limits workspace.create"},
		{"an unknown user", auditlog.Filter{User: "nobody"}, ""},
		{"about a user", auditlog.Filter{Concerning: bob}, "user.limits user.sign_in"},
		{"a workspace", auditlog.Filter{Workspace: c.workspace}, "workspace.sleep workspace.create"},
		{"actions", auditlog.Filter{Actions: []audit.Action{audit.UserLimits, audit.SystemCollect}}, "system.gc user.limits"},
		{"no actions", auditlog.Filter{Actions: []audit.Action{}}, ""},
		{"since", auditlog.Filter{Since: now.Add(-150 * time.Second)}, "system.gc workspace.sleep"},
		{"until", auditlog.Filter{Until: now.Add(-270 * time.Second)}, "workspace.create"},
		{"all conditions", auditlog.Filter{
			User: "ann", Concerning: c.owner.ID, Workspace: c.workspace, Actions: audit.Actions(),
			Since: now.Add(-time.Hour), Until: now,
		}, "workspace.sleep workspace.create"},
	} {
		got, _ := c.list(f.Filter, 10, nil)
		if strings.Join(got, " ") != f.want {
			t.Errorf("%s: %v, want %s", f.name, got, f.want)
		}
		// Pages of one entry give the same list.
		var paged []string
		for before := (*auditlog.Cursor)(nil); len(paged) <= len(got); {
			one, last := c.list(f.Filter, 1, before)
			if len(one) == 0 {
				break
			}
			paged, before = append(paged, one...), &last
		}
		if !slices.Equal(paged, got) {
			t.Errorf("%s, in pages: %v, want %v", f.name, paged, got)
		}
	}
}

// TestEntriesOfOneTransactionAreOnPagesOnce, although they have the same time.
func TestEntriesOfOneTransactionAreOnPagesOnce(t *testing.T) {
	c := newChanges(t)
	c.exec(`DELETE FROM audit_log`)
	c.exec(`INSERT INTO audit_log (action, actor) SELECT 'system.gc', '{}' FROM generate_series(1, 1203)`)
	seen := make(map[int64]bool)
	if err := c.log.Each(t.Context(), auditlog.Filter{}, func(e auditlog.Entry) error {
		if seen[e.ID] {
			t.Errorf("entry %d comes twice", e.ID)
		}
		seen[e.ID] = true
		return nil
	}); err != nil || len(seen) != 1203 {
		t.Errorf("%d entries, %v", len(seen), err)
	}
	stop := errors.New("stop")
	if err := c.log.Each(t.Context(), auditlog.Filter{}, func(auditlog.Entry) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("a reader that stops: %v", err)
	}
}

// TestEveryListReadsAnIndexToTheLimit: even if the table has many rows, no list sorts rows or reads many more than its
// page needs.
func TestEveryListReadsAnIndexToTheLimit(t *testing.T) {
	c := newChanges(t)
	c.exec(`INSERT INTO audit_log (at, action, actor, user_id, workspace_id) SELECT now() - make_interval(secs => i),
			CASE i % 3 WHEN 0 THEN 'user.sign_in' WHEN 1 THEN 'workspace.open' ELSE 'token.create' END,
			jsonb_build_object('id', CASE i % 2 WHEN 0 THEN $1::text ELSE gen_random_uuid()::text END),
			CASE i % 2 WHEN 0 THEN $1::uuid ELSE gen_random_uuid() END, $2::uuid FROM generate_series(1, 30000) AS i`,
		c.owner.ID, string(c.workspace))
	c.exec(`ANALYZE audit_log`)
	for name, f := range map[string]auditlog.Filter{
		"all": {}, "user": {User: c.owner.ID}, "name": {User: "ann"}, "workspace": {Workspace: c.workspace},
		"concerning": {Concerning: c.owner.ID}, "until": {Until: time.Now().Add(-time.Hour)},
	} {
		sql, args := auditlog.Statement(f, 100, &auditlog.Cursor{At: time.Now(), ID: 1 << 40})
		rows, err := c.store.Pool().Query(t.Context(), "EXPLAIN "+sql, args)
		if err != nil {
			t.Fatal(err)
		}
		var plan strings.Builder
		for rows.Next() {
			var line string
			if err := rows.Scan(&line); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintln(&plan, line)
		}
		if text := plan.String(); rows.Err() != nil || strings.Contains(text, "Seq Scan on audit_log") ||
			!strings.Contains(text, "Index Scan Backward") || strings.Contains(text, "Bitmap") {
			t.Errorf("%s: %v\n%s", name, rows.Err(), text)
		}
	}
}

func TestTrimDeletesTheOldestInBatches(t *testing.T) {
	c := newChanges(t)
	c.exec(`DELETE FROM audit_log`)
	c.exec(`INSERT INTO audit_log (at, action, actor) SELECT now() - make_interval(days => i), 'system.gc', '{}'
		FROM generate_series(1, 10) AS i`)
	for _, want := range []int64{2, 2, 1, 0} {
		if got, err := c.log.Trim(t.Context(), 132*time.Hour, 2); err != nil || got != want {
			t.Fatalf("%d are deleted, %v, want %d", got, err, want)
		}
	}
	if got, _ := c.list(auditlog.Filter{}, 100, nil); len(got) != 5 {
		t.Errorf("%d are left", len(got))
	}
}

func TestWrite(t *testing.T) {
	c := newChanges(t)
	token, err := c.accounts.AddToken(t.Context(), c.owner.ID, c.session.ID, hash(), "deploy", []string{"write"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	ctx := audit.With(t.Context(), audit.Actor{
		Kind: audit.User, ID: c.owner.ID, TokenID: token.ID, Through: audit.Token, Address: "192.0.2.7",
	})
	if err := c.log.Write(ctx, audit.WorkspaceExec, c.workspace, map[string]any{"program": "ls"}); err != nil {
		t.Fatal(err)
	}
	if err := c.log.Write(t.Context(), audit.SystemCollect, "", nil); err != nil {
		t.Fatal(err)
	}
	found, err := c.log.List(t.Context(), auditlog.Filter{}, 2, nil)
	if err != nil || len(found) != 2 {
		t.Fatalf("%v, %v", found, err)
	}
	exec, collect := found[1], found[0]
	if exec.WorkspaceName != "notes" || exec.UserName != "ann" || exec.Actor.TokenName != "deploy" || exec.Actor.Name != "ann" ||
		exec.Details["program"] != "ls" {
		t.Errorf("a command: %+v", exec)
	}
	if collect.Actor.Kind != audit.System || collect.WorkspaceID != "" || collect.UserID != "" {
		t.Errorf("the system: %+v", collect)
	}
	if err := c.log.Write(t.Context(), audit.WorkspaceExec, "x", nil); err == nil {
		t.Error("no workspace has the id x")
	}
}

// TestRefusalsAreBounded, because anyone can cause them.
func TestRefusalsAreBounded(t *testing.T) {
	c := newChanges(t)
	c.exec(`DELETE FROM audit_log`)
	for range auditlog.RefusalsAtOnce + 50 {
		c.log.Refused(t.Context(), auditlog.Refusal{Action: audit.UserSignIn, Why: "bad-credentials"})
	}
	// In addition, one refusal may be written for every ten seconds since the start.
	got, _ := c.list(auditlog.Filter{}, 1000, nil)
	if n := len(got); n < auditlog.RefusalsAtOnce || n > auditlog.RefusalsAtOnce+10 {
		t.Errorf("%d refusals are written", n)
	}
}

func TestCheckRetention(t *testing.T) {
	for d, ok := range map[time.Duration]bool{
		0: true, auditlog.MinRetention: true, auditlog.DefaultRetention: true, -time.Second: false, time.Hour: false,
	} {
		if err := auditlog.CheckRetention(d); (err == nil) != ok {
			t.Errorf("%s: %v", d, err)
		}
	}
}
