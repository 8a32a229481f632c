package workspaces

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	v1 "github.com/codehub/gateway/caddymodule/internal/api/v1"
	"github.com/codehub/gateway/caddymodule/internal/command"
	"github.com/codehub/gateway/caddymodule/internal/command/remote"
	"github.com/codehub/gateway/coordinator"
	"github.com/codehub/gateway/coordinator/dataplane/explain"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/workspace"
)

// place is where a command finds workspaces: a running server, for its user, or the installation's own
// servers, for an administrator.
type place interface {
	// find returns the workspace that a person names. With deleted it may be one that can be undeleted.
	find(ctx context.Context, named string, deleted bool) (v1.Workspace, error)
	list(ctx context.Context, o service.ListOptions) ([]v1.OwnedWorkspace, error)
	explain(ctx context.Context, id workspace.ID) (explain.Explanation, error)
	history(ctx context.Context, id workspace.ID, limit int) ([]v1.Transition, error)
	archives(ctx context.Context, id workspace.ID) ([]v1.Archive, error)
	restore(ctx context.Context, id workspace.ID, archive string) error
	remove(ctx context.Context, id workspace.ID, now bool) error
	undelete(ctx context.Context, id workspace.ID) error
	recover(ctx context.Context, id workspace.ID, choice service.Choice) error
	recoverAll(ctx context.Context, reason workspace.ErrorReason, choice service.Choice) (v1.Recoveries, error)
}

// installation is the place of an administrator, who may see and do everything.
type installation struct {
	*service.Service
	delay time.Duration // for which a deletion can be undone
}

// actor is an administrator at the command line.
var actor = service.Actor{Admin: true, Kind: "cli"}

func (p installation) find(ctx context.Context, named string, _ bool) (v1.Workspace, error) {
	w, err := p.Get(ctx, actor, workspace.ID(named))
	if err != nil {
		return v1.Workspace{}, err
	}
	return p.shown(w), nil
}

// shown is a workspace as an administrator sees it.
func (p installation) shown(w workspace.Workspace) v1.Workspace {
	d := p.Delays()
	return v1.WorkspaceOf(w, v1.View{Admin: true, HomeWarn: d.HomeWarn, Standby: d.Standby, DeletionDelay: p.delay})
}

func (p installation) explain(ctx context.Context, id workspace.ID) (explain.Explanation, error) {
	return p.Explain(ctx, actor, id)
}

func (p installation) history(ctx context.Context, id workspace.ID, limit int) ([]v1.Transition, error) {
	found, err := p.History(ctx, actor, id, limit, 0)
	items := make([]v1.Transition, len(found))
	for i, t := range found {
		items[i] = v1.TransitionOf(t)
	}
	return items, err
}

func (p installation) archives(ctx context.Context, id workspace.ID) ([]v1.Archive, error) {
	found, err := p.Archives(ctx, actor, id)
	return v1.ArchivesOf(found), err
}

func (p installation) restore(ctx context.Context, id workspace.ID, archive string) error {
	_, err := p.Revert(ctx, actor, id, archive)
	return err
}

func (p installation) remove(ctx context.Context, id workspace.ID, now bool) error {
	return p.Delete(ctx, actor, id, now)
}

func (p installation) undelete(ctx context.Context, id workspace.ID) error {
	_, err := p.Undelete(ctx, actor, id)
	return err
}

// withService calls do with the rules about workspaces, which look for what exists of one
// that is recovered.
func withService(s command.Servers, do func(installation) error) error {
	return s.WithClients(func(w command.Clients) error {
		return do(installation{service.New(s.Store, service.Options{
			Limits: s.Live.Limits, Delays: s.Live.Delays(),
			InstanceBackend: s.Options.BackendName(), StorageBackend: s.Options.BackendName(),
			Inventory: coordinator.Inventory{Backend: w.Backend, Archives: w.Archives, Identity: w.Identity},
		}), s.Live.GC.KeepDeleted()})
	})
}

// checkID checks how a workspace is named at an installation's own servers.
func checkID(named string) error {
	if _, err := workspace.ParseID(named); err != nil {
		return fmt.Errorf("%q is %w; to name a workspace of yours, log in first: caddy codehub login", named, err)
	}
	return nil
}

// onWorkspace completes a command whose first argument names a workspace, before so many further ones, and
// which works at either place.
func onWorkspace(resolve command.Resolver, cmd *cobra.Command, further int,
	action func(context.Context, place, v1.Workspace, []string) error) *cobra.Command {
	count := command.Arguments(cmd, 1+further)
	deleted := cmd.Name() == "undelete" || cmd.Name() == "delete"
	resolve.WithServers(cmd, func(args []string) error {
		if err := count(args); err != nil {
			return err
		}
		return checkID(args[0])
	}, func(ctx context.Context, s command.Servers, args []string) error {
		return withService(s, func(p installation) error {
			w, err := p.find(ctx, args[0], deleted)
			if err != nil {
				return err
			}
			return action(ctx, p, w, args[1:])
		})
	})
	cmd.ValidArgsFunction = completeNames(deleted)
	return remote.Or(cmd, count, func(ctx context.Context, c *remote.Client, args []string) error {
		p := server{c}
		w, err := p.find(ctx, args[0], deleted)
		if err != nil {
			return err
		}
		return action(ctx, p, w, args[1:])
	})
}
