package workspaces

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/codehub/gateway/caddymodule/internal/command"
	"github.com/codehub/gateway/coordinator"
	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
)

// thawCommand is `workspace thaw`. It does not use the API, because it must be able to thaw containers without a
// running leader.
func thawCommand(resolve command.Resolver) *cobra.Command {
	cmd := &cobra.Command{
		Use: "thaw (WORKSPACE | --all)", Short: "Thaws a workspace that dozes, or all of them",
		Long: `Ends dozes and thaws the frozen containers. A release from before dozing does neither, so run
thaw --all before you go back to one, or afterwards with the program of this release. The last
process that stops does the same; a process that was killed does not.

The workspace is named by its id, or by its name if no other frozen one has it. It needs a running
place: where the limits leave none, it dozes on, and --all puts the workspaces without a place to
sleep. The command works on the installation's own servers, whether or not any process runs there.
While one runs that supports dozing, idle workspaces doze again. To thaw a workspace of your own at a server: caddy codehub workspace start.`,
		Example: `  $ caddy codehub workspace thaw --all --config Caddyfile
  $ caddy codehub workspace thaw ` + exampleID,
	}
	all := cmd.Flags().Bool("all", false, "thaw all workspaces")
	return resolve.WithServers(cmd, func(args []string) error {
		switch {
		case *all && len(args) > 0:
			return errors.New("--all thaws every workspace: leave the name out")
		case !*all && len(args) != 1:
			return fmt.Errorf("%s instead of 1: write the workspace, or --all", command.Count(len(args), "argument"))
		}
		return nil
	}, func(ctx context.Context, s command.Servers, args []string) error {
		return s.WithClients(func(c command.Clients) error {
			if !*all {
				return thawOne(ctx, cmd, s, c, args[0])
			}
			return withService(s, func(p *service.Service) error {
				if err := s.Audit().Write(ctx, audit.SystemThaw, "", nil); err != nil {
					return err
				}
				n, err := coordinator.ThawAll(ctx, p.Limited(), c.Backend.Freezer)
				if err != nil {
					return err
				}
				say(cmd, "%s dozed; none does any more.", command.Count(n, "workspace"))
				return nil
			})
		})
	})
}

// thawOne wakes a workspace under the same limits as its owner would.
func thawOne(ctx context.Context, cmd *cobra.Command, s command.Servers, c command.Clients, named string) error {
	found, err := s.Store.Frozen(ctx)
	if err != nil {
		return err
	}
	var matches []store.Frozen
	for _, w := range found {
		if string(w.ID) == named || w.Name == named {
			matches = append(matches, w)
		}
	}
	switch {
	case len(matches) == 0:
		return fmt.Errorf("no frozen workspace is called %q", named)
	case len(matches) > 1:
		return fmt.Errorf("%s are called %q: write the id", command.Count(len(matches), "frozen workspace"), named)
	}
	w := matches[0]
	return withService(s, func(p *service.Service) error {
		if w.Dozes {
			if err := p.SetDesired(ctx, actor, w.ID, workspace.DesiredRunning); err != nil {
				return err
			}
		}
		if err := coordinator.Thaw(ctx, s.Store, c.Backend.Freezer, w.ID); err != nil {
			return err
		}
		say(cmd, "%s is thawed.", w.Name)
		return nil
	})
}
