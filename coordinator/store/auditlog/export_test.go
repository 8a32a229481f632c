package auditlog

import "github.com/codehub/gateway/coordinator/store/postgres"

// Statement returns the statement of [Log.List].
func Statement(f Filter, limit int, before *Cursor) (string, postgres.Args) {
	return f.statement(limit, before)
}
