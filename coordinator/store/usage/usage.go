// Package usage reads how long workspaces were awake, asleep and archived, and how much space they took up (SPEC 14).
// The database's triggers record this. It must not know prices.
package usage

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Retention is how long the days are kept: long enough to compare the last year with the year that ended a month ago.
const Retention = 400 * 24 * time.Hour

// Store is the usage in a database. It is safe for concurrent use.
type Store struct{ db *postgres.DB }

// Now returns the database's time.
func (s *Store) Now(ctx context.Context) (time.Time, error) { return s.db.Now(ctx) }

// LastMonth returns the default days of a report: the last 30 days and today.
func LastMonth(now time.Time) (from, to time.Time) {
	today := now.UTC().Truncate(24 * time.Hour)
	return today.AddDate(0, 0, -30), today.AddDate(0, 0, 1)
}

// New returns the usage in a database. It performs no I/O.
func New(db *postgres.DB) *Store { return &Store{db} }

// Phases are how long workspaces were in each phase.
type Phases struct {
	// Awake is RUNNING, Asleep STANDBY, Archived ARCHIVED; Other is every other phase in which they existed.
	Awake, Asleep, Archived, Other time.Duration
	// By divides Awake by cause.
	By Causes
}

// Causes are how long workspaces were kept awake by each cause. They add up to the time awake.
type Causes struct {
	// The workspaces were awake because people used them (Input), because of other requests (Requests), because of work
	// inside them (Work), or because their owners wanted them awake (KeepAwake). Idle is the remaining time: nothing
	// happened, but the TTL had not passed yet.
	Input, Requests, Work, KeepAwake, Idle time.Duration
}

// Of is the usage of one workspace in a report.
type Of struct {
	WorkspaceID workspace.ID
	// Name is the current name of the workspace, and Owner that of its owner.
	Name, Owner string
	Phases
	// VolumeByteHours and ArchiveByteHours are its space on a volume and in the object store, in bytes times
	// hours.
	VolumeByteHours, ArchiveByteHours float64
}

// Day is the usage of all workspaces of a report on a day of UTC.
type Day struct {
	Day time.Time
	Phases
}

// Report is the usage from the day From up to the day To, which is excluded.
type Report struct {
	From, To time.Time
	// Workspaces are those that existed, the longest awake first.
	Workspaces []Of
	// Days are those on which any of them existed.
	Days []Day
}

// part is the time in a phase, in microseconds.
type part struct {
	Phase                                    workspace.Phase
	Micros, Input, Requests, Work, KeepAwake int64
}

// fields returns the destinations for the columns of both statements, followed by those in more.
func (p *part) fields(more ...any) []any {
	return append([]any{&p.Phase, &p.Micros, &p.Input, &p.Requests, &p.Work, &p.KeepAwake}, more...)
}

func (p *Phases) add(of part) {
	for _, sum := range []struct {
		of     *time.Duration
		micros int64
	}{
		{p.of(of.Phase), of.Micros},
		{&p.By.Input, of.Input}, {&p.By.Requests, of.Requests}, {&p.By.Work, of.Work}, {&p.By.KeepAwake, of.KeepAwake},
	} {
		*sum.of += time.Duration(sum.micros) * time.Microsecond
	}
	p.By.Idle = max(0, p.Awake-p.By.Input-p.By.Requests-p.By.Work-p.By.KeepAwake)
}

// of returns the total of a phase.
func (p *Phases) of(phase workspace.Phase) *time.Duration {
	switch phase {
	case workspace.PhaseRunning:
		return &p.Awake
	case workspace.PhaseStandby:
		return &p.Asleep
	case workspace.PhaseArchived:
		return &p.Archived
	}
	return &p.Other
}

