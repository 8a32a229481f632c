package workspaces

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	v1 "github.com/codehub/gateway/caddymodule/internal/api/v1"
	"github.com/codehub/gateway/caddymodule/internal/command"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/workspace"
)

// listing is the command line of `workspace list`.
type listing struct {
	service.ListOptions
	phases       []string
	failed, json bool
}

func listCommand(resolve command.Resolver) *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "Lists workspaces",
		Long: `Lists your workspaces at the server, the newest first; with --all, for administrators, those of all users.
At the installation's own servers it always lists those of all users.

With --json the result is an array of the objects of the API's GET /workspaces. They have "owner_username"
where the list is one of all users.`,
		Example: `  $ caddy codehub workspace list
  $ caddy codehub workspace list --phase RUNNING,ERROR --sort -last_access_at
  $ caddy codehub workspace list --failed --json | jq -r '.[] | select(.error_reason == "DataLost") | .id'
  $ caddy codehub workspace list --deleted --config Caddyfile`,
	}
	var l listing
	cmd.Flags().BoolVar(&l.failed, "failed", false, "list those that are in ERROR, with the reasons")
	cmd.Flags().BoolVar(&l.Deleted, "deleted", false, "list those that are deleted and can be undeleted")
	cmd.Flags().StringSliceVar(&l.phases, "phase", nil, "list those in these phases, such as RUNNING,STANDBY")
	cmd.Flags().StringVarP(&l.Text, "query", "q", "", "list those with this text in name, description, memo or image")
	cmd.Flags().StringVar(&l.Sort, "sort", "",
		"created_at, name, last_access_at, phase or home_bytes, with - before it for the greatest first")
	cmd.Flags().BoolVar(&l.All, "all", false, "list those of all users, as an administrator")
	cmd.Flags().StringVar(&l.Owner, "owner", "", "list those of this user, as an administrator")
	cmd.Flags().BoolVar(&l.json, "json", false, "print JSON")
	return anywhere(resolve, cmd, func(args []string) error {
		if err := command.Arguments(cmd, 0)(args); err != nil {
			return err
		}
		return l.read()
	}, func(ctx context.Context, p server, _ []string) error {
		l.All = l.All || p.IsLocal()
		return l.print(ctx, cmd.OutOrStdout(), p)
	})
}

// read checks the command line.
func (l *listing) read() error {
	if l.failed && (l.Deleted || len(l.phases) > 0) || l.Deleted && len(l.phases) > 0 {
		return errors.New("write only one of --failed, --deleted and --phase")
	}
	l.Phases = nil
	if l.failed {
		l.Phases = []workspace.Phase{workspace.PhaseError}
	}
	for _, p := range l.phases {
		phase := workspace.Phase(strings.ToUpper(p))
		if !slices.Contains(service.Phases, phase) {
			return fmt.Errorf("%q is not a phase: write one or more of %s", p, names(service.Phases))
		}
		l.Phases = append(l.Phases, phase)
	}
	l.All = l.All || l.Owner != ""
	return nil
}

// names lists phases as the command line and the API write them.
func names(phases []workspace.Phase) string {
	all := make([]string, len(phases))
	for i, phase := range phases {
		all[i] = string(phase)
	}
	return strings.Join(all, ",")
}

// print prints the list.
func (l *listing) print(ctx context.Context, out io.Writer, p server) error {
	found, err := p.list(ctx, l.ListOptions)
	if err != nil {
		return err
	}
	switch {
	case !l.json:
	case l.All:
		return command.PrintJSON(out, found)
	default:
		own := make([]v1.Workspace, len(found))
		for i, w := range found {
			own[i] = w.Workspace
		}
		return command.PrintJSON(out, own)
	}
	header, none, row := "STATE\tLAST USED\tHOME\tID\t", "There is no such workspace.", stateRow
	switch {
	case l.failed:
		header, none, row = "REASON\tSINCE\tID\t", "No workspace is in ERROR.", errorRow
	case l.Deleted:
		header, none, row = "DELETED\tKEPT UNTIL\tID\t", "No deletion can be undone.", deletionRow
	}
	if len(found) == 0 {
		fmt.Fprintln(out, none)
		return nil
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if l.All {
		header += "OWNER\t"
	}
	// The name comes last: it has any length, and some letters are two columns wide.
	fmt.Fprintln(t, header+"NAME")
	for _, w := range found {
		line := row(w.Workspace) + string(w.ID) + "\t"
		if l.All {
			line += w.Owner + "\t"
		}
		fmt.Fprintln(t, line+command.OneLine(w.Name))
	}
	return t.Flush()
}

func stateRow(w v1.Workspace) string {
	return fmt.Sprintf("%s\t%s\t%s\t", strings.ReplaceAll(stateOfWorkspace(w), ", ", ","),
		localTime(w.LastAccessAt), sizeOf(w))
}

func errorRow(w v1.Workspace) string {
	reason := ""
	if w.ErrorReason != nil {
		reason = string(*w.ErrorReason)
	}
	return fmt.Sprintf("%s\t%s\t", reason, localTime(w.PhaseChangedAt))
}

func deletionRow(w v1.Workspace) string {
	return fmt.Sprintf("%s\t%s\t", localTime(w.DeletedAt), localTime(w.UndeleteUntil))
}

// list returns the workspaces of all pages.
func (p server) list(ctx context.Context, o service.ListOptions) ([]v1.OwnedWorkspace, error) {
	query := url.Values{"limit": {strconv.Itoa(service.MaxPage)}}
	for name, value := range map[string]string{"owner": o.Owner, "q": o.Text, "sort": o.Sort} {
		if value != "" {
			query.Set(name, value)
		}
	}
	for name, flag := range map[string]bool{"all": o.All, "deleted": o.Deleted} {
		if flag {
			query.Set(name, "true")
		}
	}
	if len(o.Phases) > 0 {
		query.Set("phase", names(o.Phases))
	}
	all := []v1.OwnedWorkspace{}
	for {
		var page v1.Page[v1.OwnedWorkspace]
		if err := p.Do(ctx, "GET", "workspaces?"+query.Encode(), nil, &page); err != nil {
			return nil, err
		}
		if all = append(all, page.Items...); page.Next == nil {
			return all, nil
		}
		query.Set("cursor", *page.Next)
	}
}
