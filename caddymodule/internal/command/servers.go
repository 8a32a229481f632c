package command

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/identity"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/auditlog"
	"github.com/codehub/gateway/coordinator/store/postgres"
)

// Servers is what a command gets that reads the configuration: the settings of the installation, and its database,
// which has answered.
type Servers struct {
	Settings
	Store *store.Store
	Cmd   *cobra.Command
}

// Say prints a result.
func (s Servers) Say(format string, args ...any) {
	fmt.Fprintf(s.Cmd.OutOrStdout(), format+"\n", args...)
}

// WithServers makes cmd a command that reads the configuration and connects to the database. Before that, usage refuses
// wrong arguments. action does the work.
func (resolve Resolver) WithServers(cmd *cobra.Command, usage func(args []string) error,
	action func(ctx context.Context, s Servers, args []string) error) *cobra.Command {
	read := resolve.reads(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		err := usage(args)
		if err == nil && cmd.Flags().Changed("database") {
			err = fmt.Errorf("%s takes the database from the configuration: leave --database out", cmd.Name())
		}
		if err != nil {
			return Usage(cmd, err)
		}
		settings, err := read()
		if err != nil {
			return Usage(cmd, err)
		}
		db, err := settings.database(cmd.Context())
		if err != nil {
			return err
		}
		defer db.Close()
		return inWords(action(asOperator(cmd.Context()), Servers{settings, db, cmd}, args), args)
	}
	return cmd
}

// database opens the installation's database, and returns an error if it does not answer.
func (s Settings) database(ctx context.Context) (*store.Store, error) {
	db, err := store.Open(s.Options.Database, postgres.Options{})
	if err != nil {
		return nil, fmt.Errorf("the setting database: %w", err)
	}
	if err := usable(ctx, db, "the setting database"); err != nil {
		db.Close()
		return nil, err
	}
	return db, nil
}

// Audit returns the audit log.
func (s Servers) Audit() *auditlog.Log { return auditlog.New(s.Store.DB, zap.NewNop()) }

// Clients are a command's clients of the container engine and the object store. A command trusts them by the same rules
// as the leader.
type Clients struct {
	Backend  backend.Backend
	Archives *archive.Store
	Identity *identity.Guard
}

// WithClients creates the clients and calls do with them. The clients make no request before do does.
func (s Servers) WithClients(do func(Clients) error) error {
	engine, err := s.Options.NewBackend()
	if err != nil {
		return fmt.Errorf("the settings of %s: %w", s.Options.BackendName(), err)
	}
	defer engine.Close()
	archives, err := archive.New(s.Options.Archive)
	if err != nil {
		return fmt.Errorf("the settings of s3: %w", err)
	}
	known := identity.New(s.Store, engine, archives, s.Options.Installation(), zap.NewNop())
	return do(Clients{engine, archives, known})
}
