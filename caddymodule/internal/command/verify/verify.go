// Package verify is `caddy codehub verify`: it checks an installation after a restore. It owns the order of the checks
// and the output. The verdicts come from other packages: doctor, identity, orphan, and the coordinator's verify.
package verify

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/codehub/gateway/caddymodule/internal/command"
	"github.com/codehub/gateway/caddymodule/internal/command/doctor"
	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/check"
	"github.com/codehub/gateway/coordinator/control/orphan"
	"github.com/codehub/gateway/coordinator/control/verify"
	"github.com/codehub/gateway/coordinator/identity"
)

const long = `Compares the database with the object store and the container backend, and says what is
missing, what is there and not known, and what to do about each. Run it after a restore, before
Caddy is started: it changes nothing. It may also run beside an installation that serves.

It checks the servers and whether backend and bucket are the recorded ones. Then, for every
workspace: its archive exists, complete, of the right size, and with the checksum in its .meta that
the database knows; no newer one exists than the database knows; its home is where the database
says. It names workspaces that the database does not know, by their archives and their volumes. The
keys of encrypted archives are tried on some, with --read on all.

--read also reads every archive back as a whole, older ones and those of unknown workspaces, too,
and compares its checksum with the one in its .meta. That takes as long as the store takes to send
all of them.

Its memory does not grow with the number of workspaces. What it has looked at so far is on
standard error every few seconds.

With --json the result is an object a line, with "check", "level" (ok, warning, problem), "text"
and "remedy", and about a workspace "workspace_id" and "archive". The exit code is 1 when there
is a problem.`

// ownerFlag is the end of the command that adopts a workspace.
const ownerFlag = " --owner NAME"

// Command is `caddy codehub verify`. It does not use the API, because it checks the database that the API trusts.
func Command(resolve command.Resolver) *cobra.Command {
	cmd := &cobra.Command{
		Use: "verify", Short: "Checks a restored installation: what is there, what is missing, what to do",
		Long: long,
		Example: `  $ caddy codehub verify --config /etc/caddy/Caddyfile
  $ caddy codehub verify --read --json | jq -r 'select(.level == "problem") | .remedy'`,
	}
	read := cmd.Flags().Bool("read", false, "read every archive back")
	asJSON := cmd.Flags().Bool("json", false, "print JSON, an object a line")
	return resolve.WithServers(cmd, command.Arguments(cmd, 0), func(ctx context.Context, s command.Servers, _ []string) error {
		return s.WithClients(func(w command.Clients) error {
			v := verification{Servers: s, Clients: w, out: printerOf(cmd, *asJSON), read: *read}
			return v.run(ctx)
		})
	})
}

// verification is one run of the command.
type verification struct {
	command.Servers
	command.Clients
	out      *printer
	read     bool
	homeless bool // the backend is not known
}

// run runs the checks. After a problem it leaves out the checks that would no longer be meaningful.
func (v *verification) run(ctx context.Context) error {
	var bucket bool
	rows := append(doctor.Servers(v.Settings),
		check.Row{Name: "bucket", Remedy: "check the settings below s3", Run: func(ctx context.Context) ([]check.Finding, error) {
			found, err := recorded("bucket", v.Identity.LookAtBucket(ctx))
			bucket = err == nil && found[0].Level == check.LevelOK
			return found, err
		}},
		check.Row{Name: "backend", Remedy: "check the settings of docker or backend kubernetes, and that it runs",
			Run: func(ctx context.Context) ([]check.Finding, error) {
				v.homeless = true
				found, err := recorded("backend", v.Identity.LookAtBackend(ctx))
				v.homeless = err != nil || found[0].Level != check.LevelOK
				return found, err
			}},
		check.Row{Name: "orphans", Needs: "backend", Run: v.orphans, Remedy: "caddy codehub orphans says more"},
	)
	release, err := v.Store.Release(ctx)
	if err != nil {
		return err
	}
	if release.Schema < release.Known {
		return fmt.Errorf("the schema of the database is at version %d, and this release knows version %d: "+
			"caddy codehub migrate, and run this again", release.Schema, release.Known)
	}
	for _, f := range check.Run(ctx, rows) {
		if err := v.out.finding(verify.Discrepancy{Finding: f}); err != nil {
			return err
		}
	}
	if !bucket {
		return v.out.end(errors.New("the workspaces were not compared: fix bucket first"))
	}
	o := verify.Options{Store: v.Store, Archives: v.Archives, Read: v.read, Progress: v.out.progress}
	if !v.homeless {
		o.Backend = v.Backend
	}
	v.Archives.Apply(v.Live.Archive)
	report, err := verify.Run(ctx, o, func(f verify.Discrepancy) error {
		if f.Check = "workspace"; f.Unknown {
			f.Remedy += ownerFlag
		}
		return v.out.finding(f)
	})
	if err != nil {
		return v.out.end(fmt.Errorf("the comparison was not finished: %w", err))
	}
	return v.out.end(v.out.summary(report, v.homeless))
}

// recorded returns the finding for the result of an identity check.
func recorded(what string, err error) ([]check.Finding, error) {
	var other *identity.MismatchError
	switch {
	case errors.As(err, &other):
		return []check.Finding{check.Problem("if it is the right one from now on: caddy codehub accept "+what, "%s", other)}, nil
	case err != nil:
		return nil, err
	}
	return []check.Finding{check.OK("the %s is the recorded one, or none is recorded yet", what)}, nil
}

// looked stands for the check of the servers' identities. The command has already done this check, so looked does
// nothing and records nothing.
type looked struct{}

func (looked) Backend(context.Context) error { return nil }

// orphans reports the backend's objects that belong to no workspace. A volume among them may hold the only files of a
// workspace that was created after the backup.
func (v *verification) orphans(ctx context.Context) ([]check.Finding, error) {
	if v.homeless {
		return []check.Finding{check.Warning("fix backend first", "not checked")}, nil
	}
	isVolume := func(o orphan.Orphan) bool { return o.Kind == backend.ObjectVolume && o.Reason == orphan.NoWorkspace }
	finder := orphan.New(v.Clients.Backend, v.Store, looked{})
	all, err := finder.OlderThan(0).Find(ctx) // a row is older than its volume
	if err != nil {
		return nil, err
	}
	var found []check.Finding
	for _, o := range all {
		if isVolume(o) {
			found = append(found, check.Problem("take it up: caddy codehub workspace adopt "+string(o.Workspace)+ownerFlag,
				"the volume %s is of a workspace that the database does not know", o.Name))
		}
	}
	if all, err = finder.Find(ctx); err != nil {
		return nil, err
	}
	others := len(slices.DeleteFunc(all, isVolume))
	if others > 0 {
		found = append(found, check.Warning("look at them: caddy codehub orphans",
			"%s on the backend belong to no workspace", command.Count(others, "other thing")))
	}
	if len(found) == 0 {
		found = []check.Finding{check.OK("everything on the backend belongs to a workspace")}
	}
	return found, nil
}
