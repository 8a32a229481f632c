package command

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	v1 "github.com/codehub/gateway/caddymodule/internal/api/v1"
	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/store/auditlog"
	"github.com/codehub/gateway/coordinator/workspace"
)

// followEvery is how often --follow reads new entries. latest is how long after its time an entry may appear, because
// its transaction may take that long.
const (
	followEvery = 2 * time.Second
	latest      = time.Minute
)

// auditCommand is `caddy codehub audit`. It reads the database directly, with the calls that the API makes, because it
// needs no configuration.
func auditCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "audit", Short: "Shows who has asked for what",
		Long: `Shows who has asked for what, from where, on which workspace or user: the newest first, as a
table of the last 100, or with --json all of it, a JSON object a line, as the API's GET /admin/audit has
them. --follow goes on with what is new, the oldest first, until it is interrupted.

--since and --until take a time, such as 2026-01-31T12:00:00Z, or how long ago, such as 36h. --action
takes one, such as user.sign_in, or its word before the dot for all of these.

The audit is kept for the time of the setting audit_retention.`,
		Example: `  $ caddy codehub audit --user ann --since 24h
  $ caddy codehub audit --action user.sign_in --json | jq -r 'select(.outcome != "done") | .actor.address'
  $ caddy codehub audit --follow --json >> audit.jsonl`,
	}
	var a auditing
	cmd.Flags().StringVar(&a.filter.User, "user", "", "by or about this user, by name or id")
	cmd.Flags().StringVar((*string)(&a.filter.Workspace), "workspace", "", "about the workspace with this id")
	cmd.Flags().StringVar(&a.action, "action", "", "this action, or all with this word before the dot")
	cmd.Flags().StringVar(&a.since, "since", "", "not older than this")
	cmd.Flags().StringVar(&a.until, "until", "", "older than this")
	cmd.Flags().IntVar(&a.limit, "limit", 0, "how many at most; 0 is 100, and with --json all")
	cmd.Flags().BoolVar(&a.json, "json", false, "print JSON, an object a line")
	cmd.Flags().BoolVar(&a.follow, "follow", false, "go on with what is new")
	cmd.RunE = withDatabase(0, func(ctx context.Context, d database, _ string) error {
		a.log = auditlog.New(d.Store.DB, zap.NewNop())
		now, err := d.Store.Now(ctx)
		if err == nil {
			err = a.read(now)
		}
		if err != nil {
			return err
		}
		if a.follow {
			return a.following(ctx, cmd.OutOrStdout(), now)
		}
		return a.print(ctx, cmd.OutOrStdout())
	})
	return cmd
}

// auditing is the command line of `audit`.
type auditing struct {
	filter               auditlog.Filter
	action, since, until string
	limit                int
	json, follow         bool
	log                  *auditlog.Log
}

// read checks the command line. now is the time of the database.
func (a *auditing) read(now time.Time) (err error) {
	if a.filter.Workspace != "" {
		if a.filter.Workspace, err = workspace.ParseID(string(a.filter.Workspace)); err != nil {
			return fmt.Errorf("--workspace: %w", err)
		}
	}
	if a.action != "" {
		if a.filter.Actions = audit.Matching(a.action); a.filter.Actions == nil {
			return fmt.Errorf("there is no action %q: write one of %s, or a first word of these", a.action, audit.Names())
		}
	}
	if a.follow && a.since+a.until != "" {
		return errors.New("--follow goes on with what is new: leave --since and --until out")
	}
	if a.limit < 0 {
		return fmt.Errorf("--limit %d: write 0 or more", a.limit)
	}
	for flag, t := range map[string]struct {
		text string
		at   *time.Time
	}{"since": {a.since, &a.filter.Since}, "until": {a.until, &a.filter.Until}} {
		if t.text == "" {
			continue
		}
		if ago, err := time.ParseDuration(t.text); err == nil && ago >= 0 {
			*t.at = now.Add(-ago)
		} else if *t.at, err = time.Parse(time.RFC3339, t.text); err != nil {
			return fmt.Errorf("--%s %q: write a time, such as 2026-01-31T12:00:00Z, or how long ago, such as 36h", flag, t.text)
		}
	}
	return nil
}

// errEnough ends a listing at its limit.
var errEnough = errors.New("enough")

// print prints the entries up to the limit.
func (a *auditing) print(ctx context.Context, out io.Writer) error {
	limit := a.limit
	if limit == 0 && !a.json {
		limit = 100
	}
	print, end := a.printer(out)
	n := 0
	err := a.log.Each(ctx, a.filter, func(e auditlog.Entry) error {
		if n++; limit > 0 && n > limit {
			return errEnough
		}
		return print(e)
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return errors.Join(err, end())
}

// following prints new entries until ctx ends. An entry may appear after a later one.
func (a *auditing) following(ctx context.Context, out io.Writer, from time.Time) error {
	seen := make(map[int64]time.Time)
	ticker := time.NewTicker(followEvery)
	defer ticker.Stop()
	for newest := from; ; {
		f := a.filter
		if f.Since = newest.Add(-latest); f.Since.Before(from) {
			f.Since = from
		}
		var found []auditlog.Entry
		if err := a.log.Each(ctx, f, func(e auditlog.Entry) error {
			if _, known := seen[e.ID]; !known {
				found = append(found, e)
			}
			return nil
		}); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		print, end := a.printer(out)
		for _, e := range slices.Backward(found) {
			if seen[e.ID] = e.At; e.At.After(newest) {
				newest = e.At
			}
			if err := print(e); err != nil {
				return err
			}
		}
		if err := end(); err != nil {
			return err
		}
		for id, at := range seen {
			if at.Before(newest.Add(-latest)) {
				delete(seen, id)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// printer returns two functions: one prints an entry, and the other ends the output.
func (a *auditing) printer(out io.Writer) (print func(auditlog.Entry) error, end func() error) {
	if a.json {
		encoder := json.NewEncoder(out)
		encoder.SetEscapeHTML(false)
		return func(e auditlog.Entry) error { return encoder.Encode(v1.AuditOf(e)) }, func() error { return nil }
	}
	if a.follow { // columns cannot be aligned before all rows are known
		return func(e auditlog.Entry) error {
			_, err := fmt.Fprintln(out, strings.Join(auditRow(e), "  "))
			return err
		}, func() error { return nil }
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "TIME\tACTION\tOUTCOME\tFROM\tBY\tON")
	return func(e auditlog.Entry) error {
		_, err := fmt.Fprintln(t, strings.Join(auditRow(e), "\t"))
		return err
	}, t.Flush
}

// auditRow are the columns of an entry.
func auditRow(e auditlog.Entry) []string {
	a := e.Actor
	from, by, on := cmp.Or(a.Host, a.Address), cmp.Or(a.Name, string(a.Kind)), e.UserName
	if a.TokenName != "" {
		by += " (token " + a.TokenName + ")"
	}
	if e.WorkspaceID != "" {
		on = fmt.Sprintf("%s %s (%s)", e.WorkspaceID, e.WorkspaceName, e.UserName)
	}
	row := []string{e.At.Local().Format(time.DateTime), string(e.Action), e.Outcome, from, by, on}
	for i, text := range row {
		row[i] = cmp.Or(OneLine(text), "-")
	}
	return row
}
