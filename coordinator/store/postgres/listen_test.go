package postgres

import (
	"context"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/codehub/gateway/coordinator/store/postgres/postgrestest"
	"github.com/codehub/gateway/coordinator/workspace"
)

// listening starts Listen and returns its notifications and its result.
func listening(t testing.TB, s *DB) (<-chan Notification, <-chan error) {
	t.Helper()
	return postgrestest.Listening(t, s.Listen)
}

// until sends a notification of its own and returns all notifications that arrive before it.
func until(t testing.TB, s *DB, received <-chan Notification) []Notification {
	t.Helper()
	return postgrestest.Until(t, s.pool, received, func(n Notification) workspace.ID { return n.WorkspaceID })
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
	s := &DB{conn: direct.ConnConfig(), livenessInterval: 20 * time.Millisecond, livenessTimeout: 50 * time.Millisecond}
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

// TestListenReceivesAllChannelsOfTheTriggers compares three lists of channels: those on which the schema sends
// notifications, those of LISTEN, and the constants.
func TestListenReceivesAllChannelsOfTheTriggers(t *testing.T) {
	s := open(t)
	sources := value[string](t, s, `
		SELECT string_agg(source, ' ') FROM (
			SELECT pg_get_triggerdef(oid) AS source FROM pg_trigger WHERE NOT tgisinternal
			UNION ALL SELECT prosrc FROM pg_proc WHERE proname LIKE 'notify\_%') AS schema`)
	want := []string{ChannelRevoked, ChannelDeleted, ChannelSSE, ChannelWake}
	slices.Sort(want)
	if got := postgrestest.Matches(`notify(?:_workspace)?\('(\w+)'`, sources); !slices.Equal(got, want) {
		t.Errorf("the triggers notify %v, want %v", got, want)
	}
	if got := postgrestest.Matches(`LISTEN (\w+)`, listenSQL); !slices.Equal(got, want) {
		t.Errorf("Listen receives %v, want %v", got, want)
	}
}
