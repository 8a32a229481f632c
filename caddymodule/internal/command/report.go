package command

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	v1 "github.com/codehub/gateway/caddymodule/internal/api/v1"
	"github.com/codehub/gateway/coordinator/store/usage"
)

// reportCommand is `caddy codehub report`. It reads the database directly, with the calls that the API makes, because
// it needs no configuration.
func reportCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "report", Short: "Shows how long workspaces were awake, and what sleeping has saved",
		Long: `Shows for how many hours each workspace was awake, asleep and archived, and how much it held, those that
were awake longest first: of the last 30 days, or from a day up to another one, which is not part
of it, by the days of UTC. It counts from the release on that has this command.

AWAKE BY is what kept it awake, in hours, the longest first: input of people, requests of programs
and pages, work in it, its owner's wish (keep_awake), or nothing but the TTL (idle). Dozing counts
as awake.

With prices it shows what that costs, and what it would cost if every workspace had been awake,
on its volume, for as long as it existed. A month is 730 hours, a GB 1,000,000,000 bytes.

With --json the result is the object of the API's GET /admin/report, without prices.`,
		Example: `  $ caddy codehub report --user ann
  $ caddy codehub report --from 2026-01-01 --to 2026-02-01 --json | jq '[.items[].awake_hours] | add'
  $ caddy codehub report --price-awake-hour 0.05 --price-volume-gb-month 0.10 --price-archive-gb-month 0.02`,
	}
	var r reporting
	cmd.Flags().StringVar(&r.from, "from", "", "the first day, such as 2026-01-01")
	cmd.Flags().StringVar(&r.to, "to", "", "the day after the last one")
	cmd.Flags().StringVar(&r.user, "user", "", "the workspaces of this user, by name or id")
	cmd.Flags().BoolVar(&r.json, "json", false, "print JSON")
	cmd.Flags().Float64Var(&r.awakeHour, "price-awake-hour", 0, "what an hour awake costs")
	cmd.Flags().Float64Var(&r.volumeMonth, "price-volume-gb-month", 0, "what a GB on a volume costs in a month")
	cmd.Flags().Float64Var(&r.archiveMonth, "price-archive-gb-month", 0, "what a GB in the object store costs in a month")
	cmd.RunE = withDatabase(0, func(ctx context.Context, d database, _ string) error {
		return r.run(ctx, d)
	})
	return cmd
}

// reporting is the command line of `report`.
type reporting struct {
	from, to, user                       string
	json                                 bool
	awakeHour, volumeMonth, archiveMonth float64
}

func (r reporting) run(ctx context.Context, d database) error {
	now, err := d.Store.Now(ctx)
	if err != nil {
		return err
	}
	from, to := usage.LastMonth(now)
	for flag, day := range map[string]struct {
		text string
		at   *time.Time
	}{"from": {r.from, &from}, "to": {r.to, &to}} {
		if day.text == "" {
			continue
		}
		if *day.at, err = time.Parse(time.DateOnly, day.text); err != nil {
			return fmt.Errorf("--%s %q: write a day, such as 2026-01-31", flag, day.text)
		}
	}
	if r.awakeHour < 0 || r.volumeMonth < 0 || r.archiveMonth < 0 {
		return fmt.Errorf("a price is less than 0")
	}
	found, err := usage.New(d.Store.DB).Report(ctx, from, to, r.user)
	if err != nil {
		return err
	}
	out := d.Cmd.OutOrStdout()
	if r.json {
		return PrintJSON(out, v1.UsageReportOf(found))
	}
	return r.print(out, v1.UsageReportOf(found))
}

// hoursOfMonth is a twelfth of a year's hours.
const hoursOfMonth = 730

// existed returns for how many hours a workspace existed.
func existed(u v1.WorkspaceUsage) float64 {
	return u.AwakeHours + u.AsleepHours + u.ArchivedHours + u.OtherHours
}