// The parts of the statements. In a report about one owner, every part restricts its rows to that owner, so that it
// reads an index.
const (
	sums   = `sum(micros)::bigint AS micros, ` + causes
	causes = `sum(input)::bigint AS input, sum(requests)::bigint AS requests, sum(work)::bigint AS work, sum(keep_awake)::bigint AS keep_awake`

	ofSpan   = `phase, micros, byte_micros, ` + ofCauses
	ofCauses = `input_micros AS input, requests_micros AS requests, work_micros AS work, keep_awake_micros AS keep_awake`

	// totalsSQL selects the ended spans of all workspaces, by day, and daysSQL those of one owner.
	totalsSQL = `
		SELECT day, phase, ` + sums + `
		FROM (SELECT day, phase, days, micros, ` + ofCauses + ` FROM usage_totals WHERE day >= @from AND day < @to) AS t
		GROUP BY day, phase HAVING sum(days) <> 0`
	daysSQL = `
		SELECT day, phase, micros, ` + ofCauses + ` FROM usage_days s WHERE day >= @from AND day < @to @owned`

	// weeksSQL selects the same spans, but reads the whole weeks of the report from usage_weeks, and only the days
	// before and after them from usage_days. If the report has no whole week, the first Monday is not before the last
	// one. Then every day is either before the first Monday, or not before the last one.
	weeksSQL = `
		SELECT workspace_id, owner_user_id, ` + ofSpan + ` FROM usage_weeks s WHERE week >= ` + firstMonday + ` AND week < ` + lastMonday + ` @owned
		UNION ALL
		SELECT workspace_id, owner_user_id, ` + ofSpan + ` FROM usage_days s
		WHERE day >= @from AND day < @to AND (day < ` + firstMonday + ` OR day >= ` + lastMonday + `) @owned`

	firstMonday = `date_trunc('week', (@from::date + 6)::timestamp)::date`
	lastMonday  = `date_trunc('week', @to::date::timestamp)::date`

	// awakeSQL selects the causes of open awake spans that are not part of any day yet.
	awakeSQL = `
		SELECT w.id AS workspace_id, w.owner_user_id, day, 'RUNNING' AS phase, 0 AS micros, 0 AS byte_micros, (sums ->> 'input')::bigint AS input,
			(sums ->> 'requests')::bigint AS requests, (sums ->> 'work')::bigint AS work, (sums ->> 'keep_awake')::bigint AS keep_awake
		FROM usage_spans s JOIN workspaces w ON w.id = s.workspace_id AND w.phase = 'RUNNING', LATERAL (
			SELECT (awake_at AT TIME ZONE 'UTC')::date AS day, awake_by AS sums
			UNION ALL
			SELECT d::date, jsonb_build_object(CASE WHEN busy IS NULL THEN 'keep_awake' ELSE 'work' END, usage_micros(
				awake_at, CASE WHEN busy IS NULL THEN LEAST(keep_awake_until, now()) ELSE now() END, d::date, d::date + 1))
			FROM generate_series(date_trunc('day', awake_at AT TIME ZONE 'UTC'), now() AT TIME ZONE 'UTC', '1 day') AS d
			WHERE busy IS NOT NULL OR keep_awake_until > awake_at
		) AS b
		WHERE s.phase = 'RUNNING' AND day >= @from AND day < @to @owned`
)

