package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/control/orphan"
	"github.com/codehub/gateway/coordinator/workspace"
)

// orphansCommand is `caddy codehub orphans`. It does not use the API, which has no route that removes objects of the
// engine.
func orphansCommand(resolve Resolver) *cobra.Command {
	cmd := &cobra.Command{
		Use: "orphans", Short: "Lists containers, volumes and jobs that belong to no workspace",
		Long: fmt.Sprintf(`Lists what the engine or cluster has of this installation that belongs to no workspace:
left behind by a crash, by hand, or by a database that was restored from a backup. What
is younger than %s is left out, because it may be about to belong to one, and clocks may
differ; --older-than gives another age, down to 0s when no process of the installation runs.

Without --remove nothing is changed. With it, everything in the list is removed, after a
question. Look first: a volume may hold files that are nowhere else, and a database that is
older than the engine's volumes does not know the newest workspaces.

With --json the result is an array of objects with "kind", "name", "workspace_id",
"created", "reason" and, with --remove, "removed" and "error". The exit code is 1 when
something could not be removed.`, writtenDuration(orphan.MinAge)),
		Example: `  $ caddy codehub orphans
  $ caddy codehub orphans --remove
  $ caddy codehub orphans --older-than 1m`,
	}
	var o orphans
	cmd.Flags().DurationVar(&o.olderThan, "older-than", orphan.MinAge, "list what is at least this old")
	cmd.Flags().BoolVar(&o.remove, "remove", false, "remove what is listed")
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON")
	return resolve.WithServers(cmd, func(args []string) error {
		if o.olderThan < 0 {
			return fmt.Errorf("--older-than %s is in the future: write 0s or more", o.olderThan)
		}
		return Arguments(cmd, 0)(args)
	}, func(ctx context.Context, s Servers, _ []string) error {
		return s.WithClients(func(w Clients) error {
			o.removing = func(ctx context.Context, n int) error {
				return s.Audit().Write(ctx, audit.SystemOrphans, "", map[string]any{"objects": n})
			}
			return o.run(ctx, cmd, orphan.New(w.Backend, s.Store, w.Identity))
		})
	})
}

// orphans is the command line of `orphans`.
type orphans struct {
	remove, yes, json bool
	olderThan         time.Duration
	// removing writes into the audit that n objects are about to be removed. If removing is nil, nothing is written.
	removing func(ctx context.Context, n int) error
}

// orphanBody is an orphan in JSON.
type orphanBody struct {
	Kind      backend.ObjectKind `json:"kind"`
	Name      string             `json:"name"`
	Workspace *workspace.ID      `json:"workspace_id"`
	Created   time.Time          `json:"created"`
	Reason    orphan.Reason      `json:"reason"`
	Removed   *bool              `json:"removed,omitempty"`
	Error     string             `json:"error,omitempty"`
}

// run lists the orphans that finder finds, and removes them if that was asked for.
func (o orphans) run(ctx context.Context, cmd *cobra.Command, finder *orphan.Finder) error {
	finder = finder.OlderThan(o.olderThan)
	found, err := finder.Find(ctx)
	if workspace.ReasonOf(err) == workspace.ReasonUnreachable {
		err = fmt.Errorf("the container backend does not answer; check the setting docker host, "+
			"or kubeconfig and context of backend kubernetes: %w", err)
	}
	if err != nil {
		return err
	}
	bodies := make([]orphanBody, len(found))
	for i, f := range found {
		bodies[i] = orphanBody{Kind: f.Kind, Name: f.Name, Created: f.Created.UTC(), Reason: f.Reason}
		if f.Workspace != "" {
			bodies[i].Workspace = &f.Workspace
		}
	}
	if !o.json {
		if err := orphanTable(cmd.OutOrStdout(), found, o.olderThan); err != nil {
			return err
		}
	}
	if o.remove && len(found) > 0 {
		question := fmt.Sprintf("This removes these %d. Files on volumes among them are lost for good.", len(found))
		if o.olderThan < orphan.MinAge {
			question += fmt.Sprintf(" What is younger than %s may be in the making: go on only if no process "+
				"of the installation runs, or if you know each of them.", writtenDuration(orphan.MinAge))
		}
		if err = Confirm(cmd, o.yes, question); err == nil {
			err = o.removeAll(ctx, cmd, finder, found, bodies)
		}
	}
	if o.json {
		err = errors.Join(PrintJSON(cmd.OutOrStdout(), bodies), err)
	}
	return err
}

// removeAll removes the orphans, and records each result in bodies.
func (o orphans) removeAll(ctx context.Context, cmd *cobra.Command, finder *orphan.Finder,
	found []orphan.Orphan, bodies []orphanBody) error {
	if o.removing != nil {
		if err := o.removing(ctx, len(found)); err != nil {
			return err
		}
	}
	index := make(map[string]int, len(found))
	for i, f := range found {
		index[string(f.Kind)+f.UID+f.Name] = i
		bodies[i].Removed = new(bool)
	}
	removed, failed := 0, 0
	err := finder.Remove(ctx, found, func(f orphan.Orphan, err error) {
		body := &bodies[index[string(f.Kind)+f.UID+f.Name]]
		if err != nil {
			failed++
			body.Error = err.Error()
			if !o.json {
				fmt.Fprintf(cmd.OutOrStdout(), "%s %s: %s\n", f.Kind, f.Name, OneLine(err.Error()))
			}
			return
		}
		removed++
		*body.Removed = true
	})
	if !o.json {
		fmt.Fprintf(cmd.OutOrStdout(), "%d removed, %d not.\n", removed, len(found)-removed)
	}
	if failed > 0 {
		err = errors.Join(err, fmt.Errorf("%d could not be removed", failed))
	}
	return err
}

// orphanTable prints a table and a summary.
func orphanTable(w io.Writer, found []orphan.Orphan, age time.Duration) error {
	if len(found) == 0 {
		_, err := fmt.Fprintf(w, "Everything that is older than %s belongs to a workspace.\n", writtenDuration(age))
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "KIND\tCREATED\tNAME\tREASON")
	for _, f := range found {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", f.Kind, f.Created.Local().Format(time.DateTime), f.Name, f.Reason)
	}
	return t.Flush()
}