// costs returns the cost of a workspace, and its cost if it were always awake. Without a volume, the last size of the
// home counts, because an archive is smaller than its home.
func (r reporting) costs(u v1.WorkspaceUsage) (is, always float64) {
	is = u.AwakeHours*r.awakeHour + (u.VolumeGBHours*r.volumeMonth+u.ArchiveGBHours*r.archiveMonth)/hoursOfMonth
	return is, existed(u)*r.awakeHour + (u.VolumeGBHours+u.ArchiveGBHours)*r.volumeMonth/hoursOfMonth
}

// awakeBy lists the causes that kept a workspace awake, in hours, the longest first.
func awakeBy(by v1.AwakeBy) string {
	type cause struct {
		name  string
		hours float64
	}
	all := []cause{
		{"input", by.InputHours}, {"requests", by.RequestsHours}, {"work", by.WorkHours}, {"keep_awake", by.KeepAwakeHours},
		{"idle", by.IdleHours},
	}
	slices.SortStableFunc(all, func(a, b cause) int { return cmp.Compare(b.hours, a.hours) })
	var texts []string
	for _, c := range all {
		if c.hours >= 0.05 {
			texts = append(texts, fmt.Sprintf("%s %.1f", c.name, c.hours))
		}
	}
	return cmp.Or(strings.Join(texts, ", "), "-")
}

func (r reporting) print(out io.Writer, report v1.UsageReport) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	priced := r.awakeHour+r.volumeMonth+r.archiveMonth > 0
	header := "AWAKE H\tASLEEP H\tARCHIVED H\tOTHER H\tVOLUME GBH\tARCHIVE GBH\t"
	if priced {
		header += "COST\tALWAYS ON\t"
	}
	fmt.Fprintln(t, header+"AWAKE BY\t WORKSPACE")
	var total v1.WorkspaceUsage
	var cost, always float64
	row := func(u v1.WorkspaceUsage, is, on float64, name string) {
		fmt.Fprintf(t, "%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t", u.AwakeHours, u.AsleepHours, u.ArchivedHours, u.OtherHours,
			u.VolumeGBHours, u.ArchiveGBHours)
		if priced {
			fmt.Fprintf(t, "%.2f\t%.2f\t", is, on)
		}
		fmt.Fprintf(t, "%s\t %s\n", awakeBy(u.AwakeBy), OneLine(name))
	}
	for _, u := range report.Items {
		is, on := r.costs(u)
		name := string(u.WorkspaceID)
		if u.Name != nil && u.Owner != nil {
			name += fmt.Sprintf(" %s (%s)", *u.Name, *u.Owner)
		}
		row(u, is, on, name)
		cost, always = cost+is, always+on
		total.AwakeHours += u.AwakeHours
		total.AwakeBy.InputHours += u.AwakeBy.InputHours
		total.AwakeBy.RequestsHours += u.AwakeBy.RequestsHours
		total.AwakeBy.WorkHours += u.AwakeBy.WorkHours
		total.AwakeBy.KeepAwakeHours += u.AwakeBy.KeepAwakeHours
		total.AwakeBy.IdleHours += u.AwakeBy.IdleHours
		total.AsleepHours += u.AsleepHours
		total.ArchivedHours += u.ArchivedHours
		total.OtherHours += u.OtherHours
		total.VolumeGBHours += u.VolumeGBHours
		total.ArchiveGBHours += u.ArchiveGBHours
	}
	row(total, cost, always, "all "+Count(len(report.Items), "workspace"))
	if err := t.Flush(); err != nil {
		return err
	}
	exists := existed(total)
	fmt.Fprintf(out, "From %s up to %s. ", report.From, report.To)
	if exists > 0 {
		fmt.Fprintf(out, "Sleeping has saved %.1f of %.1f hours (%.0f %%)", exists-total.AwakeHours, exists,
			100*(exists-total.AwakeHours)/exists)
		if priced {
			fmt.Fprintf(out, ", and %.2f of %.2f", always-cost, always)
		}
		fmt.Fprint(out, ".")
	}
	fmt.Fprintln(out)
	return nil
}
