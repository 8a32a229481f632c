package codehub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/docker/go-units"
	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/gc"
)

// gcCommand is `caddy codehub gc`.
func gcCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "gc --dry-run", Short: "Shows which archives would be deleted, and why",
		Long: `Shows what the next collection of archives would do with each archive in the object
store, and why, and changes nothing. Collecting itself is the work of the process
that leads; this command cannot start it.

An archive is protected, or a candidate until it has been needed by no workspace for
the time of the setting gc_delay, or due. When Redis does not answer, it is not known
since when, and no archive is shown as due. With --json the result is an array of
objects with "archive", "workspace_id", "size_bytes", "modified", "verdict"
(protected, candidate or due), "reason", and for a candidate "first_seen" and
"deleted_in_seconds"; what is not known is null.

The exit code is 1 also when the collection would delete nothing because the share
of due archives is larger than the setting gc_max_share.`,
		Example: `  $ caddy codehub gc --dry-run
  $ caddy codehub gc --dry-run --config /etc/caddy/Caddyfile --json`,
	}
	var dryRun, asJSON bool
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show what would happen, and change nothing (required)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return configured(cmd, func(args []string) error {
		if !dryRun {
			return errors.New("collecting archives is the work of the process that leads: add --dry-run to see what it would do")
		}
		return arguments(cmd, 0)(args)
	}, func(ctx context.Context, s servers, _ []string) error {
		out := findingTable
		if asJSON {
			out = findingJSON
		}
		return collectDry(ctx, s, out(cmd.OutOrStdout(), s.live.GC.Delay))
	})
}

// collectDry runs one dry cycle and prints its findings.
func collectDry(ctx context.Context, s servers, out findingPrinter) error {
	archives, err := archive.New(s.options.Archive)
	if err != nil {
		return fmt.Errorf("the settings of s3: %w", err)
	}
	address, err := redis.ParseURL(s.options.Redis)
	if err != nil {
		return fmt.Errorf("the setting redis: %w", err)
	}
	client := redis.NewClient(address)
	defer client.Close()
	orphans := gc.NewOrphanTracker(client, gc.DefaultKey)
	if err := answers(ctx, func(ctx context.Context) error { return client.Ping(ctx).Err() }); err != nil {
		fmt.Fprintf(s.cmd.ErrOrStderr(), "Warning: Redis cannot be reached, so it is not known since when archives are orphans: none is shown as due. (%v)\n", err)
		orphans = nil
	}
	report, err := gc.DryRun(ctx, gc.Options{Archives: archives, Store: s.store, Orphans: orphans, Settings: s.live.GC}, gc.Request{}, out.finding)
	var stopped *gc.CircuitBreakerError
	if err != nil && !errors.As(err, &stopped) {
		return fmt.Errorf("the dry run did not finish: %w", inWords(err, nil))
	}
	return errors.Join(out.end(report), err)
}

// findingPrinter prints findings one by one: there may be very many.
type findingPrinter struct {
	finding func(gc.Finding) error
	end     func(gc.Report) error
}

// findingTable prints a table and a summary.
func findingTable(w io.Writer, delay time.Duration) findingPrinter {
	const row = "%-9s  %-10s  %-9s  %-86s  %s\n"
	var size int64
	started := false
	return findingPrinter{
		finding: func(f gc.Finding) error {
			if !started {
				started = true
				if _, err := fmt.Fprintf(w, row, "VERDICT", "DELETED IN", "SIZE", "ARCHIVE", "REASON"); err != nil {
					return fmt.Errorf("printing the archives: %w", err)
				}
			}
			in, bytes := "-", "-"
			switch f.Verdict {
			case gc.Candidate:
				in = (delay - f.Age).Round(time.Second).String()
				if f.FirstSeen.IsZero() {
					in = "?"
				}
			case gc.Due:
				in = "now"
				size += max(f.Size, 0)
			}
			if f.Size != gc.UnknownSize {
				bytes = units.BytesSize(float64(f.Size))
			}
			if _, err := fmt.Fprintf(w, row, f.Verdict, in, bytes, f.Key, f.Reason); err != nil {
				return fmt.Errorf("printing the archives: %w", err)
			}
			return nil
		},
		end: func(r gc.Report) error {
			_, err := fmt.Fprintf(w, "%d archives: %d protected, %d candidates, %d due (%s). %d other objects are left alone.\n",
				r.Archives, r.Archives-r.Orphans, r.Orphans-r.Due, r.Due, units.BytesSize(float64(size)), r.Foreign)
			if err != nil {
				return fmt.Errorf("printing the archives: %w", err)
			}
			return nil
		},
	}
}

// findingJSON prints an array of objects.
func findingJSON(w io.Writer, delay time.Duration) findingPrinter {
	separator := "["
	return findingPrinter{
		finding: func(f gc.Finding) error {
			type finding struct {
				Archive   string     `json:"archive"`
				Workspace string     `json:"workspace_id"`
				Size      *int64     `json:"size_bytes"`
				Modified  time.Time  `json:"modified"`
				Verdict   gc.Verdict `json:"verdict"`
				Reason    gc.Reason  `json:"reason"`
				FirstSeen *time.Time `json:"first_seen"`
				DeletedIn *int64     `json:"deleted_in_seconds"`
			}
			line := finding{Archive: f.Key, Workspace: string(f.Workspace), Modified: f.Modified.UTC(), Verdict: f.Verdict, Reason: f.Reason}
			if f.Size != gc.UnknownSize {
				line.Size = &f.Size
			}
			if !f.FirstSeen.IsZero() {
				first, in := f.FirstSeen.UTC(), int64(max(delay-f.Age, 0)/time.Second)
				line.FirstSeen, line.DeletedIn = &first, &in
			}
			text, err := json.Marshal(line)
			if err == nil {
				_, err = fmt.Fprintf(w, "%s\n  %s", separator, text)
			}
			separator = ","
			if err != nil {
				return fmt.Errorf("printing the archives: %w", err)
			}
			return nil
		},
		end: func(gc.Report) error {
			if separator == "[" {
				_, err := fmt.Fprintln(w, "[]")
				return err
			}
			_, err := fmt.Fprintln(w, "\n]")
			return err
		},
	}
}
