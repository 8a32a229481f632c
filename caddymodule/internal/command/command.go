// Package command is `caddy codehub`: the command line of an administrator. It puts the
// commands together, and holds those about users, about what is left over, and about what
// the installation depends on; the work is done by the coordinator's packages, by the same
// rules as in a process that serves. It must not know Caddy's modules: the adapter passes in
// how its settings are read.
package command

import (
	"context"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/codehub/gateway/caddymodule/internal/command/cli"
	"github.com/codehub/gateway/caddymodule/internal/command/doctor"
	"github.com/codehub/gateway/caddymodule/internal/command/installation"
	"github.com/codehub/gateway/caddymodule/internal/command/workspaces"
)

// New returns `caddy codehub`. Commands that work on the installation's servers learn of
// them from resolve.
func New(resolve installation.Resolver) caddycmd.Command {
	return caddycmd.Command{
		Name:      "codehub",
		Usage:     "<command>",
		Short:     "Manages the users, the workspaces and the archives of CodeHub Gateway",
		CobraFunc: func(cmd *cobra.Command) { complete(cmd, resolve) },
	}
}

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
func complete(cmd *cobra.Command, resolve installation.Resolver) {
	cmd.Long = commandLong
	cmd.Example = `  $ export DATABASE_URL=postgres://codehub:secret@localhost:5432/codehub
  $ caddy codehub user add ann
  $ caddy codehub user list`
	cmd.PersistentFlags().String("database", "", "address of PostgreSQL (default: the environment variable DATABASE_URL)")
	cmd.SetFlagErrorFunc(cli.UsageError)
	cli.Group(cmd, userCommand(), workspaces.Command(resolve), acceptCommand(resolve), orphansCommand(resolve), gcCommand(resolve), doctor.Command(resolve), egressCommand(resolve), &cobra.Command{
		Use: "migrate", Short: "Brings the database's schema up to date",
		Long: `Brings the schema of the database up to date, and creates it in an empty database.
Caddy does the same at every start; use this to do it before, for example with
another database user. It may be run at any time and more than once.`,
		Example: "  $ caddy codehub migrate",
		RunE: installation.WithDatabase(0, func(ctx context.Context, d installation.Database, _ string) error {
			if err := d.Store.Migrate(ctx); err != nil {
				return err
			}
			d.Say("The schema of the database is up to date.")
			return nil
		}),
	})
}
