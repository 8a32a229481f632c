// Package workspaces is `caddy codehub workspace`: the workspaces of a person at a running server, and all workspaces
// for an operator on the installation's own servers. It owns the arguments, the questions and the tables; the API
// decides. It must not touch the engine, the object store or the database, except in the commands for which the API has
// no route.
package workspaces

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/codehub/gateway/caddymodule/internal/api/v1"
	"github.com/codehub/gateway/caddymodule/internal/command"
	"github.com/codehub/gateway/caddymodule/internal/problem"
	"github.com/codehub/gateway/coordinator/dataplane/explain"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Command is `caddy codehub workspace`.
func Command(resolve command.Resolver) *cobra.Command {
	cmd := &cobra.Command{
		Use: "workspace <command>", Short: "Lists, opens, changes, explains, recovers and deletes workspaces",
		Long: `Shows and changes workspaces, in the words of the API.

Where you are logged in (caddy codehub login), the commands work through that server, on your own
workspaces: each is named by its name or its id. With --config, and where you are logged in nowhere,
list, explain, history, archives, restore, recover, adopt, thaw, delete and undelete work on the servers that the
configuration names (default: ./Caddyfile), as an administrator: on workspaces of all users, named
by id.

At the installation's own servers the commands write to the database what is wanted; the process
that leads does it.`,
		Example: `  $ caddy codehub workspace list
  $ caddy codehub workspace open thesis
  $ caddy codehub workspace list --failed --config Caddyfile
  $ caddy codehub workspace recover --reason DataLost --all`,
	}
	command.HideDatabase(cmd.PersistentFlags())
	command.Group(cmd, listCommand(resolve), showCommand(), createCommand(), openCommand(), updateCommand(), renameCommand(),
		stateCommand("start", "Starts a workspace", "RUNNING"),
		stateCommand("sleep", "Puts a workspace to sleep", "STANDBY"),
		stateCommand("archive", "Puts a workspace into the archive", "ARCHIVED"),
		keepAwakeCommand(), logsCommand(), statsCommand(), execCommand(), explainCommand(resolve), historyCommand(resolve),
		archivesCommand(resolve), restoreCommand(resolve), recoverCommand(resolve), deleteCommand(resolve),
		undeleteCommand(resolve), adoptCommand(resolve), thawCommand(resolve))
	return cmd
}

const exampleID = "6f1c0d3e-4a2b-4c8d-9e0f-1a2b3c4d5e6f"

func explainCommand(resolve command.Resolver) *cobra.Command {
	cmd := &cobra.Command{
		Use: "explain WORKSPACE", Short: "Says why a workspace is as it is, and what comes next",
		Long: `Says why a workspace has its phase, what it waits for and since when, what comes next and
when, who or what asked for it, and its last errors with what to do about them. With
--json the result is the object of the API's GET /workspaces/{id}/explain.`,
		Example: `  $ caddy codehub workspace explain ` + exampleID + `
  $ caddy codehub workspace explain ` + exampleID + ` --json | jq -r '.next[].text.en'`,
	}
	asJSON := cmd.Flags().Bool("json", false, "print JSON")
	return onWorkspace(resolve, cmd, 0, func(ctx context.Context, p server, w v1.Workspace, _ []string) error {
		var e explain.Explanation
		if err := p.Do(ctx, "GET", pathOf(w.ID, "/explain"), nil, &e); err != nil {
			return err
		}
		if *asJSON {
			return command.PrintJSON(cmd.OutOrStdout(), e)
		}
		return printExplanation(cmd.OutOrStdout(), e)
	})
}

// printExplanation prints an explanation, one fact per line.
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
		if remedy := e.Waiting.Remedy.String(); remedy != "" {
			line("remedy", remedy, "")
		}
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
	return t.Flush()
}

