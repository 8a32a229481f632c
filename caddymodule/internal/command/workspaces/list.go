package workspaces

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	v1 "github.com/codehub/gateway/caddymodule/internal/api/v1"
	"github.com/codehub/gateway/caddymodule/internal/command"
	"github.com/codehub/gateway/caddymodule/internal/command/remote"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
)

func listCommand(resolve command.Resolver) *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "Lists workspaces",
		Long: `Lists your workspaces at the server, the newest first: with --failed only those that are in ERROR, with
--deleted in their place those whose deletion can still be undone. With --json the result is an array
of the objects of the API's GET /workspaces.

At the installation's own servers it lists workspaces of all users that an administrator may have to
care for, and needs --failed or --deleted. With --json the result is then an array of objects with
"id", "name", "owner_user_id", "phase", "error_reason", "error_message" and "deleted_at"; what does
not apply is null.`,
		Example: `  $ caddy codehub workspace list
  $ caddy codehub workspace list --failed --config Caddyfile
  $ caddy codehub workspace list --failed --json | jq -r '.[] | select(.error_reason == "DataLost") | .id'
  $ caddy codehub workspace list --deleted`,
	}
	var failed, deleted, asJSON bool
	cmd.Flags().BoolVar(&failed, "failed", false, "list the workspaces that are in ERROR")
	cmd.Flags().BoolVar(&deleted, "deleted", false, "list the deleted workspaces that can be undeleted")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	resolve.WithServers(cmd, func(args []string) error {
		if failed == deleted {
			return errors.New("write --failed or --deleted; to list your own workspaces at a running server, " +
				"log in there first: caddy codehub login")
		}
		return command.Arguments(cmd, 0)(args)
	}, func(ctx context.Context, s command.Servers, _ []string) error {
		return withService(s, func(p installation) error {
			workspaces, out := p.Service, cmd.OutOrStdout()
			if asJSON {
				out = io.Discard
			}
			var found []listed
			var err error
			if deleted {
				found, err = listDeleted(ctx, workspaces, s.Live.GC.Delay, out)
			} else {
				found, err = listFailed(ctx, workspaces, out)
			}
			if err == nil && asJSON {
				err = command.PrintJSON(cmd.OutOrStdout(), found)
			}
			return err
		})
	})
	return remote.Or(cmd, func(args []string) error {
		if failed && deleted {
			return errors.New("write only one of --failed and --deleted")
		}
		return command.Arguments(cmd, 0)(args)
	}, func(ctx context.Context, c *remote.Client, _ []string) error {
		query := url.Values{}
		if deleted {
			query.Set("deleted", "true")
		}
		found, err := server{c}.list(ctx, query)
		if err != nil {
			return err
		}
		if failed {
			found = slices.DeleteFunc(found, func(w v1.Workspace) bool { return w.Phase != workspace.PhaseError })
		}
		if asJSON {
			return command.PrintJSON(cmd.OutOrStdout(), found)
		}
		return printOwn(cmd, found)
	})
}

// listed is a workspace of a list as programs see it.
type listed struct {
	ID      workspace.ID           `json:"id"`
	Name    string                 `json:"name"`
	Owner   string                 `json:"owner_user_id"`
	Phase   workspace.Phase        `json:"phase"`
	Reason  *workspace.ErrorReason `json:"error_reason"`
	Message *string                `json:"error_message"`
	Deleted *time.Time             `json:"deleted_at"`
}

func listedOf(w workspace.Workspace) listed {
	l := listed{ID: w.ID, Name: w.Name, Owner: w.OwnerID, Phase: w.Phase}
	if w.ErrorReason != "" {
		l.Reason, l.Message = &w.ErrorReason, &w.ErrorMessage
	}
	if w.Deleted() {
		l.Deleted = &w.DeletedAt
	}
	return l
}

// listFailed prints the workspaces that are in ERROR.
func listFailed(ctx context.Context, workspaces *service.Service, w io.Writer) ([]listed, error) {
	failed := service.ListOptions{All: true, Phases: []workspace.Phase{workspace.PhaseError}}
	page := func(cursor string) ([]store.Listed, string, error) {
		return workspaces.List(ctx, actor, failed, service.MaxPage, cursor)
	}
	header := "REASON\tSINCE\tID\tOWNER\tNAME"
	return list(w, header, "No workspace is in ERROR.", page, func(f store.Listed) (listed, string) {
		since := f.PhaseChangedAt.Local().Format(time.DateTime)
		return listedOf(f.Workspace), fmt.Sprintf("%s\t%s\t%s\t%s\t%s",
			f.ErrorReason, since, f.ID, f.Owner, command.OneLine(f.Name))
	})
}

// listDeleted prints the workspaces whose deletion can be undone, for delay at least.
func listDeleted(ctx context.Context, workspaces *service.Service, delay time.Duration, w io.Writer) ([]listed, error) {
	page := func(cursor string) ([]store.Listed, string, error) {
		return workspaces.List(ctx, actor, service.ListOptions{All: true, Deleted: true}, service.MaxPage, cursor)
	}
	header := "DELETED\tKEPT UNTIL\tID\tNAME"
	return list(w, header, "No deletion can be undone.", page, func(d store.Listed) (listed, string) {
		deleted, until := d.DeletedAt.Local(), d.DeletedAt.Add(delay).Local()
		return listedOf(d.Workspace), fmt.Sprintf("%s\t%s\t%s\t%s",
			deleted.Format(time.DateTime), until.Format(time.DateTime), d.ID, command.OneLine(d.Name))
	})
}

// list prints a table of all pages, or a sentence when there is nothing, and returns what
// programs see of it.
func list[T any](w io.Writer, header, none string, page func(cursor string) ([]T, string, error),
	row func(T) (listed, string)) ([]listed, error) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	all := []listed{}
	for cursor := ""; ; {
		items, next, err := page(cursor)
		if err != nil {
			return nil, err
		}
		for _, item := range items {
			if len(all) == 0 {
				fmt.Fprintln(t, header)
			}
			l, line := row(item)
			all = append(all, l)
			fmt.Fprintln(t, line)
		}
		if cursor = next; next == "" {
			break
		}
	}
	if len(all) == 0 {
		fmt.Fprintln(t, none)
	}
	if err := t.Flush(); err != nil {
		return nil, fmt.Errorf("printing the workspaces: %w", err)
	}
	return all, nil
}
