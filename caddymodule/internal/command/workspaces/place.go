package workspaces

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/codehub/gateway/caddymodule/internal/api"
	v1 "github.com/codehub/gateway/caddymodule/internal/api/v1"
	"github.com/codehub/gateway/caddymodule/internal/command"
	"github.com/codehub/gateway/caddymodule/internal/command/remote"
	"github.com/codehub/gateway/coordinator"
	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/dataplane/auth"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/store/accounts"
	"github.com/codehub/gateway/coordinator/store/usage"
	"github.com/codehub/gateway/coordinator/workspace"
)

// actor is an operator, with an administrator's rights.
var actor = service.Actor{Admin: true, Through: audit.CLI}

// withAPI calls do with the API in this process, on the installation's own servers.
func withAPI(ctx context.Context, s command.Servers, do func(server) error) error {
	return withService(s, func(workspaces *service.Service) error {
		users := auth.New(accounts.New(s.Store.DB), auth.Options{})
		defer users.Close()
		transport, err := api.Local(api.Options{
			Service: workspaces, DeletionDelay: s.Live.GC.KeepDeleted(), Auth: users, Audit: s.Audit(), Usage: usage.New(s.Store.DB),
		}, audit.Of(ctx))
		if err != nil {
			return err
		}
		return do(server{remote.Local(transport)})
	})
}

// withService calls do with the service layer on the installation's own servers.
func withService(s command.Servers, do func(*service.Service) error) error {
	return s.WithClients(func(w command.Clients) error {
		return do(service.New(s.Store, service.Options{
			Limits: s.Live.Limits, Delays: s.Live.Delays(),
			InstanceBackend: s.Options.BackendName(), StorageBackend: s.Options.BackendName(),
			Inventory: coordinator.Inventory{Backend: w.Backend, Archives: w.Archives, Identity: w.Identity},
		}))
	})
}

// checkID refuses names: on the installation's own servers a workspace is named by its id.
func checkID(named string) error {
	if _, err := workspace.ParseID(named); err != nil {
		return fmt.Errorf("%q is %w; to name a workspace of yours, log in first: caddy codehub login", named, err)
	}
	return nil
}

// anywhere makes a command work both at a running server and on the installation's own servers. In the latter case, a
// first argument must be a workspace's id.
func anywhere(resolve command.Resolver, cmd *cobra.Command, usage func(args []string) error,
	action func(context.Context, server, []string) error) *cobra.Command {
	resolve.WithServers(cmd, func(args []string) error {
		if err := usage(args); err != nil || len(args) == 0 {
			return err
		}
		return checkID(args[0])
	}, func(ctx context.Context, s command.Servers, args []string) error {
		return withAPI(ctx, s, func(p server) error { return action(ctx, p, args) })
	})
	return remote.Or(cmd, usage, func(ctx context.Context, c *remote.Client, args []string) error {
		return action(ctx, server{c}, args)
	})
}

// onWorkspace does what anywhere does, for a command whose first argument names a workspace. further is the number of
// its other arguments.
func onWorkspace(resolve command.Resolver, cmd *cobra.Command, further int,
	action func(context.Context, server, v1.Workspace, []string) error) *cobra.Command {
	deleted := cmd.Name() == "undelete" || cmd.Name() == "delete"
	cmd.ValidArgsFunction = completeNames(deleted)
	return anywhere(resolve, cmd, command.Arguments(cmd, 1+further), withFound(deleted, action))
}

// onOwnWorkspace does what onWorkspace does, for a command that works only at a running server.
func onOwnWorkspace(cmd *cobra.Command, further int,
	action func(context.Context, server, v1.Workspace, []string) error) *cobra.Command {
	cmd.ValidArgsFunction = completeNames(false)
	do := withFound(false, action)
	return remote.Only(cmd, command.Arguments(cmd, 1+further), func(ctx context.Context, c *remote.Client, args []string) error {
		return do(ctx, server{c}, args)
	})
}

// withFound finds the workspace that the first argument names, and calls action with it and the further arguments.
func withFound(deleted bool, action func(context.Context, server, v1.Workspace, []string) error) func(context.Context, server, []string) error {
	return func(ctx context.Context, p server, args []string) error {
		w, err := p.find(ctx, args[0], deleted)
		if err != nil {
			return err
		}
		return action(ctx, p, w, args[1:])
	}
}
