package workspaces

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/docker/go-units"
	"github.com/spf13/cobra"

	"github.com/codehub/gateway/caddymodule/internal/api/v1"
	"github.com/codehub/gateway/caddymodule/internal/command"
	"github.com/codehub/gateway/caddymodule/internal/problem"
	"github.com/codehub/gateway/coordinator/dataplane/explain"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/workspace"
)

const recoverLong = `Recovers a workspace that is in ERROR: clears the error, so that the process that leads
looks at it again.

Where files may have been lost (DataLost and Conflict) nothing is guessed. If it is in
doubt which files are the right ones, the command changes nothing and lists what exists:
the volume, and the archives with their dates and sizes. Run it again with one of

  --keep-volume       go on with the files on the volume
  --from-archive KEY  go on with the files of that archive
  --empty             go on with an empty home

The last two delete a volume that exists; they need --replace-volume then, and ask first.
A workspace that is RUNNING with a Conflict stays in use; --keep-volume ends the conflict at
once, the other choices need it to be put to sleep first.

With --reason and --all instead of an ID all workspaces in ERROR for that reason are
recovered, each by the same rules. With --json the result is an object: of one workspace
"recovered" with its id, or the problem as the API describes it; of all of them
"recovered" and "failed". The exit code is 1 when one could not be recovered.`

func recoverCommand(resolve command.Resolver) *cobra.Command {
	cmd := &cobra.Command{
		Use: "recover (WORKSPACE | --reason REASON --all)", Short: "Recovers workspaces that are in ERROR",
		Long: recoverLong,
		Example: `  $ caddy codehub workspace recover ` + exampleID + `
  $ caddy codehub workspace recover ` + exampleID + ` --from-archive ` + exampleID + `/0b9d5e2a-7c1f-4e3d-8a6b-5c4d3e2f1a0b/home.tar.zst
  $ caddy codehub workspace recover --reason DataLost --all`,
	}
	var r recovery
	cmd.Flags().StringVar(&r.reason, "reason", "",
		"recover the workspaces that are in ERROR for this reason (with --all)")
	cmd.Flags().BoolVar(&r.all, "all", false, "recover all of them (with --reason)")
	cmd.Flags().StringVar(&r.archive, "from-archive", "", "go on with the files of the archive with this key")
	cmd.Flags().BoolVar(&r.empty, "empty", false, "go on with an empty home")
	cmd.Flags().BoolVar(&r.keep, "keep-volume", false, "go on with the files on the volume")
	cmd.Flags().BoolVar(&r.replace, "replace-volume", false, "delete a volume that exists")
	cmd.Flags().BoolVarP(&r.yes, "yes", "y", false, "do not ask")
	cmd.Flags().BoolVar(&r.json, "json", false, "print JSON")
	cmd.ValidArgsFunction = completeNames(false)
	return anywhere(resolve, cmd, r.read, func(ctx context.Context, p server, args []string) error {
		if err := r.confirm(cmd); err != nil {
			return err
		}
		if r.all {
			return r.recoverAll(ctx, cmd, p)
		}
		return r.recoverOne(ctx, cmd, p, args[0])
	})
}

// recovery is the command line of `workspace recover`.
type recovery struct {
	reason, archive                      string
	all, empty, keep, replace, yes, json bool
	choice                               service.Choice
}

// read checks the command line, and sets the choice.
func (r *recovery) read(args []string) error {
	switch {
	case r.all != (r.reason != ""):
		return errors.New("--reason and --all belong together: " +
			"write --reason DataLost --all, or the ID of one workspace")
	case r.all && len(args) > 0:
		return errors.New("--all recovers many workspaces: leave the ID out")
	case !r.all && len(args) != 1:
		return fmt.Errorf("%s instead of 1: write the ID of a workspace, or --reason REASON --all",
			command.Count(len(args), "argument"))
	case r.all && !explain.KnownError(workspace.ErrorReason(r.reason)):
		return fmt.Errorf("no workspace is in ERROR for %q: write a reason such as DataLost, "+
			"as caddy codehub workspace list --failed shows it", r.reason)
	case r.all && r.archive != "":
		return errors.New("--from-archive is about one workspace: give its ID instead of --all")
	}
	choices := 0
	for _, c := range []struct {
		made bool
		kind workspace.RecoveryChoice
	}{
		{r.archive != "", workspace.RecoverArchive},
		{r.empty, workspace.RecoverEmpty},
		{r.keep, workspace.RecoverVolume},
	} {
		if c.made {
			choices++
			r.choice.Kind = c.kind
		}
	}
	switch {
	case choices > 1:
		return errors.New("only one of --from-archive, --empty and --keep-volume can be chosen")
	case r.replace && (choices == 0 || r.keep):
		return errors.New("--replace-volume goes with --from-archive or --empty")
	}
	r.choice.Key, r.choice.ReplaceVolume = r.archive, r.replace
	return nil
}