// The statements.
var (
	// reportSQL adds the present spans to those that have ended. It joins only the sums, which PostgreSQL computes in
	// parallel in two processes. It sums doubles, because PostgreSQL does so faster. A double holds the microseconds of
	// any workspace's lifetime exactly.
	reportSQL = `
	SELECT u.workspace_id, COALESCE(w.name, '') AS name, COALESCE(owner.username, '') AS owner,
		u.phase, micros, input, requests, work, keep_awake, (byte_micros / 3600000000)::float8 AS byte_hours
	FROM (
		SELECT workspace_id, owner_user_id, phase, ` + total("micros", "byte_micros", "input", "requests", "work", "keep_awake") + `
		FROM (
			` + past("0::bigint AS input, 0::bigint AS requests, 0::bigint AS work, 0::bigint AS keep_awake", "phase <> 'RUNNING'") + `
			UNION ALL
			` + past(causes, "phase = 'RUNNING'") + `
		) AS past FULL JOIN (
			SELECT workspace_id, owner_user_id, phase, ` + sums + `, sum(byte_micros) AS byte_micros
			FROM (
				SELECT workspace_id, owner_user_id, phase, micros, byte_micros, input, requests, work, keep_awake FROM (` + awakeSQL + `) AS a
				UNION ALL
				SELECT workspace_id, owner_user_id, phase, lasted, lasted::numeric * bytes, 0, 0, 0, 0
				FROM usage_spans s, LATERAL (SELECT usage_micros(since, now(), @from, @to) AS lasted) AS l WHERE lasted > 0 @owned
			) AS p GROUP BY workspace_id, owner_user_id, phase
		) AS present USING (workspace_id, owner_user_id, phase)
	) AS u
	LEFT JOIN workspaces w ON w.id = u.workspace_id LEFT JOIN users owner ON owner.id = u.owner_user_id`

	// byDaySQL does the same by day. It first sums the open spans that began on the same day.
	byDaySQL = `
	SELECT day, phase, ` + sums + `
	FROM (
		@days
		UNION ALL
		SELECT day, phase, micros, input, requests, work, keep_awake FROM (` + awakeSQL + `) AS a
		UNION ALL
		SELECT d::date, phase,
			n * usage_micros('-infinity', now(), d::date, d::date + 1) - CASE WHEN d = began THEN missed ELSE 0 END, 0, 0, 0, 0
		FROM (
			SELECT phase, began, count(*) AS n, sum(usage_micros('-infinity', since, began::date, began::date + 1)) AS missed
			FROM usage_spans s, LATERAL (SELECT GREATEST(date_trunc('day', since AT TIME ZONE 'UTC'), @from::date::timestamp) AS began) AS b
			WHERE since <= now() @owned
			GROUP BY phase, began
		) AS spans,
		generate_series(began, LEAST(now() AT TIME ZONE 'UTC', @to::date::timestamp - interval '1 day'), '1 day') AS d
	) AS u
	GROUP BY day, phase ORDER BY day`
)

// past returns a statement that sums the ended spans of some phases. The argument causes gives its columns for the
// causes. Only awake spans have causes. The other phases have far more rows, so their causes are not summed.
func past(causes, phases string) string {
	return `SELECT workspace_id, owner_user_id, phase, sum(micros::float8)::bigint AS micros, sum(byte_micros) AS byte_micros, ` + causes + `
		FROM (` + weeksSQL + `) AS d WHERE ` + phases + ` GROUP BY workspace_id, owner_user_id, phase`
}

// total returns SQL that adds up columns of past and present, either of which may have no row.
func total(columns ...string) string {
	for i, c := range columns {
		columns[i] = fmt.Sprintf("COALESCE(past.%[1]s, 0) + COALESCE(present.%[1]s, 0) AS %[1]s", c)
	}
	return strings.Join(columns, ", ")
}

// owned returns the statement for one user, given by name or id, or for all users if user is empty.
func owned(sql, user string) string {
	condition, days := ``, daysSQL
	switch {
	case user == "":
		days = totalsSQL
	case uuid.Validate(user) == nil:
		condition = `AND s.owner_user_id = @user::uuid`
	default:
		condition = `AND s.owner_user_id = (SELECT id FROM users WHERE lower(username) = lower(@user))`
	}
	return strings.ReplaceAll(strings.ReplaceAll(sql, "@days", days), "@owned", condition)
}

// whole sets the parameters of the transaction that reads a report of all users. The report groups millions of rows by
// hundreds of thousands of workspaces: that fits into memory, but sorting on disk would be slow. Compiling the
// statements would take longer than running them. A plan for unknown days would expect few rows.
const whole = `SET LOCAL work_mem = '128MB'; SET LOCAL enable_sort = off; SET LOCAL jit = off;
	SET LOCAL max_parallel_workers_per_gather = 1; SET LOCAL plan_cache_mode = force_custom_plan`

type (
	// ofWorkspace and ofDay are rows of the statements.
	ofWorkspace struct {
		WorkspaceID workspace.ID
		Name, Owner string
		ByteHours   float64
		part
	}
	ofDay struct {
		Day time.Time
		part
	}
)

