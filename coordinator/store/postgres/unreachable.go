package postgres

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"

	"github.com/jackc/pgx/v5/pgconn"
)

// remoteAlert is the operation in the [net.OpError] that is returned if the server refuses the client's TLS.
const remoteAlert = "remote error"

// IsUnreachable reports whether the connection failed for a reason that can pass without a change of the
// settings: nothing listens at the address, its name is not known, nothing answers in time, or the server is
// starting, shutting down or out of connections. A refusal such as a wrong password, an unknown database or a
// bad certificate is not one of these, nor is a [*PoolerError].
func IsUnreachable(err error) bool {
	var connect *pgconn.ConnectError
	var pooler *PoolerError
	if !errors.As(err, &connect) || errors.As(err, &pooler) || errors.Is(err, fs.ErrPermission) {
		return false
	}
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return isTemporary(refused.Code)
	}
	var operation *net.OpError
	if errors.As(err, &operation) && operation.Op == remoteAlert {
		return false
	}
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, context.DeadlineExceeded)
}
