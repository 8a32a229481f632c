// Package accounts holds the users of the system, in PostgreSQL. It owns the queries of users, their identities
// at other providers, their sessions and tickets, and failed sign-ins. It must not decide which users may sign
// in, nor see a token or a password (package auth).
package accounts

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/store/postgres"
)

// Store holds the queries about users and sessions, on a database. It is safe for concurrent use.
type Store struct {
	*postgres.DB
	pool *pgxpool.Pool
}

// New returns the queries on a database.
func New(db *postgres.DB) *Store { return &Store{DB: db, pool: db.Pool()} }

// ErrPeopleOnly means that an access token has requested a change that only a signed-in person may make (SPEC 11).
var ErrPeopleOnly = errors.New("access tokens may not do this")

// PeopleOnly returns [ErrPeopleOnly] if an access token requests the change in ctx. Every method that changes
// accounts or sign-ins calls it first, so no route reaches such a change with a token.
func PeopleOnly(ctx context.Context) error {
	if audit.Of(ctx).TokenID != "" {
		return ErrPeopleOnly
	}
	return nil
}
