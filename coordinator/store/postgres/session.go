package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// schemaSetting is the session setting in which a process declares the version of the schema that it knows. A trigger
// on system_locks checks it (SPEC 12.14). A release from before the setting declares nothing, so it can no longer write
// an epoch.
const schemaSetting = "codehub.schema"

// declare makes every session of a client declare the version of the schema that it knows.
func declare(params map[string]string) { params[schemaSetting] = strconv.Itoa(knownSchema) }

// PoolerError means that a connection pooler stands between this process and PostgreSQL and does not pass on
// the settings of new sessions.
type PoolerError struct {
	// Refused is the pooler's answer to the settings; nil if it let the session begin.
	Refused *pgconn.PgError
	// Says is the session's actual value of [schemaSetting]; empty for none.
	Says string
}

// PoolerRemedy is the remedy for a [PoolerError].
const PoolerRemedy = "name PostgreSQL itself in database (DATABASE_URL), with its own port, and not the pooler; a " +
	"pooler may stand between them only if every client has a server session of its own, with all settings " +
	"that it asks for"

// Problem describes the error without the remedy.
func (e *PoolerError) Problem() string {
	switch {
	case e.Refused != nil:
		return fmt.Sprintf("a connection pooler refuses a setting with which sessions begin (%s)", e.Refused.Message)
	case e.Says == "":
		return fmt.Sprintf("a connection pooler has dropped the setting %s, without which this process counts as one "+
			"of an older release", schemaSetting)
	}
	return fmt.Sprintf("a connection pooler gives this process the session of another one, whose setting %s is %s "+
		"instead of %d", schemaSetting, e.Says, knownSchema)
}

// Error implements error.
func (e *PoolerError) Error() string { return e.Problem() + ": " + PoolerRemedy }

// Unwrap returns the pooler's answer.
func (e *PoolerError) Unwrap() error {
	if e.Refused == nil {
		return nil
	}
	return e.Refused
}

// protocolViolation is the SQLSTATE with which PgBouncer refuses an unknown setting of the startup message.
// PostgreSQL itself uses other codes for settings, and knows ours. PgBouncer also uses this code if it cannot reach
// PostgreSQL, so only its message tells the two cases apart.
const (
	protocolViolation   = "08P01"
	unsupportedSettings = "unsupported startup parameter"
)

// connecting returns the error of a failed connection, as a [*PoolerError] if a pooler has refused it.
func connecting(err error) error {
	var connect *pgconn.ConnectError
	var refused *pgconn.PgError
	if errors.As(err, &connect) && errors.As(err, &refused) && refused.Code == protocolViolation &&
		strings.Contains(refused.Message, unsupportedSettings) {
		return &PoolerError{Refused: refused}
	}
	return err
}

// checkSession returns a [*PoolerError] if the session does not declare the version that this program knows. It uses no
// prepared statement: a pooler that shares sessions loses prepared statements, too.
func checkSession(ctx context.Context, q querier) error {
	var says string
	err := q.QueryRow(ctx, "SELECT COALESCE(current_setting('"+schemaSetting+"', true), '')",
		pgx.QueryExecModeSimpleProtocol).Scan(&says)
	if err != nil {
		return fmt.Errorf("reading the setting %s of the session: %w", schemaSetting, connecting(err))
	}
	if says != strconv.Itoa(knownSchema) {
		return &PoolerError{Says: says}
	}
	return nil
}
