package postgres

import (
	"testing"

	"github.com/codehub/gateway/coordinator/devenv"
)

// A holder that is stopped or cut off does not keep the others out permanently.
func TestTheServerEndsTheSessionOfASilentHolder(t *testing.T) {
	s, err := Open(devenv.PostgreSQL(t), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	x, err := s.TryExclusive(t.Context(), "gc", "node-1")
	if err != nil {
		t.Fatal(err)
	}
	defer x.End(t.Context())
	var timeout string
	if err := x.conn.QueryRow(t.Context(), "SHOW idle_session_timeout").Scan(&timeout); err != nil || timeout != "5min" {
		t.Errorf("the server waits %q, %v", timeout, err)
	}
}
