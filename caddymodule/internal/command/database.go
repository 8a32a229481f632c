package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/codehub/gateway/caddymodule/internal/parse"
	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/dataplane/auth"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/accounts"
	"github.com/codehub/gateway/coordinator/store/postgres"
)

// serverTimeout bounds a server's first answer to a command.
const serverTimeout = 10 * time.Second

// database is what a command gets that needs only the database.
type database struct {
	Store *store.Store
	Auth  *auth.Auth
	Cmd   *cobra.Command
}

// Say prints a result.
func (d database) Say(format string, args ...any) {
	fmt.Fprintf(d.Cmd.OutOrStdout(), format+"\n", args...)
}

// withDatabase returns a command that runs action. The command has a name as its argument if names is 1, and no
// argument if names is 0.
func withDatabase(names int,
	action func(ctx context.Context, d database, name string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := Arguments(cmd, names)(args); err != nil {
			return Usage(cmd, err)
		}
		flag, err := cmd.Flags().GetString("database")
		if err != nil {
			return fmt.Errorf("reading --database: %w", err)
		}
		dsn, _, err := parse.File(cmp.Or(flag, os.Getenv("DATABASE_URL")))
		if err != nil {
			return Usage(cmd, fmt.Errorf("reading the address of the database: %w", err))
		}
		if dsn == "" {
			return Usage(cmd, errors.New("which database? Set DATABASE_URL, or give --database, "+
				"to what the installation uses: postgres://user:password@host:5432/name"))
		}
		st, err := store.Open(dsn, postgres.Options{Waiting: func(w postgres.LockWait) {
			fmt.Fprintln(cmd.ErrOrStderr(), OneLine(w.String()))
		}})
		if err != nil {
			// The parser's message quotes the address. If an address cannot be parsed, it is unknown which part of it
			// is the password.
			return Usage(cmd, errors.New("the database's address cannot be understood: write "+
				"postgres://user:password@host:5432/name, with special characters of the password as in %2F for /"))
		}
		defer st.Close()
		if err := usable(cmd.Context(), st, "DATABASE_URL or --database"); err != nil {
			return err
		}
		a := auth.New(accounts.New(st.DB), auth.Options{})
		defer a.Close()
		return inWords(action(asOperator(cmd.Context()), database{st, a, cmd}, strings.Join(args, "")), args)
	}
}

// asOperator returns a context in which the audit names the operating-system user and the machine.
func asOperator(ctx context.Context) context.Context {
	by := audit.Actor{Kind: audit.Operator, Through: audit.CommandLine, Name: strconv.Itoa(os.Getuid())}
	if u, err := user.Current(); err == nil {
		by.Name = u.Username
	}
	if person := os.Getenv("SUDO_USER"); person != "" && os.Getuid() == 0 {
		by.Name = person + " as " + by.Name
	}
	by.Host, _ = os.Hostname()
	return audit.With(ctx, by)
}

// usable returns why this release cannot work on the database that setting names.
func usable(ctx context.Context, st *store.Store, setting string) error {
	err := answers(ctx, st.Ping)
	var pooler *postgres.PoolerError
	switch {
	case errors.As(err, &pooler):
		return pooler
	case err != nil:
		return fmt.Errorf("the database cannot be reached; check %s: %w", setting, err)
	}
	r, err := st.Release(ctx)
	if err != nil {
		return err
	}
	return r.MayServe()
}

// answers returns an error if a server does not answer ping in time.
func answers(ctx context.Context, ping func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, serverTimeout)
	defer cancel()
	return ping(ctx)
}
