package workspaces

import (
	"context"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/codehub/gateway/caddymodule/internal/api/v1"
	"github.com/codehub/gateway/caddymodule/internal/command"
)

func archivesCommand(resolve command.Resolver) *cobra.Command {
	cmd := &cobra.Command{
		Use: "archives WORKSPACE", Short: "Lists the archives of a workspace",
		Long: `Lists the complete archives of a workspace in the object store, newest first: their dates and
sizes, when each was last read back, and what is wrong with it. How many are kept is the
setting keep_archives. With --json the result is an array of the objects of the API's
GET /workspaces/{id}/archives.`,
		Example: `  $ caddy codehub workspace archives ` + exampleID,
	}
	asJSON := cmd.Flags().Bool("json", false, "print JSON")
	return onWorkspace(resolve, cmd, 0, func(ctx context.Context, p server, w v1.Workspace, _ []string) error {
		var found v1.List[v1.Archive]
		if err := p.Do(ctx, "GET", pathOf(w.ID, "/archives"), nil, &found); err != nil {
			return err
		}
		if *asJSON {
			return command.PrintJSON(cmd.OutOrStdout(), found.Items)
		}
		t := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "KEY\tMADE\tBYTES\tVERIFIED\tSTATE")
		for _, a := range found.Items {
			verified := "never"
			if a.VerifiedAt != nil {
				verified = localTime(a.VerifiedAt)
			}
			fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\n", a.Key, localTime(a.CreatedAt), a.Size, verified, stateOf(a))
		}
		return t.Flush()
	})
}

// stateOf returns the state of an archive: current or kept, and its damage.
func stateOf(a v1.Archive) string {
	state := ""
	switch {
	case a.Current:
		state = "current"
	case a.Kept:
		state = "kept until the next archive is made"
	}
	if a.Damage == nil {
		return state
	}
	if state != "" {
		state += "; "
	}
	return state + "DAMAGED: " + *a.Damage
}

func restoreCommand(resolve command.Resolver) *cobra.Command {
	cmd := &cobra.Command{
		Use: "restore WORKSPACE KEY", Aliases: []string{"restore-archive"},
		Short: "Goes back to an older archive of a workspace",
		Long: `Makes an older archive the data of a workspace. Its present files are archived first, unless
nothing has changed, and that archive is kept at least until the next one is made. Then the
workspace comes up from the older archive, if it is meant to run. If the present files cannot
be archived, everything stays as it is; caddy codehub workspace explain says why.`,
		Example: `  $ caddy codehub workspace archives ` + exampleID + `
  $ caddy codehub workspace restore ` + exampleID + ` ` + exampleID + `/0b8e…/home.tar.zst`,
	}
	yes := cmd.Flags().BoolP("yes", "y", false, "do not ask")
	return onWorkspace(resolve, cmd, 1, func(ctx context.Context, p server, w v1.Workspace, further []string) error {
		key := further[0]
		question := fmt.Sprintf("This stops the workspace %q (%s), archives its files, "+
			"and goes back to the archive %s.",
			w.Name, w.ID, key)
		if err := command.Confirm(cmd, *yes, question); err != nil {
			return err
		}
		if err := p.Do(ctx, "POST", pathOf(w.ID, "/archives/restore"), map[string]any{"archive": key}, nil); err != nil {
			return err
		}
		say(cmd, "%s goes back to the archive as soon as its present files are archived.", w.Name)
		return nil
	})
}
