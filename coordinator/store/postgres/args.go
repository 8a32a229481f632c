package postgres

import (
	"context"
	"sync"

	"github.com/jackc/pgx/v5"
)

// Args are the named arguments of a statement: [pgx.StrictNamedArgs], except that each statement is parsed only once.
// Parsing a long statement takes as long as everything else that the client does to run it.
type Args map[string]any

// positional is a statement with $1, $2 and so on, and the names of the arguments in that order.
type positional struct {
	sql   string
	names []any
}

// parsed caches a [positional] per statement with names. Statements are constants, so there are few.
var parsed sync.Map

// RewriteQuery implements [pgx.QueryRewriter].
func (a Args) RewriteQuery(ctx context.Context, conn *pgx.Conn, sql string, _ []any) (string, []any, error) {
	known, ok := parsed.Load(sql)
	if !ok {
		names := make(pgx.StrictNamedArgs, len(a))
		for name := range a {
			names[name] = name
		}
		text, order, err := names.RewriteQuery(ctx, conn, sql, nil)
		if err != nil {
			return "", nil, err
		}
		known, _ = parsed.LoadOrStore(sql, positional{text, order})
	}
	p := known.(positional)
	args := make([]any, len(p.names))
	complete := len(a) == len(args)
	for i, name := range p.names {
		value, given := a[name.(string)]
		args[i], complete = value, complete && given
	}
	if !complete {
		return pgx.StrictNamedArgs(a).RewriteQuery(ctx, conn, sql, nil) // which returns the error
	}
	return p.sql, args, nil
}
