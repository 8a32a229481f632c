package codehub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/docker/go-units"
	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/gc"
	"github.com/codehub/gateway/coordinator/store"
)

// serverTimeout bounds the first answer of a server to a command.
const serverTimeout = 10 * time.Second

// gcCommand is `caddy codehub gc`.
func gcCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "gc --dry-run", Short: "Shows which archives would be deleted, and why",
		Long: `Shows what the next collection of archives would do with each archive in the object
store, and why, and changes nothing. Collecting itself is the work of the process
that leads; this command cannot start it.

The settings are read from the same configuration that Caddy runs with, and their
placeholders, such as {env.DATABASE_URL}, are replaced in this environment.

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
	var file, adapter string
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show what would happen, and change nothing (required)")
	cmd.Flags().StringVarP(&file, "config", "c", "Caddyfile", "configuration to read the settings from")
	cmd.Flags().StringVarP(&adapter, "adapter", "a", "", "config adapter (default: caddyfile, except for .json)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) > 0:
			return usageError(cmd, fmt.Errorf("%d arguments instead of 0: write %s", len(args), cmd.UseLine()))
		case !dryRun:
			return usageError(cmd, errors.New("collecting archives is the work of the process that leads: add --dry-run to see what it would do"))
		case cmd.Flags().Changed("database"):
			return usageError(cmd, errors.New("gc takes the database from the configuration: leave --database out"))
		}
		settings, err := readSettings(file, adapter)
		if err != nil {
			return usageError(cmd, err)
		}
		out := findingTable
		if asJSON {
			out = findingJSON
		}
		return collectDry(cmd.Context(), settings, out(cmd.OutOrStdout(), settings.live.GC.Delay), cmd.ErrOrStderr())
	}
	return cmd
}

// readSettings returns the settings of the app in a configuration, resolved as when
// Caddy starts.
func readSettings(file, adapter string) (resolved, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return resolved{}, fmt.Errorf("reading the configuration: %w: name it with --config", err)
	}
	if adapter == "" && filepath.Ext(file) != ".json" {
		adapter = "caddyfile"
	}
	if adapter != "" {
		a := caddyconfig.GetAdapter(adapter)
		if a == nil {
			return resolved{}, fmt.Errorf("there is no config adapter %q", adapter)
		}
		if text, _, err = a.Adapt(text, map[string]any{"filename": file}); err != nil {
			return resolved{}, fmt.Errorf("adapting %s: %w", file, err)
		}
	}
	var config struct {
		Apps struct {
			CodeHub json.RawMessage `json:"codehub"`
		} `json:"apps"`
	}
	if err := json.Unmarshal(text, &config); err != nil {
		return resolved{}, fmt.Errorf("reading %s: %w", file, err)
	}
	if config.Apps.CodeHub == nil {
		return resolved{}, fmt.Errorf("%s has no codehub block in its global options: is it the configuration of the installation?", file)
	}
	app := new(App)
	if err := caddy.StrictUnmarshalJSON(config.Apps.CodeHub, app); err != nil {
		return resolved{}, fmt.Errorf("reading the app codehub in %s: %w", file, err)
	}
	r, err := app.resolve(caddy.NewReplacer())
	if err != nil {
		return resolved{}, fmt.Errorf("the settings in %s cannot be used here:\n%w", file, err)
	}
	return r, nil
}

// collectDry runs one dry cycle and prints its findings. Warnings go to warn.
func collectDry(ctx context.Context, r resolved, out findingPrinter, warn io.Writer) error {
	db, err := store.Open(r.options.Database)
	if err != nil {
		return fmt.Errorf("the setting database: %w", err)
	}
	defer db.Close()
	if err := within(ctx, db.Ping); err != nil {
		return fmt.Errorf("the database cannot be reached; check the setting database: %w", err)
	}
	archives, err := archive.New(r.options.Archive)
	if err != nil {
		return fmt.Errorf("the settings of s3: %w", err)
	}
	address, err := redis.ParseURL(r.options.Redis)
	if err != nil {
		return fmt.Errorf("the setting redis: %w", err)
	}
	client := redis.NewClient(address)
	defer client.Close()
	orphans := gc.NewOrphanTracker(client, gc.DefaultKey)
	if err := within(ctx, func(ctx context.Context) error { return client.Ping(ctx).Err() }); err != nil {
		fmt.Fprintf(warn, "Warning: Redis cannot be reached, so it is not known since when archives are orphans: none is shown as due. (%v)\n", err)
		orphans = nil
	}
	report, err := gc.DryRun(ctx, gc.Options{Archives: archives, Store: db, Orphans: orphans, Settings: r.live.GC}, gc.Request{}, out.finding)
	var stopped *gc.CircuitBreakerError
	if err != nil && !errors.As(err, &stopped) {
		return fmt.Errorf("the dry run did not finish: %w", explain(err, nil))
	}
	return errors.Join(out.end(report), err)
}

// within calls f with serverTimeout.
func within(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, serverTimeout)
	defer cancel()
	return f(ctx)
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
