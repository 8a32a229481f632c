package workspaces

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/docker/go-units"
	"github.com/spf13/cobra"

	v1 "github.com/codehub/gateway/caddymodule/internal/api/v1"
	"github.com/codehub/gateway/caddymodule/internal/command"
	"github.com/codehub/gateway/caddymodule/internal/command/remote"
	"github.com/codehub/gateway/coordinator/workspace"
)

// answer prints the workspace as JSON, or a sentence.
func answer(cmd *cobra.Command, asJSON bool, w v1.Workspace, format string, args ...any) error {
	if asJSON {
		return command.PrintJSON(cmd.OutOrStdout(), w)
	}
	say(cmd, format, args...)
	return nil
}

func showCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "show WORKSPACE", Short: "Shows a workspace",
		Long: `Shows a workspace of yours: its phase, its address, when it sleeps, how large it is. With --json the
result is the object of the API's GET /workspaces/{id}.`,
		Example: `  $ caddy codehub workspace show thesis
  $ caddy codehub workspace show thesis --json | jq -r .phase`,
	}
	asJSON := cmd.Flags().Bool("json", false, "print JSON")
	return onOwnWorkspace(cmd, 0, func(_ context.Context, p server, w v1.Workspace, _ []string) error {
		if *asJSON {
			return command.PrintJSON(cmd.OutOrStdout(), w)
		}
		t := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
		line := func(what, text string) {
			if text != "" && text != "-" {
				fmt.Fprintf(t, "%s\t%s\n", what, command.OneLine(text))
			}
		}
		line("name", w.Name)
		line("id", string(w.ID))
		line("phase", stateOfWorkspace(w))
		line("address", p.Address(w.URL))
		line("description", text(w.Description))
		line("memo", text(w.Memo))
		line("image", text(w.ImageRef))
		line("git", text(w.GitURL))
		line("home", sizeOf(w))
		line("last used", localTime(w.LastAccessAt))
		line("dozes since", localTime(w.DozeAt))
		line("sleeps at", localTime(w.SleepDueAt))
		line("awake until", localTime(w.KeepAwakeUntil))
		if w.Waiting != nil {
			line("waits for", w.Waiting.Message)
		}
		if w.ErrorHelp != nil {
			line("error", w.ErrorHelp.String())
		}
		return t.Flush()
	})
}

// stateOfWorkspace describes a workspace's phase, operation and desired state.
func stateOfWorkspace(w v1.Workspace) string {
	state := string(w.Phase)
	if w.DozeAt != nil {
		state += ", dozing"
	}
	if w.Operation != workspace.OpNone {
		state += ", " + string(w.Operation)
	}
	if w.Phase != workspace.Phase(w.DesiredState) && w.DesiredState != "" {
		state += ", wanted: " + string(w.DesiredState)
	}
	return state
}

// sizeOf returns the size of a home.
func sizeOf(w v1.Workspace) string {
	if w.Home == nil {
		return "-"
	}
	return units.HumanSize(float64(w.Home.Bytes))
}

func createCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "create NAME", Short: "Creates a workspace",
		Long: `Creates a workspace of yours, which starts at once unless --desired-state says otherwise. With --wait the
command ends when it is there; with --json the result is the workspace's object.`,
		Example: `  $ caddy codehub workspace create thesis --wait
  $ caddy codehub workspace create thesis --image python --json | jq -r .id`,
	}
	in := map[string]*string{}
	for flag, field := range map[string][2]string{
		"description":   {"description", "what it is for"},
		"memo":          {"memo", "notes of your own"},
		"image":         {"image_ref", "name of the image (default: the server's)"},
		"git-url":       {"git_url", "Git repository to begin with, where the image clones one"},
		"desired-state": {"desired_state", "RUNNING, STANDBY or ARCHIVED (default: RUNNING)"},
	} {
		in[field[0]] = cmd.Flags().String(flag, "", field[1])
	}
	wait := cmd.Flags().Bool("wait", false, "wait until it is there")
	asJSON := cmd.Flags().Bool("json", false, "print JSON")
	usage := command.Arguments(cmd, 1)
	return remote.Only(cmd, usage, func(ctx context.Context, c *remote.Client, args []string) error {
		body := map[string]string{"name": args[0]}
		for field, value := range in {
			if *value != "" {
				body[field] = *value
			}
		}
		p := server{c}
		var w v1.Workspace
		if err := p.Do(ctx, "POST", "workspaces", body, &w); err != nil {
			return err
		}
		if *wait {
			var err error
			if w, err = p.await(ctx, cmd, w, workspace.Phase(w.DesiredState)); err != nil {
				return err
			}
		}
		return answer(cmd, *asJSON, w, "%s is created: %s", w.Name, w.ID)
	})
}

func openCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "open WORKSPACE", Short: "Wakes a workspace and prints its address",
		Long: `Wakes a workspace of yours, waits until it is awake, and prints its address for a browser.`,
		Example: `  $ caddy codehub workspace open thesis
  $ xdg-open "$(caddy codehub workspace open thesis)"`,
	}
	return onOwnWorkspace(cmd, 0, func(ctx context.Context, p server, w v1.Workspace, _ []string) error {
		w, err := p.wake(ctx, cmd, w)
		if err != nil {
			return err
		}
		say(cmd, "%s", p.Address(w.URL))
		return nil
	})
}

// stateCommand is the command start, sleep or archive.
func stateCommand(verb, short string, phase workspace.Phase) *cobra.Command {
	cmd := &cobra.Command{
		Use: verb + " WORKSPACE", Short: short,
		Long: fmt.Sprintf(`Asks for the desired state %s of a workspace of yours, as the API's POST /workspaces/{id}/%s.
With --wait the command ends when that is reached.`, phase, verb),
		Example: `  $ caddy codehub workspace ` + verb + ` thesis
  $ caddy codehub workspace ` + verb + ` thesis --wait --json`,
	}
	wait := cmd.Flags().Bool("wait", false, "wait until it is reached")
	asJSON := cmd.Flags().Bool("json", false, "print JSON")
	return onOwnWorkspace(cmd, 0, func(ctx context.Context, p server, w v1.Workspace, _ []string) error {
		w, err := p.become(ctx, cmd, w, verb, phase, *wait)
		if err != nil {
			return err
		}
		return answer(cmd, *asJSON, w, "%s: %s", w.Name, stateOfWorkspace(w))
	})
}

// wakeFlag adds the flag of commands that need a container.
func wakeFlag(cmd *cobra.Command) *bool {
	return cmd.Flags().Bool("wake", false, "start the workspace first, and wait until it is awake")
}

// wake starts a workspace and waits until it is awake.
func (p server) wake(ctx context.Context, cmd *cobra.Command, w v1.Workspace) (v1.Workspace, error) {
	return p.become(ctx, cmd, w, "start", workspace.PhaseRunning, true)
}

// become requests a desired state. If wait is true, it waits until the state is reached.
func (p server) become(ctx context.Context, cmd *cobra.Command, w v1.Workspace, verb string, phase workspace.Phase,
	wait bool) (v1.Workspace, error) {
	if err := p.Do(ctx, "POST", pathOf(w.ID, "/"+verb), nil, &w); err != nil || !wait {
		return w, err
	}
	return p.await(ctx, cmd, w, phase)
}

// pollInterval is the interval at which the server is asked for progress.
const pollInterval = time.Second

// await waits until the workspace has a phase, and prints the progress.
func (p server) await(ctx context.Context, cmd *cobra.Command, w v1.Workspace, phase workspace.Phase) (
	v1.Workspace, error) {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for said := ""; ; {
		switch {
		case w.Phase == phase && w.Operation == workspace.OpNone:
			return w, nil
		case w.ErrorReason != nil && w.Phase == workspace.PhaseError:
			return w, fmt.Errorf("%s is in ERROR: %s: %s", w.Name, *w.ErrorReason, w.ErrorHelp)
		case string(w.DesiredState) != string(phase):
			return w, errors.New("another state was asked for meanwhile: " + string(w.DesiredState))
		}
		if now := progress(w); now != said {
			fmt.Fprintln(cmd.ErrOrStderr(), now)
			said = now
		}
		select {
		case <-ctx.Done():
			return w, ctx.Err()
		case <-tick.C:
		}
		var next v1.Workspace
		if err := p.Do(ctx, "GET", pathOf(w.ID, ""), nil, &next); err != nil {
			return w, err
		}
		w = next
	}
}

// progress returns one line about a workspace on its way to the desired state.
func progress(w v1.Workspace) string {
	line := stateOfWorkspace(w)
	switch {
	case w.Waiting != nil:
		line += ": " + w.Waiting.Help.String()
	case w.Progress != nil:
		line += ": " + w.Progress.Text.String()
	}
	return command.OneLine(line)
}

func updateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "update WORKSPACE", Short: "Changes the name, the texts or the image of a workspace",
		Long: `Changes what is given, all or nothing, as the API's PATCH /workspaces/{id}. Another image applies from
the next start on. An empty text removes one.`,
		Example: `  $ caddy codehub workspace update thesis --name "My thesis"
  $ caddy codehub workspace update thesis --image python`,
	}
	fields := map[string]string{"name": "name", "description": "description", "memo": "memo", "image": "image_ref"}
	cmd.Flags().String("name", "", "its new name")
	cmd.Flags().String("description", "", "what it is for")
	cmd.Flags().String("memo", "", "notes of your own")
	cmd.Flags().String("image", "", "name of the image")
	asJSON := cmd.Flags().Bool("json", false, "print JSON")
	return onOwnWorkspace(cmd, 0, func(ctx context.Context, p server, w v1.Workspace, _ []string) error {
		body := map[string]any{}
		for flag, field := range fields {
			if cmd.Flags().Changed(flag) {
				body[field], _ = cmd.Flags().GetString(flag)
			}
		}
		if len(body) == 0 {
			return errors.New("nothing to change: write --name, --description, --memo or --image")
		}
		if err := p.Do(ctx, "PATCH", pathOf(w.ID, ""), body, &w); err != nil {
			return err
		}
		return answer(cmd, *asJSON, w, "%s is changed.", w.Name)
	})
}

func renameCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "rename WORKSPACE NAME", Short: "Gives a workspace another name",
		Long: `Gives a workspace of yours another name. Its id, its address and its files stay as they are, and it need
not sleep.`,
		Example: `  $ caddy codehub workspace rename thesis "My thesis"`,
	}
	asJSON := cmd.Flags().Bool("json", false, "print JSON")
	return onOwnWorkspace(cmd, 1, func(ctx context.Context, p server, w v1.Workspace, further []string) error {
		former := w.Name
		if err := p.Do(ctx, "PATCH", pathOf(w.ID, ""), map[string]any{"name": further[0]}, &w); err != nil {
			return err
		}
		return answer(cmd, *asJSON, w, "%s is called %s now.", former, w.Name)
	})
}

func keepAwakeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "keep-awake WORKSPACE HOURS", Short: "Keeps a running workspace awake for some hours",
		Long: `Keeps a running workspace of yours awake for so many hours from now on, even unused: it neither dozes nor
sleeps, and one that dozes goes on. With 0 it does as usual again.`,
		Example: `  $ caddy codehub workspace keep-awake thesis 4`,
	}
	asJSON := cmd.Flags().Bool("json", false, "print JSON")
	return onOwnWorkspace(cmd, 1, func(ctx context.Context, p server, w v1.Workspace, further []string) error {
		hours, err := strconv.ParseFloat(further[0], 64)
		if err != nil {
			return fmt.Errorf("%q is not a number of hours", further[0])
		}
		if err := p.Do(ctx, "POST", pathOf(w.ID, "/keep-awake"), map[string]any{"hours": hours}, &w); err != nil {
			return err
		}
		if w.KeepAwakeUntil == nil {
			return answer(cmd, *asJSON, w, "%s sleeps as usual.", w.Name)
		}
		return answer(cmd, *asJSON, w, "%s stays awake until %s.", w.Name, localTime(w.KeepAwakeUntil))
	})
}

func logsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "logs WORKSPACE", Short: "Shows what a workspace's container has printed",
		Long: `Shows the last lines that the container of a running workspace has printed, and with --follow what it
prints from then on. With --wake a workspace that sleeps is started first.`,
		Example: `  $ caddy codehub workspace logs thesis --lines 50
  $ caddy codehub workspace logs thesis --wake --follow`,
	}
	lines := cmd.Flags().IntP("lines", "n", 200, "how many lines")
	follow := cmd.Flags().BoolP("follow", "f", false, "go on")
	wake := wakeFlag(cmd)
	return onOwnWorkspace(cmd, 0, func(ctx context.Context, p server, w v1.Workspace, _ []string) error {
		if *wake {
			if _, err := p.wake(ctx, cmd, w); err != nil {
				return err
			}
		}
		query := url.Values{"lines": {strconv.Itoa(*lines)}}
		if *follow {
			query.Set("follow", "true")
		}
		return p.Copy(ctx, pathOf(w.ID, "/logs?"+query.Encode()), cmd.OutOrStdout())
	})
}
