// Package accounts is who may use the system, in PostgreSQL. It owns the queries of users, their
// identities at other providers, their sessions and tickets, and failed sign-ins. It must not
// decide who may sign in, nor see a token or a password (package auth).
package accounts

import (
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/codehub/gateway/coordinator/store/postgres"
)

// Store is the queries about users and sessions, on a database. It is safe for concurrent
// use.
type Store struct {
	*postgres.DB
	pool *pgxpool.Pool
}

// New returns the queries on a database.
func New(db *postgres.DB) *Store { return &Store{DB: db, pool: db.Pool()} }
