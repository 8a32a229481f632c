// Package command is `caddy codehub`: the command line of an administrator. It reads the
// settings, opens the servers that they name, and talks to the person at the terminal. It has
// the commands about users, about what is left over and about what the installation depends on.
// The work is done by the coordinator's packages, by the same rules as in a process that serves.
// It must not know Caddy's modules: the adapter passes in how its settings are read, and the
// commands of the packages below.
package command

import (
	"context"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
)

// New returns `caddy codehub` with its own commands and more. Those that work on the
// installation's servers learn of them from resolve.
func New(resolve Resolver, more ...func(Resolver) *cobra.Command) caddycmd.Command {
	return caddycmd.Command{
		Name:      "codehub",
		Usage:     "<command>",
		Short:     "Manages the users, the workspaces and the archives of CodeHub Gateway",
		CobraFunc: func(cmd *cobra.Command) { complete(cmd, resolve, more) },
	}
}

const commandLong = `Manages the users, the workspaces and the archives of a CodeHub installation. Caddy
need not run; if it does, it notices changes itself.

The commands user and migrate need the database that the installation uses: --database,
or the environment variable DATABASE_URL, as postgres://user:password@host:5432/name.
Prefer the variable: every user of this machine can read the arguments of a program. The
other commands read the configuration of Caddy instead: --config.

What cannot be undone is asked for; --yes answers that.

Passwords are read from standard input, never from arguments. At a terminal they
are asked for twice and not shown; otherwise the first line is the password.

Exit codes: 0 done, 1 failed, 2 the command line, the configuration or the database's
address cannot be understood.`

// complete completes `caddy codehub` with its flags and sub-commands.
func complete(cmd *cobra.Command, resolve Resolver, more []func(Resolver) *cobra.Command) {
	cmd.Long = commandLong
	cmd.Example = `  $ export DATABASE_URL=postgres://codehub:secret@localhost:5432/codehub
  $ caddy codehub user add ann
  $ caddy codehub user list`
	cmd.PersistentFlags().String("database", "",
		"address of PostgreSQL (default: the environment variable DATABASE_URL)")
	cmd.SetFlagErrorFunc(usageError)
	for _, command := range more {
		cmd.AddCommand(command(resolve))
	}
	Group(cmd, userCommand(), acceptCommand(resolve), orphansCommand(resolve), gcCommand(resolve),
		egressCommand(resolve), migrateCommand())
}

// migrateCommand is `migrate`.
func migrateCommand() *cobra.Command {
	return &cobra.Command{
		Use: "migrate", Short: "Brings the database's schema up to date",
		Long: `Brings the schema of the database up to date, and creates it in an empty database.
Caddy does the same at every start; use this to do it before, for example with
another database user. It may be run at any time and more than once.`,
		Example: "  $ caddy codehub migrate",
		RunE: withDatabase(0, func(ctx context.Context, d database, _ string) error {
			if err := d.Store.Migrate(ctx); err != nil {
				return err
			}
			d.Say("The schema of the database is up to date.")
			return nil
		}),
	}
}