// confirm asks before files are given up or many workspaces are changed.
func (r *recovery) confirm(cmd *cobra.Command) error {
	var warnings []string
	if r.all {
		warnings = append(warnings, fmt.Sprintf("This recovers every workspace that is in ERROR for %s.", r.reason))
	}
	if r.empty {
		warnings = append(warnings,
			"Homes become empty; archives that exist are no longer used, and are collected later.")
	}
	if r.replace {
		warnings = append(warnings, "Volumes that exist are deleted with the files on them. That cannot be undone.")
	}
	if len(warnings) == 0 {
		return nil
	}
	return command.Confirm(cmd, r.yes, strings.Join(warnings, "\n"))
}

func (r *recovery) recoverOne(ctx context.Context, cmd *cobra.Command, p server, named string) error {
	before, err := p.find(ctx, named, false)
	if err != nil {
		return err
	}
	if err := p.Do(ctx, "POST", pathOf(before.ID, "/recover"), r.body(), nil); err != nil {
		return r.refused(cmd, err)
	}
	switch {
	case r.json:
		return command.PrintJSON(cmd.OutOrStdout(), map[string]workspace.ID{"recovered": before.ID})
	case before.Phase != workspace.PhaseError || before.ErrorReason == nil:
		say(cmd, "%s is in no error; nothing was changed.", before.Name)
	default:
		say(cmd, "%s is recovered; what becomes of it: caddy codehub workspace explain %s", before.Name, before.ID)
	}
	return nil
}

// refused prints the existing data and the possible choices if a choice is needed.
func (r *recovery) refused(cmd *cobra.Command, err error) error {
	p := problem.Of(err)
	if p.Recovery == nil || p.Reason == "" {
		return err // there is nothing to choose
	}
	short := fmt.Errorf("%s: %s", p.Reason, p.Detail)
	if r.json {
		return errors.Join(command.PrintJSON(cmd.OutOrStdout(), p), short)
	}
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "WHAT EXISTS\tDATE\tSIZE\tTO GO ON WITH IT")
	flags := func(kind workspace.RecoveryChoice, key string) string {
		for _, c := range p.Choices {
			if c.Choice == kind && c.Key == key {
				text := map[workspace.RecoveryChoice]string{
					workspace.RecoverVolume: "--keep-volume", workspace.RecoverEmpty: "--empty", workspace.RecoverArchive: "--from-archive " + key,
				}[kind]
				if c.ReplaceVolume {
					text += " --replace-volume"
				}
				return text
			}
		}
		return "(not now)"
	}
	if v := p.Volume; v != nil {
		created := "unknown"
		if v.CreatedAt != nil {
			created = localTime(v.CreatedAt)
		}
		fmt.Fprintf(w, "volume\t%s\t\t%s\n", created, flags(workspace.RecoverVolume, ""))
	}
	for _, a := range p.Archives {
		what := "archive"
		if a.Current {
			what = "archive on record"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", what, localTime(&a.Modified),
			units.BytesSize(float64(a.Size)), flags(workspace.RecoverArchive, a.Key))
	}
	fmt.Fprintf(w, "nothing\t\t\t%s\n", flags(workspace.RecoverEmpty, ""))
	err = fmt.Errorf("%w; to go on with one of those above, run this again with what stands behind it", short)
	return errors.Join(w.Flush(), err)
}

func (r *recovery) recoverAll(ctx context.Context, cmd *cobra.Command, p server) error {
	body := r.body()
	body["reason"] = r.reason
	var answer v1.Recoveries
	err := p.Do(ctx, "POST", "workspaces/recover", body, &answer)
	if err != nil {
		return err
	}
	if r.json {
		err = command.PrintJSON(cmd.OutOrStdout(), answer)
	} else {
		say(cmd, "%d recovered, %d not.", len(answer.Recovered), len(answer.Failed))
		for _, f := range answer.Failed {
			say(cmd, "%s: %s", f.ID, command.OneLine(f.Problem.Detail))
		}
	}
	if len(answer.Failed) > 0 {
		err = errors.Join(err, fmt.Errorf("%s not recovered; look at each: caddy codehub workspace recover ID",
			command.Count(len(answer.Failed), "workspace")))
	}
	return err
}

// body returns the choice for the body of a request, empty without one.
func (r *recovery) body() map[string]any {
	c, body := r.choice, map[string]any{}
	if c.Kind != "" {
		body["choice"], body["replace_volume"] = c.Kind, c.ReplaceVolume
	}
	if c.Key != "" {
		body["key"] = c.Key
	}
	return body
}
