// Package workspaces is `caddy codehub workspace`: what an administrator may see and do of
// one workspace, or of all that are in ERROR. It owns the arguments, the questions and the
// tables; what may be done is the service layer's to say. It must not touch the engine, the
// object store or the database past that.
package workspaces

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/codehub/gateway/caddymodule/internal/api/v1"
	"github.com/codehub/gateway/caddymodule/internal/command"
	"github.com/codehub/gateway/coordinator"
	"github.com/codehub/gateway/coordinator/dataplane/explain"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/workspace"
)

// actor is an administrator at the command line.
var actor = service.Actor{Admin: true, Kind: "cli"}

// Command is `caddy codehub workspace`.
func Command(resolve command.Resolver) *cobra.Command {
	cmd := &cobra.Command{
		Use: "workspace <command>", Short: "Lists, explains, recovers, deletes and undeletes workspaces",
		Long: `Explains workspaces, and does what only an administrator may do with them. A workspace is
named by its id, which is part of its address, and which list shows. The commands write to the database
what is wanted; the process that leads does it.`,
		Example: `  $ caddy codehub workspace list --failed
  $ caddy codehub workspace explain 6f1c0d3e-4a2b-4c8d-9e0f-1a2b3c4d5e6f
  $ caddy codehub workspace recover --reason DataLost --all`,
	}
	command.HideDatabase(cmd.PersistentFlags())
	command.Group(cmd, listCommand(resolve), explainCommand(resolve), historyCommand(resolve),
		archivesCommand(resolve), restoreArchiveCommand(resolve), recoverCommand(resolve), deleteCommand(resolve),
		undeleteCommand(resolve))
	return cmd
}

// onWorkspace completes a command whose first argument is a workspace's id, before so many
// further ones.
func onWorkspace(resolve command.Resolver, cmd *cobra.Command, further int,
	action func(context.Context, command.Servers, *service.Service, workspace.ID, []string) error) *cobra.Command {
	return resolve.WithServers(cmd, func(args []string) error {
		if err := command.Arguments(cmd, 1+further)(args); err != nil {
			return err
		}
		if _, err := workspace.ParseID(args[0]); err != nil {
			return fmt.Errorf("%q is %w", args[0], err)
		}
		return nil
	}, func(ctx context.Context, s command.Servers, args []string) error {
		return withService(s, func(workspaces *service.Service) error {
			return action(ctx, s, workspaces, workspace.ID(args[0]), args[1:])
		})
	})
}

// withService calls do with the rules about workspaces, which look for what exists of one
// that is recovered.
func withService(s command.Servers, do func(*service.Service) error) error {
	return s.WithClients(func(w command.Clients) error {
		return do(service.New(s.Store, service.Options{
			Limits: s.Live.Limits, Delays: s.Live.Delays(),
			Inventory: coordinator.Inventory{Backend: w.Backend, Archives: w.Archives, Identity: w.Identity},
		}))
	})
}

const exampleID = "6f1c0d3e-4a2b-4c8d-9e0f-1a2b3c4d5e6f"

func explainCommand(resolve command.Resolver) *cobra.Command {
	cmd := &cobra.Command{
		Use: "explain ID", Short: "Says why a workspace is as it is, and what comes next",
		Long: `Says why a workspace has its phase, what it waits for and since when, what comes next and
when, who or what asked for it, and its last errors with what to do about them. With
--json the result is the object of the API's GET /workspaces/{id}/explain.`,
		Example: `  $ caddy codehub workspace explain ` + exampleID + `
  $ caddy codehub workspace explain ` + exampleID + ` --json | jq -r '.next[].text.en'`,
	}
	var asJSON bool
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return onWorkspace(resolve, cmd, 0, func(ctx context.Context, s command.Servers,
		workspaces *service.Service, id workspace.ID, _ []string) error {
		e, err := workspaces.Explain(ctx, actor, id)
		if err != nil {
			return err
		}
		if asJSON {
			return command.PrintJSON(cmd.OutOrStdout(), e)
		}
		return printExplanation(cmd.OutOrStdout(), e)
	})
}

// printExplanation prints what there is to say, one thing per line.
func printExplanation(w io.Writer, e explain.Explanation) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(what, text, detail string) {
		fmt.Fprintf(t, "%s\t%s\n", what, command.OneLine(text))
		if detail != "" {
			fmt.Fprintf(t, "\t%s\n", command.OneLine(detail))
		}
	}
	state := fmt.Sprintf("%s, wanted: %s", e.Phase, e.DesiredState)
	if e.Operation != workspace.OpNone {
		state += ", in progress: " + string(e.Operation)
	}
	line("phase", state, "")
	line("why", e.Why.Text.String(), e.Why.Detail)
	if e.Waiting != nil {
		line("waits", e.Waiting.Text.String(), e.Waiting.Detail)
	}
	if e.Home != nil {
		line("home", e.Home.Text.String(), "")
	}
	for _, next := range e.Next {
		line("next", next.Text.String(), next.Detail)
	}
	for _, a := range e.Archive {
		line("archive", a.Text.String(), a.Detail)
	}
	if e.Asked != nil {
		line("asked", e.Asked.Text.String(), e.Asked.Detail)
	}
	for _, f := range e.Errors {
		what := "earlier"
		if f.Current {
			what = "error"
		}
		if f.Current && f.Code == e.Why.Code { // said above
			line(what, f.Code, "")
		} else {
			line(what, fmt.Sprintf("%s: %s", f.Code, f.Text.String()), f.Detail)
		}
		if f.Current {
			line("remedy", f.Remedy.String(), "")
		}
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("printing the explanation: %w", err)
	}
	return nil
}

