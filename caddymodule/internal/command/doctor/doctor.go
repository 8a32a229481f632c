// Package doctor is `caddy codehub doctor`. It checks everything on which an installation depends. For each finding it
// prints what the finding means and what to do about it.
//
// It owns the checks that concern no backend. The checks of an engine or a cluster belong to the
// packages docker and kubernetes. It changes nothing, except that a check may create test objects,
// which it removes immediately.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/redis/go-redis/v9/logging"
	"github.com/spf13/cobra"

	"github.com/codehub/gateway/caddymodule/internal/command"
	"github.com/codehub/gateway/coordinator/backend/check"
	docker "github.com/codehub/gateway/coordinator/backend/docker/doctor"
	kubernetes "github.com/codehub/gateway/coordinator/backend/kubernetes/doctor"
	"github.com/codehub/gateway/coordinator/control/pressure"
	"github.com/codehub/gateway/coordinator/identity"
)

// Command is `caddy codehub doctor`. It does not use the API, because it must produce a report even if none of the
// servers answers.
func Command(resolve command.Resolver) *cobra.Command {
	cmd := &cobra.Command{
		Use: "doctor", Short: "Checks the servers, the engine or cluster, and what workspaces can reach",
		Long: `Checks what an installation depends on, and prints for each check whether it is ok, a
warning or a problem, and what to do. It looks from inside the workspaces' network, too,
for which it runs containers of the storage job's image for a moment. On Kubernetes it looks
with the account of the settings: an administrator's sees more than the gateway's.

With --json the result is an array of objects with "check", "level" (ok, warning, problem),
"text" and "remedy". The exit code is 1 when there is a problem.`,
		Example: `  $ caddy codehub doctor
  $ caddy codehub doctor --json`,
	}
	asJSON := cmd.Flags().Bool("json", false, "print JSON")
	return resolve.WithSettings(cmd, func(ctx context.Context, cmd *cobra.Command, settings command.Settings) error {
		b, err := backendOf(settings)
		if err != nil {
			return err
		}
		defer b.Close()
		logging.Disable() // of the Redis client: the finding has the error that it would print
		found := check.Run(ctx, patient{settings}.checks(b))
		if *asJSON {
			err = command.PrintJSON(cmd.OutOrStdout(), found)
		} else {
			err = printFindings(cmd.OutOrStdout(), found)
		}
		problems := 0
		for _, f := range found {
			if f.Level == check.LevelProblem {
				problems++
			}
		}
		if problems > 0 {
			err = errors.Join(err, fmt.Errorf("%s found", command.Count(problems, "problem")))
		}
		return err
	})
}

// examined is the installation's backend: its checks, its identity, and its client.
type examined struct {
	identity.Backend
	io.Closer
	rows []check.Row
}

// backendOf returns the installation's backend. It performs no I/O.
func backendOf(s command.Settings) (examined, error) {
	o := s.Options
	if o.Kubernetes != nil {
		k := o.Cluster()
		cluster, err := kubernetes.New(k.Options, k.Spec)
		if err != nil {
			return examined{}, fmt.Errorf("the settings of backend kubernetes: %w", err)
		}
		return examined{cluster, cluster, cluster.Checks(s.Live.Images.Default(k.Spec.Image, k.Spec.Port).References())}, nil
	}
	engine, err := docker.New(o.Engine())
	if err != nil {
		return examined{}, fmt.Errorf("the settings of docker: %w", err)
	}
	dozes, dozing := s.Live.TTL.Dozes(), 0
	if dozes {
		dozing = s.Live.Limits.Dozing.Global
	}
	return examined{engine, engine, engine.Checks(docker.Expected{
		Running: s.Live.Limits.Global, Dozing: dozing, Dozes: dozes,
		Images:    s.Live.Images.Default(o.Docker.Image, o.Docker.Port).References(),
		ArchiveAt: s.Live.Pressure.ArchiveAt, StopAt: s.Live.Pressure.StopAt, NearlyFull: pressure.DefaultArchiveAt,
	})}, nil
}

// printFindings prints a table, with each remedy below its finding.
func printFindings(w io.Writer, found []check.Finding) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, f := range found {
		fmt.Fprintf(t, "%s\t%s\t%s\n", f.Level, f.Check, f.Text)
		if f.Remedy != "" {
			fmt.Fprintf(t, "\t\t→ %s\n", f.Remedy)
		}
	}
	return t.Flush()
}
