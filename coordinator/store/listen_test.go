package store

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/store/accounts"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/store/postgres/postgrestest"
	"github.com/codehub/gateway/coordinator/workspace"
)

// listening starts Listen and returns its notifications and its result.
func listening(t testing.TB, s *Store) (<-chan postgres.Notification, <-chan error) {
	t.Helper()
	return postgrestest.Listening(t, s.Listen)
}

// until sends a notification of its own, and returns all notifications that arrive up to that one.
func until(t testing.TB, s *Store, received <-chan postgres.Notification) []postgres.Notification {
	t.Helper()
	return postgrestest.Until(t, s.pool, received, func(n postgres.Notification) workspace.ID { return n.WorkspaceID })
}

func TestEveryRelevantChangeIsReported(t *testing.T) {
	s := open(t)
	received, _ := listening(t, s)
	owner := addUser(t, s)
	w := add(t, s, owner)
	check := func(what string, want ...string) {
		t.Helper()
		var got []string
		for _, n := range until(t, s, received) {
			if n.WorkspaceID != w.ID || n.OwnerID != owner || n.SessionID != "" {
				t.Errorf("%s: notification %+v, want one of %s of %s", what, n, w.ID, owner)
			}
			got = append(got, n.Channel)
		}
		if strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("%s: received %v, want %v", what, got, want)
		}
	}
	check("created", postgres.ChannelSSE, postgres.ChannelWake)
	for _, c := range []struct {
		set  string
		want []string
	}{
		{`phase = 'STANDBY'`, []string{postgres.ChannelSSE}},
		{`phase = 'STANDBY'`, nil},
		{`operation = 'STARTING'`, []string{postgres.ChannelSSE}},
		{`operation = 'NONE', phase = 'ERROR', error_reason = 'Timeout', error_count = 1`, []string{postgres.ChannelSSE}},
		{`error_count = 2`, nil},
		{`error_reason = NULL, error_count = 0`, []string{postgres.ChannelSSE, postgres.ChannelWake}},
		{`phase = 'RUNNING', endpoint = 'h:1'`, []string{postgres.ChannelSSE}},
		{`endpoint = 'h:2'`, []string{postgres.ChannelSSE}},
		{`name = 'new'`, []string{postgres.ChannelSSE}},
		{`description = 'new'`, []string{postgres.ChannelSSE}},
		{`memo = 'new'`, []string{postgres.ChannelSSE}},
		{`last_access_at = now(), observed_at = now(), conditions = '{"a": {}}', archive_key = 'k'`, nil},
		{`error_message = 'more'`, []string{postgres.ChannelSSE}},
		{`image_ref = 'other'`, []string{postgres.ChannelSSE}},
		{`waiting = '{"reason": "StoreAway"}'`, []string{postgres.ChannelSSE}},
		{`waiting = NULL, awaits_gc = true, home_ctx = '{"dirty": true}'`, []string{postgres.ChannelSSE}},
		{`desired_state = 'STANDBY'`, []string{postgres.ChannelSSE, postgres.ChannelWake}},
		{`desired_state = 'DELETED', deleted_at = now()`, []string{postgres.ChannelDeleted, postgres.ChannelSSE, postgres.ChannelWake}},
		{`delete_now = true`, []string{postgres.ChannelWake}},
		{`delete_now = false`, nil},
		{`desired_state = 'ARCHIVED', deleted_at = NULL`, []string{postgres.ChannelSSE, postgres.ChannelWake}},
		{`desired_state = 'DELETED', deleted_at = now()`, []string{postgres.ChannelDeleted, postgres.ChannelSSE, postgres.ChannelWake}},
		{`collected_at = now()`, []string{postgres.ChannelSSE}},
	} {
		exec(t, s, `UPDATE workspaces SET `+c.set+` WHERE id = $1`, string(w.ID))
		check(c.set, c.want...)
	}
}

func TestAnEndedSessionIsReportedWithItsDependents(t *testing.T) {
	s := open(t)
	a := accounts.New(s.DB)
	owner := addUser(t, s)
	w := add(t, s, owner)
	main, err := a.AddSession(t.Context(), owner, "hash", accounts.TokenHash{1}, time.Hour, accounts.Origin{})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.AddTicket(t.Context(), accounts.TokenHash{1}, w.ID, accounts.TokenHash{2}, accounts.TokenHash{4}, time.Minute); err != nil {
		t.Fatal(err)
	}
	child, err := a.RedeemTicket(t.Context(), accounts.TokenHash{2}, accounts.TokenHash{4}, w.ID, accounts.TokenHash{3})
	if err != nil || child.ParentID != main.ID || child.WorkspaceID != w.ID ||
		value[int](t, s, `SELECT count(DISTINCT expires_at) FROM sessions`) != 1 {
		t.Fatalf("RedeemTicket = %+v, %v", child, err)
	}
	if _, err := a.AddSession(t.Context(), owner, "hash", accounts.TokenHash{4}, -time.Hour, accounts.Origin{}); err != nil {
		t.Fatal(err)
	}
	received, _ := listening(t, s)
	exec(t, s, `DELETE FROM sessions WHERE expires_at < now()`)
	if err := a.EndSession(t.Context(), accounts.TokenHash{1}); err != nil {
		t.Fatal(err)
	}
	ended := map[string]bool{}
	for _, n := range until(t, s, received) {
		if n.Channel != postgres.ChannelRevoked || n.OwnerID != owner {
			t.Errorf("received %+v", n)
		}
		ended[n.SessionID] = true
	}
	if len(ended) != 2 || !ended[main.ID] || !ended[child.ID] {
		t.Errorf("received of %v, want %s and %s", ended, main.ID, child.ID)
	}
}

// writesDesired finds statements that only three files may contain (SPEC 1, contract 3).
var writesDesired = regexp.MustCompile(`(?i)(SET|,)\s+(desired_state|deleted_at)\s*=[^=]`)

func TestTheDesiredStateIsWrittenInTheFilesForItOnly(t *testing.T) {
	found := map[string]bool{}
	for _, top := range []string{"../..", "postgres/migrations"} {
		err := filepath.WalkDir(top, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasSuffix(path, "_test.go") || !strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, ".sql") {
				return err
			}
			text, err := os.ReadFile(path)
			if err == nil && writesDesired.Match(text) {
				found[filepath.Base(path)] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]bool{"desired.go": true, "deletion.go": true, "recovery.go": true}
	if !maps.Equal(found, want) {
		t.Errorf("desired_state or deleted_at is written in %v, want only %v", found, want)
	}
}