func historyCommand(resolve command.Resolver) *cobra.Command {
	cmd := &cobra.Command{
		Use: "history WORKSPACE", Short: "Shows what happened to a workspace, and who asked for it",
		Long: `Shows the transitions of a workspace, newest first: its phases and operations, errors,
waits, requests, dozing, and who or what asked. They are kept for 30 days. With --json the result
is an array of objects with "id", "at",
"kind", "old_value", "new_value", "message", "cause", "user_id" and "username".`,
		Example: `  $ caddy codehub workspace history ` + exampleID + `
  $ caddy codehub workspace history ` + exampleID + ` --limit 5 --json`,
	}
	asJSON := cmd.Flags().Bool("json", false, "print JSON")
	limit := cmd.Flags().Int("limit", service.DefaultPage, "the most transitions to show")
	return onWorkspace(resolve, cmd, 0, func(ctx context.Context, p server, w v1.Workspace, _ []string) error {
		var found v1.History[v1.Transition]
		if err := p.Do(ctx, "GET", pathOf(w.ID, "/history?limit="+strconv.Itoa(cmp.Or(*limit, service.DefaultPage))), nil, &found); err != nil {
			return err
		}
		if *asJSON {
			return command.PrintJSON(cmd.OutOrStdout(), found.Items)
		}
		t := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "AT\tWHAT\tCHANGE\tBY\tMESSAGE")
		for _, f := range found.Items {
			by := strings.TrimSpace(f.Cause + " " + text(f.Username))
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", localTime(&f.At), f.Kind, change(text(f.Old), text(f.New)), by,
				command.OneLine(text(f.Message)))
		}
		return t.Flush()
	})
}

// change returns the old and the new value of a transition.
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
		Use: "delete WORKSPACE", Short: "Deletes a workspace",
		Long: `Deletes a workspace. Its files are kept for the time of the setting undelete_for, and until
they are removed the deletion can be undone: caddy codehub workspace undelete.

With --now what exists only on its volume is not kept for that time, for example because
the object store is away for good. That also works for a workspace that was deleted
before, and asks first.`,
		Example: `  $ caddy codehub workspace delete ` + exampleID + `
  $ caddy codehub workspace delete ` + exampleID + ` --now`,
	}
	now := cmd.Flags().Bool("now", false, "do not keep a volume that could not be archived")
	yes := cmd.Flags().BoolP("yes", "y", false, "do not ask")
	return onWorkspace(resolve, cmd, 0, func(ctx context.Context, p server, w v1.Workspace, _ []string) error {
		question := fmt.Sprintf("This deletes the workspace %q (%s).", w.Name, w.ID)
		if *now {
			question += " Files that exist only on its volume are lost at once and for good."
		}
		if err := command.Confirm(cmd, *yes, question); err != nil {
			return err
		}
		if err := p.Do(ctx, "DELETE", pathOf(w.ID, "?now="+strconv.FormatBool(*now)), nil, nil); err != nil {
			return err
		}
		undo := fmt.Sprintf(" To undo it while its files exist: caddy codehub workspace undelete %s", w.ID)
		if *now {
			undo = ""
		}
		say(cmd, "%s is deleted; container and volume go as soon as they may.%s", w.Name, undo)
		return nil
	})
}

func undeleteCommand(resolve command.Resolver) *cobra.Command {
	cmd := &cobra.Command{
		Use: "undelete WORKSPACE", Short: "Undoes the deletion of a workspace",
		Long: `Undoes the deletion of a workspace, as long as its files exist: for the time of the
setting undelete_for, and then until a collection removes them. The workspace comes back
archived. While a step of the deletion is in progress the command waits for its end.`,
		Example: `  $ caddy codehub workspace undelete ` + exampleID,
	}
	return onWorkspace(resolve, cmd, 0, func(ctx context.Context, p server, w v1.Workspace, _ []string) error {
		if err := undelete(ctx, cmd, p, w); err != nil {
			return err
		}
		say(cmd, "%s is back.", w.Name)
		return nil
	})
}

// undelete undoes a deletion. It waits for the end of a deletion step in progress.
func undelete(ctx context.Context, cmd *cobra.Command, p server, w v1.Workspace) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for said := false; ; said = true {
		err := p.Do(ctx, "POST", pathOf(w.ID, "/undelete"), nil, nil)
		if err == nil || problem.Of(err).Type != problem.Busy.Type {
			return err
		}
		if !said {
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: a step of the deletion is in progress; waiting for its end\n", w.Name)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// say prints a result.
func say(cmd *cobra.Command, format string, args ...any) {
	fmt.Fprintf(cmd.OutOrStdout(), format+"\n", args...)
}

// text returns a text that may be null.
func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
