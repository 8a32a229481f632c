package postgres

import (
	"errors"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"
)

// IsWrongStatement reports whether err says that PostgreSQL refused a statement for what the
// statement is. A later attempt would fail in the same way. It reports false when PostgreSQL
// refused because of its own state, for example because it is starting or has too many connections.
// It also does when PostgreSQL did not answer.
func IsWrongStatement(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && !isTemporary(refused.Code)
}

// isTemporary reports whether the code of an error, its SQLSTATE, is about the state of the server.
func isTemporary(code string) bool {
	// It takes no writes: it is a replica, as after a failover, or its disk is full.
	const readOnly = "25006"
	// Class 08 is a connection that failed, and 53 insufficient resources such as room on the disk.
	// 55 is a database that accepts no connections at the moment, 57 operator intervention, and 58
	// an error of the disk.
	return code == readOnly || len(code) == 5 && slices.Contains([]string{"08", "53", "55", "57", "58"}, code[:2])
}
