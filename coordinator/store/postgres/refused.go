package postgres

import (
	"errors"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"
)

// IsWrongStatement reports whether PostgreSQL refused the statement itself, so that a later attempt would fail
// in the same way. It returns false if PostgreSQL refused because of its own state, for example because it is
// starting or has too many connections, and if PostgreSQL did not answer.
func IsWrongStatement(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && !isTemporary(refused.Code)
}

// isTemporary reports whether an SQLSTATE code describes the state of the server.
func isTemporary(code string) bool {
	// The server accepts no writes: it is a replica, as after a failover, or its disk is full.
	const readOnly = "25006"
	// Class 08 is a failed connection, 53 insufficient resources such as a full disk, 55 a database that
	// accepts no connections at the moment, 57 operator intervention, and 58 a disk error.
	return code == readOnly || len(code) == 5 && slices.Contains([]string{"08", "53", "55", "57", "58"}, code[:2])
}
