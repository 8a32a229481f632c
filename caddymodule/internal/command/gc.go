package command

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/docker/go-units"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/spf13/cobra"

	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/control/gc"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/workspace"
)

const gcLong = `Collects archives that no workspace needs. The process that leads does that by itself at the
interval of the setting gc_interval; this command shows what it will do, and does one
collection now.

With --dry-run it shows what would become of every object in the object store, and
why, and changes nothing. Otherwise it shows what is due, asks, and deletes it.

An archive is protected; or a candidate until it has been needed by no workspace for the
time of the setting gc_delay, and those of a deleted workspace for undelete_for; or due. When Redis does not answer, it is not known since
when, and no archive is shown as due. An archive that does not fit the database is
reported and kept: its workspace is unknown, or it is newer than the workspace's own
one, so the database may be another or an older one than the bucket's. With --unknown
those are deleted too, if they were written the delay ago.

If more than half of all archives, and more than 20, belong to no workspace at all,
that looks like a wrong database, and nothing is deleted; --force does one
collection in spite of it.

With --json the result is an array of objects with "archive", "workspace_id",
"size_bytes", "modified", "verdict" (protected, reported, candidate, due or foreign;
without --dry-run deleted, spared or failed), "reason", and for a candidate "first_seen"
and "deleted_in_seconds"; what is not known is null.

The exit code is 1 also when that stops the collection.`

// gcCommand is `caddy codehub gc`. It does not use the API, which lists a bounded number of archives, and has neither
// --unknown nor --force.
func gcCommand(resolve Resolver) *cobra.Command {
	cmd := &cobra.Command{
		Use: "gc", Short: "Shows which archives no workspace needs, and deletes them",
		Long: gcLong,
		Example: `  $ caddy codehub gc --dry-run
  $ caddy codehub gc --dry-run --config /etc/caddy/Caddyfile --json
  $ caddy codehub gc --unknown`,
	}
	var c collection
	cmd.Flags().BoolVar(&c.dryRun, "dry-run", false, "show what would happen, and change nothing")
	cmd.Flags().BoolVar(&c.request.Unknown, "unknown", false, "delete the archives, too, that do not fit the database")
	cmd.Flags().BoolVar(&c.request.Force, "force", false, "collect although many archives belong to no workspace")
	cmd.Flags().BoolVarP(&c.yes, "yes", "y", false, "do not ask")
	cmd.Flags().BoolVar(&c.json, "json", false, "print JSON")
	return resolve.WithServers(cmd, Arguments(cmd, 0), c.run)
}

// collection is the command line of `gc`.
type collection struct {
	dryRun, yes, json bool
	request           gc.Request
}

// run does a dry cycle, followed by one that deletes unless --dry-run is set.
func (c *collection) run(ctx context.Context, s Servers, _ []string) error {
	address, err := redis.ParseURL(s.Options.Redis)
	if err != nil {
		return fmt.Errorf("the setting redis: %w", err)
	}
	logging.Disable() // of the Redis client: the command itself reports errors
	client := redis.NewClient(address)
	defer client.Close()
	return s.WithClients(func(w Clients) error {
		o := gc.Options{
			Archives: w.Archives, Store: s.Store, Identity: w.Identity, Settings: s.Live.GC,
			Orphans: gc.NewOrphanTracker(client, gc.DefaultKey), Holder: "caddy codehub gc",
		}
		away := answers(ctx, func(ctx context.Context) error { return client.Ping(ctx).Err() })
		switch {
		case away != nil && !c.dryRun:
			return fmt.Errorf("the Redis server cannot be reached, so it is not known since when "+
				"archives are orphans; check the setting redis: %w", away)
		case away != nil:
			fmt.Fprintf(s.Cmd.ErrOrStderr(), "Warning: Redis cannot be reached, so it is not known since when "+
				"archives are orphans, and none is shown as due; check the setting redis. (%v)\n", away)
			o.Orphans = nil
		}
		if c.dryRun {
			out := findingTable(s.Cmd.OutOrStdout(), s.Live.GC.Delay, c.request)
			if c.json {
				out = findingJSON(s.Cmd.OutOrStdout())
			}
			_, err := c.inspect(ctx, o, out)
			return err
		}
		return c.collect(ctx, s, o)
	})
}

// inspect does a dry cycle and prints its findings. It also prints them if a real cycle would be stopped.
func (c *collection) inspect(ctx context.Context, o gc.Options, out findingPrinter) (gc.Report, error) {
	report, err := gc.DryRun(ctx, o, c.request, out.finding)
	var stopped *gc.CircuitBreakerError
	if err != nil && !errors.As(err, &stopped) {
		if workspace.ReasonOf(err) == workspace.ReasonUnreachable {
			err = fmt.Errorf("check the setting s3 endpoint, and whether the store runs: %w", err)
		}
		return report, fmt.Errorf("the archives could not be listed: %w", inWords(err, nil))
	}
	return report, errors.Join(out.end(report), err)
}

// collect shows the due archives, asks for confirmation, and does a cycle that deletes at most these.
func (c *collection) collect(ctx context.Context, s Servers, o gc.Options) error {
	w, delay := s.Cmd.OutOrStdout(), s.Live.GC.Delay
	shown, done := findingTable(w, delay, c.request, gc.Due, gc.Reported), collectedTable(w, delay)
	if c.json {
		shown, done = findingTable(io.Discard, delay, c.request), findingJSON(w)
	}
	var size int64
	show := shown.finding
	shown.finding = func(f gc.Judgement) error {
		if f.Verdict == gc.Due {
			size += max(f.Size, 0)
		}
		return show(f)
	}
	report, err := c.inspect(ctx, o, shown)
	if err != nil {
		return err
	}
	if report.Due > 0 {
		question := fmt.Sprintf("This deletes %s (%s) for good.",
			Count(report.Due, "archive"), units.BytesSize(float64(size)))
		if c.request.Unknown {
			question += " Those that do not fit the database may be all that is left of a user's files."
		}
		if err := Confirm(s.Cmd, c.yes, question); err != nil {
			return err
		}
	}
	if err := s.Audit().Write(ctx, audit.SystemCollect, "", map[string]any{
		"due": report.Due, "unknown": c.request.Unknown, "force": c.request.Force,
	}); err != nil {
		return err
	}
	request := c.request
	request.Confirmed = report.Due
	report, err = gc.Collect(ctx, o, request, func(f gc.Judgement) error {
		switch f.Verdict {
		case gc.Deleted, gc.Spared, gc.Failed:
			return done.finding(f)
		}
		return nil
	})
	var busy *postgres.BusyError
	switch {
	case errors.As(err, &busy):
		return fmt.Errorf("archives are being collected already, by %s; run this again when it has finished",
			busy.Holder)
	case errors.Is(err, gc.ErrNotConfirmed):
		return errors.New("more archives are due by now than were shown, so nothing was deleted: run this again")
	}
	return errors.Join(done.end(report), err)
}
