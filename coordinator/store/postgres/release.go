package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/codehub/gateway/coordinator/words"
)

// knownSchema is the version of the schema that this program knows: the number of its newest migration.
var knownSchema = countMigrations()

func countMigrations() int {
	files, err := migrations.ReadDir("migrations")
	if err != nil {
		panic(err) // they are a part of the program
	}
	return len(files)
}

// Release compares this program with the schema of the database (SPEC 12.14). Versions are numbers of
// migrations.
type Release struct {
	// Known is the version that this program knows, and Schema is the version of the database's schema.
	Known, Schema int
	// Lead is the oldest version that a process must know to lead and to collect archives; Serve is the oldest one that
	// it must know to serve requests.
	Lead, Serve int
}

// OlderError means that this program is too old for the requested role.
type OlderError struct {
	Release
	// Serving means that this program must not even serve requests.
	Serving bool
}

// Error implements error.
func (e *OlderError) Error() string { return e.Text().String() }

// Text describes the error for people, without a full stop.
func (e *OlderError) Text() words.Text {
	key, oldest := "problem.outdated_leading", e.Lead
	if e.Serving {
		key, oldest = "problem.outdated_serving", e.Serve
	}
	return words.Of(key, words.Values{"Known": e.Known, "Schema": e.Schema, "Oldest": oldest})
}

// MayLead returns an [*OlderError] if this program is too old to lead, or even to serve.
func (r Release) MayLead() error {
	if err := r.MayServe(); err != nil {
		return err
	}
	if r.Known < r.Lead {
		return &OlderError{Release: r}
	}
	return nil
}

// MayServe returns an [*OlderError] if this program is too old to serve requests.
func (r Release) MayServe() error {
	if r.Known < r.Serve {
		return &OlderError{Release: r, Serving: true}
	}
	return nil
}

// querier is a connection, or a pool of them.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// ReadRelease reads the schema's requirements. A database without a schema has none. The error is a
// [*PoolerError] if the session does not declare the version that this program knows.
func ReadRelease(ctx context.Context, q querier) (Release, error) {
	r := Release{Known: knownSchema}
	if err := checkSession(ctx, q); err != nil {
		return r, err
	}
	var asks bool
	if err := q.QueryRow(ctx, "SELECT to_regclass('schema_requirements') IS NOT NULL").Scan(&asks); err != nil {
		return r, fmt.Errorf("looking what the schema asks for: %w", err)
	}
	if !asks {
		return r, nil
	}
	err := q.QueryRow(ctx, "SELECT (SELECT version FROM "+versionTable+"), lead, serve FROM schema_requirements").
		Scan(&r.Schema, &r.Lead, &r.Serve)
	if err != nil {
		return r, fmt.Errorf("reading what the schema asks for: %w", err)
	}
	return r, nil
}

// Release reads the schema's requirements; see [ReadRelease].
func (db *DB) Release(ctx context.Context) (Release, error) { return ReadRelease(ctx, db.pool) }
