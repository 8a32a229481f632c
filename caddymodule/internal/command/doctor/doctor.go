// Package doctor is `caddy codehub doctor`: the table of checks of everything that an
// installation depends on, what each finding means, and what to do about it. How an engine
// or a cluster is looked at is its backend's to know. It changes nothing but what a check
// must make for a moment, and takes that away again.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/codehub/gateway/caddymodule/internal/command"
	dockerdoctor "github.com/codehub/gateway/coordinator/backend/docker/doctor"
	cluster "github.com/codehub/gateway/coordinator/backend/kubernetes/doctor"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
)

// checkTimeout bounds one check of doctor.
const checkTimeout = time.Minute

// level is how bad a finding is.
type level string

const (
	levelOK      level = "ok"
	levelWarning level = "warning" // it works, and may not be what is wanted
	levelProblem level = "problem" // it does not work, or is not safe
)

// finding is one line of doctor.
type finding struct {
	Check string `json:"check"`
	Level level  `json:"level"`
	Text  string `json:"text"`
	// Remedy says what to do; empty with levelOK.
	Remedy string `json:"remedy,omitempty"`
}

// check is a row of the table of checks. It returns what it found, or why it cannot know.
type check struct {
	name string
	// needs is the check without which this one says nothing; empty for none.
	needs string
	run   func(context.Context, patient) ([]finding, error)
	// remedy is what to do when run fails.
	remedy string
}

// patient is what is examined.
type patient struct {
	command.Settings
	engine *dockerdoctor.Doctor // nil on Kubernetes
	// cluster takes its place there, with the settings of what is made in it.
	cluster    *cluster.Doctor
	kubernetes spec.Options
	now        func() time.Time
}

func ok(format string, args ...any) finding {
	return finding{Level: levelOK, Text: fmt.Sprintf(format, args...)}
}

func warning(remedy, format string, args ...any) finding {
	return finding{Level: levelWarning, Text: fmt.Sprintf(format, args...), Remedy: remedy}
}

func problem(remedy, format string, args ...any) finding {
	return finding{Level: levelProblem, Text: fmt.Sprintf(format, args...), Remedy: remedy}
}

// Command is `caddy codehub doctor`.
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
	var asJSON bool
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return resolve.WithSettings(cmd, func(ctx context.Context, cmd *cobra.Command, settings command.Settings) error {
		p := patient{Settings: settings, now: time.Now}
		var err error
		if settings.Options.Kubernetes == nil {
			if p.engine, err = dockerdoctor.New(settings.Options.Engine()); err != nil {
				return fmt.Errorf("the settings of docker: %w", err)
			}
			defer p.engine.Close()
		} else {
			k := settings.Options.Cluster()
			p.kubernetes = k.Spec
			if p.cluster, err = cluster.New(k.Options, k.Spec); err != nil {
				return fmt.Errorf("the settings of backend kubernetes: %w", err)
			}
			defer p.cluster.Close()
		}
		found := examine(ctx, checksFor(settings.Options), p)
		if asJSON {
			err = command.PrintJSON(cmd.OutOrStdout(), found)
		} else {
			err = printFindings(cmd.OutOrStdout(), found)
		}
		problems := 0
		for _, f := range found {
			if f.Level == levelProblem {
				problems++
			}
		}
		if problems > 0 {
			err = errors.Join(err, fmt.Errorf("%s found", command.Count(problems, "problem")))
		}
		return err
	})
}

// examine runs the checks, one after the other: they share an engine.
func examine(ctx context.Context, table []check, p patient) []finding {
	var all []finding
	failed := make(map[string]bool)
	for _, c := range table {
		if failed[c.needs] {
			failed[c.name] = true
			all = append(all, finding{Check: c.name, Level: levelWarning, Text: "not checked", Remedy: "mend " + c.needs + " first"})
			continue
		}
		found, err := c.try(ctx, p)
		if err != nil {
			failed[c.name] = true
			found = append(found, problem(c.remedy, "%s", command.OneLine(err.Error())))
		}
		for _, f := range found {
			f.Check = c.name
			all = append(all, f)
		}
	}
	return all
}

// try runs a check in bounded time.
func (c check) try(ctx context.Context, p patient) ([]finding, error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	return c.run(ctx, p)
}

// printFindings prints a table, with the remedy below what needs one.
func printFindings(w io.Writer, found []finding) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, f := range found {
		fmt.Fprintf(t, "%s\t%s\t%s\n", f.Level, f.Check, f.Text)
		if f.Remedy != "" {
			fmt.Fprintf(t, "\t\t→ %s\n", f.Remedy)
		}
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("printing the findings: %w", err)
	}
	return nil
}
