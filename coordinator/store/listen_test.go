package store

import (
	"context"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// listening starts Listen and returns its notifications, and its end.
func listening(t testing.TB, s *Store) (<-chan Notification, <-chan error) {
	t.Helper()
	received, ended, connected := make(chan Notification, 100), make(chan error, 1), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { ended <- s.Listen(ctx, func() { close(connected) }, func(n Notification) { received <- n }) }()
	t.Cleanup(cancel)
	select {
	case <-connected:
	case err := <-ended:
		t.Fatal(err)
	}
	return received, ended
}

// markID identifies the notification that until sends after all others.
const markID = "00000000-0000-0000-0000-000000000000"

// until returns the notifications up to one that it sends itself.
func until(t testing.TB, s *Store, received <-chan Notification) []Notification {
	t.Helper()
	exec(t, s, `SELECT pg_notify('ws_wake', '{"id":"`+markID+`"}')`)
	var out []Notification
	for n := range received {
		if n.WorkspaceID == markID {
			break
		}
		out = append(out, n)
	}
	return out
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
	check("created", ChannelSSE, ChannelWake)
	for _, c := range []struct {
		set  string
		want []string
	}{
		{`phase = 'STANDBY'`, []string{ChannelSSE}},
		{`phase = 'STANDBY'`, nil},
		{`operation = 'STARTING'`, []string{ChannelSSE}},
		{`operation = 'NONE', phase = 'ERROR', error_reason = 'Timeout', error_count = 1`, []string{ChannelSSE}},
		{`error_count = 2`, nil},
		{`error_reason = NULL, error_count = 0`, []string{ChannelSSE, ChannelWake}},
		{`phase = 'RUNNING', endpoint = 'h:1'`, []string{ChannelSSE}},
		{`endpoint = 'h:2'`, []string{ChannelSSE}},
		{`name = 'new'`, []string{ChannelSSE}},
		{`description = 'new'`, []string{ChannelSSE}},
		{`memo = 'new'`, []string{ChannelSSE}},
		{`last_access_at = now(), observed_at = now(), conditions = '{"a": {}}', archive_key = 'k'`, nil},
		{`error_message = 'more'`, []string{ChannelSSE}},
		{`image_ref = 'other'`, []string{ChannelSSE}},
		{`waiting = '{"reason": "StoreAway"}'`, []string{ChannelSSE}},
		{`waiting = NULL, awaits_gc = true, home_ctx = '{"dirty": true}'`, []string{ChannelSSE}},
		{`desired_state = 'STANDBY'`, []string{ChannelSSE, ChannelWake}},
		{`desired_state = 'DELETED', deleted_at = now()`, []string{ChannelDeleted, ChannelSSE, ChannelWake}},
		{`delete_now = true`, []string{ChannelWake}},
		{`delete_now = false`, nil},
		{`desired_state = 'ARCHIVED', deleted_at = NULL`, []string{ChannelSSE, ChannelWake}},
		{`desired_state = 'DELETED', deleted_at = now()`, []string{ChannelDeleted, ChannelSSE, ChannelWake}},
		{`collected_at = now()`, []string{ChannelSSE}},
	} {
		exec(t, s, `UPDATE workspaces SET `+c.set+` WHERE id = $1`, string(w.ID))
		check(c.set, c.want...)
	}
}

func TestAnEndedSessionIsReportedWithItsDependents(t *testing.T) {
	s := open(t)
	owner := addUser(t, s)
	w := add(t, s, owner)
	main, err := s.AddSession(t.Context(), owner, "hash", TokenHash{1}, time.Hour, Origin{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.AddTicket(t.Context(), TokenHash{1}, w.ID, TokenHash{2}, TokenHash{4}, time.Minute); err != nil {
		t.Fatal(err)
	}
	child, err := s.RedeemTicket(t.Context(), TokenHash{2}, TokenHash{4}, w.ID, TokenHash{3})
	if err != nil || child.ParentID != main.ID || child.WorkspaceID != w.ID || !child.ExpiresAt.Equal(main.ExpiresAt) {
		t.Fatalf("RedeemTicket = %+v, %v", child, err)
	}
	if _, err := s.AddSession(t.Context(), owner, "hash", TokenHash{4}, -time.Hour, Origin{}); err != nil {
		t.Fatal(err)
	}
	received, _ := listening(t, s)
	exec(t, s, `DELETE FROM sessions WHERE expires_at < now()`)
	if err := s.EndSession(t.Context(), TokenHash{1}); err != nil {
		t.Fatal(err)
	}
	ended := map[string]bool{}
	for _, n := range until(t, s, received) {
		if n.Channel != ChannelRevoked || n.OwnerID != owner {
			t.Errorf("received %+v", n)
		}
		ended[n.SessionID] = true
	}
	if len(ended) != 2 || !ended[main.ID] || !ended[child.ID] {
		t.Errorf("received of %v, want %s and %s", ended, main.ID, child.ID)
	}
}

func TestOtherNotificationsAreIgnored(t *testing.T) {
	s := open(t)
	received, _ := listening(t, s)
	for _, sql := range []string{
		`NOTIFY ws_sse`,
		`NOTIFY ws_sse, 'not json'`,
		`NOTIFY ws_wake, '{"id":"../../etc"}'`,
		`NOTIFY session_revoked, '{"session":""}'`,
		`NOTIFY elsewhere, '{"id":"11111111-1111-1111-1111-111111111111"}'`,
	} {
		exec(t, s, sql)
	}
	if got := until(t, s, received); len(got) != 0 {
		t.Errorf("received %+v", got)
	}
}

func TestListenEndsWithItsConnection(t *testing.T) {
	s := open(t)
	s.livenessInterval = 10 * time.Millisecond // many pings without ending the connection
	received, ended := listening(t, s)
	const ours = `datname = current_database() AND query ~ '^LISTEN|^-- ping'`
	before := value[time.Time](t, s, `SELECT state_change FROM pg_stat_activity WHERE `+ours+` LIMIT 1`)
	for t.Context().Err() == nil && !value[bool](t, s, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE `+ours+` AND state_change > $1)`, before) {
	}
	if got := until(t, s, received); len(got) != 0 {
		t.Errorf("received %+v", got)
	}
	exec(t, s, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE `+ours)
	if err := <-ended; err == nil || !strings.HasPrefix(err.Error(), "waiting for notifications: ") {
		t.Errorf("Listen = %v", err)
	}
}

func TestListenEndsWithItsContext(t *testing.T) {
	s := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	err := s.Listen(ctx, cancel, func(Notification) {})
	if err == nil || ctx.Err() == nil {
		t.Errorf("Listen = %v", err)
	}
}

// A server that is cut off sends nothing, not even the end of the connection.
func TestListenNoticesASilentServer(t *testing.T) {
	direct := open(t)
	cut := new(atomic.Bool)
	s := &Store{conn: direct.ConnConfig(), livenessInterval: 20 * time.Millisecond, livenessTimeout: 50 * time.Millisecond}
	dial := s.conn.DialFunc
	s.conn.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil || cut.Load() { // pgx cancels the query on another connection
			return c, err
		}
		return &mute{Conn: c, cut: cut}, nil
	}
	_, ended := listening(t, s)
	cut.Store(true)
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "pinging the silent server") {
		t.Errorf("Listen = %v", err)
	}
}

// mute is a connection that, once cut, drops everything that is sent.
type mute struct {
	net.Conn
	cut *atomic.Bool
}

func (m *mute) Write(b []byte) (int, error) {
	if m.cut.Load() {
		return io.Discard.Write(b)
	}
	return m.Conn.Write(b)
}

func TestConnConfigIsACopy(t *testing.T) {
	s := open(t)
	s.ConnConfig().RuntimeParams["application_name"] = "changed"
	conn, err := pgx.ConnectConfig(t.Context(), s.ConnConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	var name string
	if err := conn.QueryRow(t.Context(), `SHOW application_name`).Scan(&name); err != nil || name != "codehub" {
		t.Errorf("application_name = %q, %v", name, err)
	}
}

// writesDesired finds statements that only three files may contain (SPEC 1, contract 3).
var writesDesired = regexp.MustCompile(`(?i)(SET|,)\s+(desired_state|deleted_at)\s*=[^=]`)

func TestTheDesiredStateIsWrittenInTheFilesForItOnly(t *testing.T) {
	found := map[string]bool{}
	for _, top := range []string{"../..", "migrations"} {
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
