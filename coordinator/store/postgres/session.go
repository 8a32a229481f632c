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

// schemaSetting is the session setting in which a process says which version of the schema it
// knows. A trigger of system_locks compares it (SPEC 12.14). So a release that says nothing, from
// before there was such a setting, makes no epoch any more.
const schemaSetting = "codehub.schema"

// declare makes every session of a client say which version of the schema it knows.
func declare(params map[string]string) { params[schemaSetting] = strconv.Itoa(knownSchema) }

// PoolerError says that a connection pooler stands between this process and PostgreSQL, and
// does not give its sessions the settings with which they begin.
type PoolerError struct {
	// Refused is what the pooler answered to them; nil if it has let the session begin.
	Refused *pgconn.PgError
	// Says is what the session has in place of [schemaSetting]; empty for nothing.
	Says string
}

// PoolerRemedy is what to do about a [PoolerError].
const PoolerRemedy = "name PostgreSQL itself in database (DATABASE_URL), with its own port, and not the pooler; a " +
	"pooler may stand between them only if every client has a server session of its own, with all settings " +
	"that it asks for"

// Problem says what is wrong, without the remedy.
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

// Unwrap returns what the pooler answered.
func (e *PoolerError) Unwrap() error {
	if e.Refused == nil {
		return nil
	}
	return e.Refused
}

// protocolViolation is the SQLSTATE with which PgBouncer refuses a setting of the startup
// message that it does not know. PostgreSQL itself has others for settings, and knows ours. PgBouncer
// sends the same one if it cannot reach PostgreSQL, so that its words decide.
const (
	protocolViolation   = "08P01"
	unsupportedSettings = "unsupported startup parameter"
)

// connecting returns the error of a connection that could not be made, as a [*PoolerError] if a
// pooler has refused it.
func connecting(err error) error {
	var connect *pgconn.ConnectError
	var refused *pgconn.PgError
	if errors.As(err, &connect) && errors.As(err, &refused) && refused.Code == protocolViolation &&
		strings.Contains(refused.Message, unsupportedSettings) {
		return &PoolerError{Refused: refused}
	}
	return err
}

// checkSession returns a [*PoolerError] if the session does not say what this program knows. It
// prepares no statement: a pooler that shares sessions loses those, too.
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