func historyCommand(resolve command.Resolver) *cobra.Command {
	cmd := &cobra.Command{
		Use: "history ID", Short: "Shows what happened to a workspace, and who asked for it",
		Long: `Shows the transitions of a workspace, newest first: its phases and operations, errors,
waits, requests, and who or what asked. They are kept for 30 days. With --json the result
is an array of objects with "id", "at",
"kind", "old_value", "new_value", "message", "cause", "user_id" and "username".`,
		Example: `  $ caddy codehub workspace history ` + exampleID + `
  $ caddy codehub workspace history ` + exampleID + ` --limit 5 --json`,
	}
	var asJSON bool
	var limit int
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().IntVar(&limit, "limit", service.DefaultPage, "the most transitions to show")
	return onWorkspace(resolve, cmd, 0, func(ctx context.Context, s command.Servers,
		workspaces *service.Service, id workspace.ID, _ []string) error {
		found, err := workspaces.History(ctx, actor, id, limit, 0)
		if err != nil {
			return err
		}
		if asJSON {
			items := make([]v1.Transition, len(found))
			for i, t := range found {
				items[i] = v1.TransitionOf(t)
			}
			return command.PrintJSON(cmd.OutOrStdout(), items)
		}
		w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "AT\tWHAT\tCHANGE\tBY\tMESSAGE")
		for _, t := range found {
			by := t.Cause
			if t.Username != "" {
				by += " " + t.Username
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", t.At.Local().Format(time.DateTime), t.Kind, change(t.Old, t.New), by,
				command.OneLine(t.Message))
		}
		return w.Flush()
	})
}

// change shows the values of a transition.
func change(from, to string) string {
	switch {
	case from == "":
		return to
	case to == "":
		return from + " → none"
	}
	return from + " → " + to
}

func deleteCommand(resolve command.Resolver) *cobra.Command {
	cmd := &cobra.Command{
		Use: "delete ID", Short: "Deletes a workspace",
		Long: `Deletes a workspace. Its files are kept for the time of the setting gc_delay, and until
they are removed the deletion can be undone: caddy codehub workspace undelete.

With --now what exists only on its volume is not kept for that time, for example because
the object store is away for good. That also works for a workspace that was deleted
before, and asks first.`,
		Example: `  $ caddy codehub workspace delete ` + exampleID + `
  $ caddy codehub workspace delete ` + exampleID + ` --now`,
	}
	var now, yes bool
	cmd.Flags().BoolVar(&now, "now", false, "do not keep a volume that could not be archived")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return onWorkspace(resolve, cmd, 0, func(ctx context.Context, s command.Servers,
		workspaces *service.Service, id workspace.ID, _ []string) error {
		w, err := workspaces.Get(ctx, actor, id)
		if err != nil {
			return err
		}
		question := fmt.Sprintf("This deletes the workspace %q (%s).", w.Name, id)
		if now {
			question += " Files that exist only on its volume are lost at once and for good."
		}
		if err := command.Confirm(cmd, yes, question); err != nil {
			return err
		}
		if err := workspaces.Delete(ctx, actor, id, now); err != nil {
			return err
		}
		undo := fmt.Sprintf(" To undo it while its files exist: caddy codehub workspace undelete %s", id)
		if now {
			undo = ""
		}
		s.Say("%s is deleted; container and volume go as soon as they may.%s", w.Name, undo)
		return nil
	})
}

func undeleteCommand(resolve command.Resolver) *cobra.Command {
	cmd := &cobra.Command{
		Use: "undelete ID", Short: "Undoes the deletion of a workspace",
		Long: `Undoes the deletion of a workspace, as long as its files exist: for the time of the
setting gc_delay, and then until a collection removes them. The workspace comes back
archived.`,
		Example: `  $ caddy codehub workspace undelete ` + exampleID,
	}
	return onWorkspace(resolve, cmd, 0, func(ctx context.Context, s command.Servers,
		workspaces *service.Service, id workspace.ID, _ []string) error {
		w, err := workspaces.Undelete(ctx, actor, id)
		if err != nil {
			return err
		}
		s.Say("%s is back.", w.Name)
		return nil
	})
}
