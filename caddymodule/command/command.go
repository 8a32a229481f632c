// Package command is `caddy codehub`: the command line of an administrator. It reads the
// configuration, finds the words for what is wrong, asks before what cannot be undone, and
// prints; the work is done by the coordinator's packages, by the same rules as in a process
// that serves. It must not know Caddy's modules: the adapter passes in how its settings are
// read.
package command

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"

	"github.com/codehub/gateway/coordinator"
	"github.com/codehub/gateway/coordinator/auth"
	"github.com/codehub/gateway/coordinator/service"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/accounts"
	"github.com/codehub/gateway/coordinator/store/postgres"
)

// Settings are the settings of an installation, with their placeholders replaced.
type Settings struct {
	Options coordinator.Options
	Live    coordinator.Settings
}

// Resolver returns the settings in the configuration of the app codehub, as they apply in
// this environment.
type Resolver func(app json.RawMessage) (Settings, error)

// New returns `caddy codehub`. Commands that work on the installation's servers learn of
// them from resolve.
func New(resolve Resolver) caddycmd.Command {
	return caddycmd.Command{
		Name:      "codehub",
		Usage:     "<command>",
		Short:     "Manages the users, the workspaces and the archives of CodeHub Gateway",
		CobraFunc: resolve.complete,
	}
}

// exitUsage is the exit code for a command line, a configuration or an address that
// cannot be understood. Every other failure is 1.
const exitUsage = 2

// undefinedTable is PostgreSQL's code for a table that does not exist.
const undefinedTable = "42P01"

const commandLong = `Manages the users, the workspaces and the archives of a CodeHub installation. Caddy
need not run; if it does, it notices changes itself.

The commands user and migrate need the database that the installation uses: --database,
or the environment variable DATABASE_URL, as postgres://user:password@host:5432/name.
Prefer the variable: everybody on this machine can read the arguments of a program. The
other commands read the configuration of Caddy instead: --config.

What cannot be undone is asked for; --yes answers that.

Passwords are read from standard input, never from arguments. At a terminal they
are asked for twice and not shown; otherwise the first line is the password.

Exit codes: 0 done, 1 failed, 2 the command line, the configuration or the database's
address cannot be understood.`

// complete completes `caddy codehub` with its flags and sub-commands.
func (resolve Resolver) complete(cmd *cobra.Command) {
	cmd.Long = commandLong
	cmd.Example = `  $ export DATABASE_URL=postgres://codehub:secret@localhost:5432/codehub
  $ caddy codehub user add ann
  $ caddy codehub user list`
	cmd.PersistentFlags().String("database", "", "address of PostgreSQL (default: the environment variable DATABASE_URL)")
	cmd.SetFlagErrorFunc(usageError)
	group(cmd, userCommand(), resolve.workspaceCommand(), resolve.acceptCommand(), resolve.orphansCommand(), resolve.gcCommand(), resolve.doctorCommand(), resolve.egressCommand(), &cobra.Command{
		Use: "migrate", Short: "Brings the database's schema up to date",
		Long: `Brings the schema of the database up to date, and creates it in an empty database.
Caddy does the same at every start; use this to do it before, for example with
another database user. It may be run at any time and more than once.`,
		Example: "  $ caddy codehub migrate",
		RunE: run(0, func(ctx context.Context, d database, _ string) error {
			if err := d.store.Migrate(ctx); err != nil {
				return err
			}
			d.say("The schema of the database is up to date.")
			return nil
		}),
	})
}

// group makes sub the commands of parent, which does nothing itself.
func group(parent *cobra.Command, sub ...*cobra.Command) {
	parent.AddCommand(sub...)
	parent.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usageError(cmd, errors.New("a command is missing"))
		}
		return usageError(cmd, fmt.Errorf("there is no command %q", args[0]))
	}
}

