// Package command is `caddy codehub`: the command line for administrators, and for people who have an access token of a
// running server (package remote). It reads the settings, opens the servers that they name, and talks to the person at
// the terminal. It has the commands about users, leftovers and the installation itself. The coordinator's packages do
// the work, by the same rules as in a serving process. It must not know Caddy's modules: the adapter passes in the
// function that reads its settings, and the commands of the packages below.
package command

import (
	"context"
	"fmt"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/codehub/gateway/coordinator/version"
)

// New returns `caddy codehub` with its own commands and those in more. The commands get the installation's settings
// from resolve.
func New(resolve Resolver, more ...func(Resolver) *cobra.Command) caddycmd.Command {
	return caddycmd.Command{
		Name:      "codehub",
		Usage:     "<command>",
		Short:     "Manages the workspaces, the users and the archives of CodeHub Gateway",
		CobraFunc: func(cmd *cobra.Command) { complete(cmd, resolve, more) },
	}
}

const commandLong = `Manages workspaces, in two ways.

Anybody who may sign in works with their own workspaces through a running server: caddy codehub
login stores its address and a personal access token; CODEHUB_URL and CODEHUB_TOKEN win over that.
The commands workspace and token use it. Where you are logged in nowhere, or give --config,
workspace works on the installation's own servers instead.

Administrators work on the installation's own servers. Caddy need not run; if it does, it
notices changes itself. The commands user, audit, report and migrate need the database that the installation
uses: --database, or the environment variable DATABASE_URL, as
postgres://user:password@host:5432/name, or {file./path} for a file that has it. Prefer the
variable or a file: every user of this machine can read the arguments of a program. The other commands read the configuration of Caddy: --config.

What cannot be undone is asked for; --yes answers that.

Passwords and tokens are read from standard input, never from arguments. At a terminal they
are asked for and not shown, a new password twice; otherwise the first line counts.

A shell completes commands, and the names of workspaces: see caddy completion --help.

Exit codes: 0 done, 1 failed, 2 the command line, the configuration or the database's
address cannot be understood. Through a server also: 3 not signed in, or not allowed;
4 not found, or a name of several; 5 refused for now, such as an operation in progress
or a limit.`

// complete adds the flags and sub-commands to `caddy codehub`.
func complete(cmd *cobra.Command, resolve Resolver, more []func(Resolver) *cobra.Command) {
	cmd.Long = commandLong
	cmd.Example = `  $ caddy codehub login https://codehub.example.com
  $ caddy codehub workspace list

  $ export DATABASE_URL=postgres://codehub:secret@localhost:5432/codehub
  $ caddy codehub user add ann
  $ caddy codehub user list`
	cmd.PersistentFlags().String("database", "",
		"address of PostgreSQL (default: the environment variable DATABASE_URL)")
	cmd.SetFlagErrorFunc(Usage)
	for _, command := range more {
		cmd.AddCommand(command(resolve))
	}
	Group(cmd, userCommand(), auditCommand(), reportCommand(), acceptCommand(resolve), orphansCommand(resolve), gcCommand(resolve),
		egressCommand(resolve), migrateCommand(), versionCommand(), healthCommand())
}

// migrateCommand is `migrate`. It does not use the API, because the API needs a schema that is up to date.
func migrateCommand() *cobra.Command {
	return &cobra.Command{
		Use: "migrate", Short: "Brings the database's schema up to date",
		Long: `Brings the schema of the database up to date, and creates it in an empty database.
Caddy does the same at every start; use this to do it before, for example with
another database user. It may be run at any time and more than once.

While another session holds a lock that it needs, such as a backup, it keeps nobody
waiting: it is tried again, and says which sessions hold the lock.`,
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

// versionCommand is `version`.
func versionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "version", Short: "Prints which release of CodeHub Gateway this is",
		Long: `Prints the version of CodeHub Gateway, and the commit that it was built from.
caddy version prints that of Caddy.`,
		Example: "  $ caddy codehub version",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := Arguments(cmd, 0)(args); err != nil {
				return Usage(cmd, err)
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), version.String())
			return err
		},
	}
	HideDatabase(cmd.Flags())
	return cmd
}