// Report returns the usage of each workspace from the first day up to the last one, which is excluded, in UTC days.
// With a user's id or name it includes only that user's workspaces. The phases of a workspace add up to the time for
// which it existed.
func (s *Store) Report(ctx context.Context, from, to time.Time, user string) (Report, error) {
	r := Report{From: from, To: to, Workspaces: []Of{}}
	args := postgres.Args{"from": from, "to": to}
	if user != "" {
		args["user"] = user
	}
	at := make(map[workspace.ID]int)
	if err := s.read(ctx, user, args, func(row ofWorkspace) { r.addWorkspace(at, row) }, r.addDay); err != nil {
		return r, fmt.Errorf("reading the usage: %w", err)
	}
	slices.SortFunc(r.Workspaces, func(a, b Of) int {
		return cmp.Or(cmp.Compare(b.Awake, a.Awake), cmp.Compare(a.WorkspaceID, b.WorkspaceID))
	})
	return r, nil
}

// read reads the workspaces and the days in one snapshot, and passes on each row as it arrives.
func (s *Store) read(ctx context.Context, user string, args postgres.Args, workspaces func(ofWorkspace), days func(ofDay)) error {
	return pgx.BeginTxFunc(ctx, s.db.Pool(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if user == "" {
			if _, err := tx.Exec(ctx, whole); err != nil {
				return err
			}
		}
		var w ofWorkspace
		rows, _ := tx.Query(ctx, owned(reportSQL, user), args) // the rows have its error as well
		_, err := pgx.ForEachRow(rows, append([]any{&w.WorkspaceID, &w.Name, &w.Owner}, w.fields(&w.ByteHours)...), func() error {
			workspaces(w)
			return nil
		})
		if err != nil {
			return err
		}
		var d ofDay
		rows, _ = tx.Query(ctx, owned(byDaySQL, user), args)
		_, err = pgx.ForEachRow(rows, append([]any{&d.Day}, d.fields()...), func() error {
			days(d)
			return nil
		})
		return err
	})
}

// addWorkspace adds a row to the usage of its workspace. at holds the index of each workspace.
func (r *Report) addWorkspace(at map[workspace.ID]int, row ofWorkspace) {
	i, ok := at[row.WorkspaceID]
	if !ok {
		i = len(r.Workspaces)
		at[row.WorkspaceID] = i
		r.Workspaces = append(r.Workspaces, Of{WorkspaceID: row.WorkspaceID, Name: row.Name, Owner: row.Owner})
	}
	o := &r.Workspaces[i]
	o.add(row.part)
	if row.Phase == workspace.PhaseArchived {
		o.ArchiveByteHours += row.ByteHours
	} else {
		o.VolumeByteHours += row.ByteHours
	}
}

// addDay adds a row to its day. The rows come in the order of the days.
func (r *Report) addDay(row ofDay) {
	if n := len(r.Days); n == 0 || !r.Days[n-1].Day.Equal(row.Day) {
		r.Days = append(r.Days, Day{Day: row.Day})
	}
	r.Days[len(r.Days)-1].add(row.part)
}

// Trim deletes at most limit days that are older than olderThan, the oldest first, and returns how many. When it has
// deleted the last of them, it merges the sums of all workspaces into one row for each day and phase.
func (s *Store) Trim(ctx context.Context, olderThan time.Duration, limit int) (int64, error) {
	deleted, err := s.db.Exec(ctx, "trimming the usage", `
		DELETE FROM usage_days WHERE (workspace_id, day, phase) IN (
			SELECT workspace_id, day, phase FROM usage_days WHERE day < now() - $1::interval ORDER BY day LIMIT $2)`,
		olderThan, limit)
	if err != nil || deleted == int64(limit) {
		return deleted, err
	}
	// Rows that are committed meanwhile stay next to the merged one.
	_, err = s.db.Exec(ctx, "adding up the usage", `
		WITH gone AS (
			DELETE FROM usage_totals WHERE (day, phase) IN (SELECT day, phase FROM usage_totals GROUP BY day, phase HAVING count(*) > 1) RETURNING *)
		INSERT INTO usage_totals SELECT day, phase, sum(days), sum(micros), sum(input_micros), sum(requests_micros), sum(work_micros), sum(keep_awake_micros)
		FROM gone GROUP BY day, phase HAVING sum(days) <> 0`)
	return deleted, err
}
