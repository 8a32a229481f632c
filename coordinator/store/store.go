// Package store gives the coordinator access to the workspaces in PostgreSQL. It owns the queries of their rows, their
// history and the related records. It must not decide which desired states are allowed (package service) or what to do
// next (packages reconcile and planner). Its statements enforce the rules that must hold under concurrency:
// compare-and-swap, fencing and limits. Package postgres owns the connections and the schema, and package accounts owns
// users and sessions.
package store

import (
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/codehub/gateway/coordinator/store/postgres"
)

// Store runs the coordinator's queries about workspaces on a database. It is safe for concurrent use.
type Store struct {
	*postgres.DB
	pool *pgxpool.Pool

	// running admits, one at a time, the changes that set the desired state to RUNNING. PostgreSQL's lock serialises
	// these changes anyway. However, a change that waits here does not occupy a connection of the pool, which the
	// controller needs as well.
	running chan struct{}
}

// Open returns a Store on the database at that address; see [postgres.Open].
func Open(dsn string, o postgres.Options) (*Store, error) {
	db, err := postgres.Open(dsn, o)
	if err != nil {
		return nil, err
	}
	return New(db), nil
}

// New returns a Store on a database.
func New(db *postgres.DB) *Store {
	return &Store{DB: db, pool: db.Pool(), running: make(chan struct{}, 1)}
}