// wrongCount is the error of a command line with another number of arguments.
func wrongCount(cmd *cobra.Command, got, want int) error {
	return fmt.Errorf("%s instead of %d: write %s", count(got, "argument"), want, cmd.UseLine())
}

// count is a number of things as people write it.
func count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// usageError reports what is wrong with the command line, and makes Caddy end with
// exitUsage. Only Caddy's own wrapper can set a code.
func usageError(cmd *cobra.Command, err error) error {
	cmd.PrintErrf("Error: %v\nSee: %s --help\n", err, cmd.CommandPath())
	cmd.SilenceErrors = true
	return caddycmd.WrapCommandFuncForCobra(func(caddycmd.Flags) (int, error) { return exitUsage, nil })(cmd, nil)
}

// database is what a command works on: the installation's database and the command
// line.
type database struct {
	store *store.Store
	auth  *auth.Auth
	cmd   *cobra.Command
}

// say tells the person what was done.
func (d database) say(format string, args ...any) {
	fmt.Fprintf(d.cmd.OutOrStdout(), format+"\n", args...)
}

// run makes a command of action, which takes a name when names is 1, and no argument
// when it is 0.
func run(names int, action func(ctx context.Context, d database, name string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != names {
			return usageError(cmd, wrongCount(cmd, len(args), names))
		}
		flag, err := cmd.Flags().GetString("database")
		if err != nil {
			return fmt.Errorf("reading --database: %w", err)
		}
		dsn := cmp.Or(flag, os.Getenv("DATABASE_URL"))
		if dsn == "" {
			return usageError(cmd, errors.New("which database? Set DATABASE_URL, or give --database, to what the installation uses: postgres://user:password@host:5432/name"))
		}
		st, err := store.Open(dsn, postgres.Options{})
		if err != nil {
			// The parser's message quotes the address. In an address that cannot be parsed,
			// the password cannot be told from the rest.
			return usageError(cmd, errors.New("the database's address cannot be understood: write postgres://user:password@host:5432/name, with special characters of the password as in %2F for /"))
		}
		defer st.Close()
		if err := answers(cmd.Context(), st.Ping); err != nil {
			return fmt.Errorf("the database cannot be reached; check DATABASE_URL or --database: %w", err)
		}
		a := auth.New(accounts.New(st.DB), auth.Options{})
		defer a.Close()
		return inWords(action(cmd.Context(), database{st, a, cmd}, strings.Join(args, "")), args)
	}
}

// inWords turns the errors of packages auth and service into sentences that say what to do.
func inWords(err error, args []string) error {
	var invalid *auth.InvalidError
	var pg *pgconn.PgError
	switch {
	case errors.Is(err, auth.ErrUserExists):
		return fmt.Errorf("there is a user %q already; to change the password: caddy codehub user passwd %[1]s", args[0])
	case errors.Is(err, auth.ErrNoUser):
		return fmt.Errorf("there is no user %q; to see who there is: caddy codehub user list", args[0])
	case errors.Is(err, service.ErrNotFound):
		return errors.New("there is no workspace with this id; the id is part of its address")
	case errors.Is(err, service.ErrOperationInProgress):
		return errors.New("an operation is in progress for this workspace: wait until it has ended (caddy codehub workspace explain ID), then run this again")
	case errors.Is(err, service.ErrInventoryUnknown):
		return fmt.Errorf("%w; it must be known before a choice is made: check the settings of the backend (docker host, or kubeconfig and context of backend kubernetes) and of s3, and run this again when both answer", err)
	case errors.Is(err, service.ErrCollected):
		return errors.New("it is too late: the files of this workspace are being deleted, or are gone")
	case errors.As(err, &invalid):
		return fmt.Errorf("the %s %s", strings.Replace(invalid.Field, "username", "user name", 1), invalid.Problem)
	case errors.As(err, &pg) && pg.Code == undefinedTable:
		return errors.New("this database has no users yet: is it the right one? To prepare it: caddy codehub migrate")
	}
	return err
}
