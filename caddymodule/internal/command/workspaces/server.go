package workspaces

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	v1 "github.com/codehub/gateway/caddymodule/internal/api/v1"
	"github.com/codehub/gateway/caddymodule/internal/command/remote"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/workspace"
)

// server gives access to the API. For a person this is the API of a running server; for an operator it is the API in
// this process.
type server struct{ *remote.Client }

// pathOf returns a path of the API below a workspace.
func pathOf(id workspace.ID, below string) string { return "workspaces/" + string(id) + below }

// find returns the workspace with that id or, at a running server, the person's own workspace with that name. With
// deleted it also finds workspaces that can be undeleted.
func (p server) find(ctx context.Context, named string, deleted bool) (v1.Workspace, error) {
	if id, err := workspace.ParseID(named); err == nil {
		var w v1.Workspace
		if err := p.Do(ctx, "GET", pathOf(id, ""), nil, &w); err == nil || !deleted || p.IsLocal() {
			return w, err
		}
	}
	all, err := p.list(ctx, service.ListOptions{})
	if err == nil && deleted {
		var gone []v1.OwnedWorkspace
		gone, err = p.list(ctx, service.ListOptions{Deleted: true})
		all = append(all, gone...)
	}
	if err != nil {
		return v1.Workspace{}, err
	}
	var found []v1.Workspace
	for _, w := range all {
		if w.Name == named || string(w.ID) == strings.ToLower(named) {
			found = append(found, w.Workspace)
		}
	}
	switch len(found) {
	case 0:
		return v1.Workspace{}, &remote.UnknownError{Text: fmt.Sprintf(
			"you have no workspace %q; to see them: caddy codehub workspace list", named)}
	case 1:
		return found[0], nil
	}
	var text strings.Builder
	fmt.Fprintf(&text, "several workspaces are called %q; write the id of one:\n", named)
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, f := range found {
		fmt.Fprintf(w, "  %s\t%s\tmade %s\n", f.ID, f.Phase, localTime(f.CreatedAt))
	}
	_ = w.Flush()
	return v1.Workspace{}, &remote.UnknownError{Text: strings.TrimRight(text.String(), "\n")}
}

// completionTimeout bounds how long a shell waits for names.
const completionTimeout = 2 * time.Second

// completeNames completes the names of the person's workspaces. For undelete it completes the names of the deleted
// workspaces.
func completeNames(deleted bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
		defer cancel()
		c := remote.Current(ctx)
		if c == nil || len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		all, err := server{c}.list(ctx, service.ListOptions{Deleted: deleted && cmd.Name() == "undelete"})
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		var names []string
		for _, w := range all {
			if strings.HasPrefix(w.Name, begun) {
				names = append(names, w.Name)
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// localTime returns a time as people read it, "-" for none.
func localTime(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.Local().Format(time.DateTime)
}
