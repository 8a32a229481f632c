package workspaces

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/docker/go-units"
	"github.com/spf13/cobra"

	"github.com/codehub/gateway/caddymodule/internal/api/v1"
	"github.com/codehub/gateway/caddymodule/internal/command"
	"github.com/codehub/gateway/caddymodule/internal/problem"
	"github.com/codehub/gateway/coordinator/dataplane/explain"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/words"
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
		Use: "recover (ID | --reason REASON --all)", Short: "Recovers workspaces that are in ERROR",
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
	return resolve.WithServers(cmd, r.read, func(ctx context.Context, s command.Servers, args []string) error {
		if err := r.confirm(cmd); err != nil {
			return err
		}
		return withService(s, func(p installation) error {
			workspaces := p.Service
			if r.all {
				return r.recoverAll(ctx, s, workspaces)
			}
			return r.recoverOne(ctx, s, workspaces)
		})
	})
}

// recovery is the command line of `workspace recover`.
type recovery struct {
	id                                   workspace.ID
	reason, archive                      string
	all, empty, keep, replace, yes, json bool
	choice                               service.Choice
}

// read checks the command line, and makes its choice.
func (r *recovery) read(args []string) (err error) {
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
	case !r.all:
		if r.id, err = workspace.ParseID(args[0]); err != nil {
			return fmt.Errorf("%q is %w", args[0], err)
		}
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

// confirm asks before files are given up, and before many workspaces are changed at once.
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

func (r *recovery) recoverOne(ctx context.Context, s command.Servers, workspaces *service.Service) error {
	before, err := workspaces.Get(ctx, actor, r.id)
	if err != nil {
		return err
	}
	w, err := workspaces.Recover(ctx, actor, r.id, r.choice)
	if err != nil {
		return r.refused(s, err)
	}
	if !r.json && (before.Phase != workspace.PhaseError || before.ErrorReason == "") {
		s.Say("%s is in no error; nothing was changed.", w.Name)
		return nil
	}
	if r.json {
		return command.PrintJSON(s.Cmd.OutOrStdout(), map[string]workspace.ID{"recovered": w.ID})
	}
	s.Say("%s is recovered; what becomes of it: caddy codehub workspace explain %s", w.Name, w.ID)
	return nil
}

// refused lists what can be chosen, where a choice is needed.
func (r *recovery) refused(s command.Servers, err error) error {
	var choice *service.ChoiceError
	if !errors.As(err, &choice) || choice.Reason == "" {
		return err // there is nothing to choose
	}
	short := fmt.Errorf("%s: %s", choice.Reason, choice.Problem)
	if r.json {
		return errors.Join(command.PrintJSON(s.Cmd.OutOrStdout(), problem.Of(err)), short)
	}
	w := tabwriter.NewWriter(s.Cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "WHAT EXISTS\tDATE\tSIZE\tTO GO ON WITH IT")
	options := problem.RecoveryOf(choice)
	flags := func(kind workspace.RecoveryChoice, key string) string {
		for _, c := range choice.Choices {
			if c.Kind == kind && c.Key == key {
				return c.Flags()
			}
		}
		return "(not now)"
	}
	if v := options.Volume; v != nil {
		created := "unknown"
		if v.CreatedAt != nil {
			created = v.CreatedAt.Local().Format(time.DateTime)
		}
		fmt.Fprintf(w, "volume\t%s\t\t%s\n", created, flags(workspace.RecoverVolume, ""))
	}
	for _, a := range options.Archives {
		what := "archive"
		if a.Current {
			what = "archive on record"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", what, a.Modified.Local().Format(time.DateTime),
			units.BytesSize(float64(a.Size)), flags(workspace.RecoverArchive, a.Key))
	}
	fmt.Fprintf(w, "nothing\t\t\t%s\n", flags(workspace.RecoverEmpty, ""))
	err = fmt.Errorf("%w; to go on with one of those above, run this again with what stands behind it", short)
	return errors.Join(w.Flush(), err)
}

func (r *recovery) recoverAll(ctx context.Context, s command.Servers, workspaces *service.Service) error {
	recovered, failed, err := workspaces.RecoverAll(ctx, actor, workspace.ErrorReason(r.reason), r.choice)
	if err != nil {
		return err
	}
	answer := v1.RecoveriesOf(recovered, failed, words.Default)
	if r.json {
		err = command.PrintJSON(s.Cmd.OutOrStdout(), answer)
	} else {
		s.Say("%d recovered, %d not.", len(recovered), len(failed))
		for _, f := range answer.Failed {
			s.Say("%s: %s", f.ID, command.OneLine(failed[f.ID].Error()))
		}
	}
	if len(failed) > 0 {
		err = errors.Join(err, fmt.Errorf("%s not recovered; look at each: caddy codehub workspace recover ID",
			command.Count(len(failed), "workspace")))
	}
	return err
}
