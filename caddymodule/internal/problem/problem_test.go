package problem_test

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/codehub/gateway/caddymodule/internal/problem"
	"github.com/codehub/gateway/coordinator/dataplane/service"
)

// TestDatabaseErrors: an error that may be temporary is 503, a statement that is wrong
// is 500.
func TestDatabaseErrors(t *testing.T) {
	for code, want := range map[string]int{
		"57P03": 503, // starting up
		"57P01": 503, // being shut down
		"53300": 503, // too many connections
		"55000": 503, // not accepting connections
		"25006": 503, // read-only, as a replica is
		"53100": 503, // its disk is full
		"58030": 503, // its disk fails
		"08006": 503, // the connection failed
		"42601": 500, // syntax error
		"":      500,
	} {
		err := fmt.Errorf("reading: %w", &pgconn.PgError{Code: code})
		if got := problem.Of(err).Status; got != want {
			t.Errorf("SQLSTATE %q: %d, want %d", code, got, want)
		}
	}
}

// A choice for a deleted workspace is no problem with choices to offer.
func TestAChoiceForADeletedWorkspaceOffersNone(t *testing.T) {
	p := problem.Of(fmt.Errorf("recovering: %w", service.ErrDeleted))
	if p.Status != 409 || p.Type != problem.Deleted.Type || p.Recovery != nil {
		t.Errorf("%+v", p)
	}
}
