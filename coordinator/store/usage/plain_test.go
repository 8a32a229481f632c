package usage

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/seed"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/store/storetest"
)

// These statements compute the report by its definition: they join all rows of the days and of the present spans, and
// then sum them.
const (
	plainDaysSQL = `
		SELECT workspace_id, owner_user_id, day, phase, micros, byte_micros,
			input_micros AS input, requests_micros AS requests, work_micros AS work, keep_awake_micros AS keep_awake
		FROM usage_days s WHERE true @owned`

	plainAwakeSQL = `
		SELECT w.id, w.owner_user_id, day, 'RUNNING', 0, 0,
			(sums ->> 'input')::bigint, (sums ->> 'requests')::bigint, (sums ->> 'work')::bigint, (sums ->> 'keep_awake')::bigint
		FROM usage_spans s JOIN workspaces w ON w.id = s.workspace_id AND w.phase = 'RUNNING', LATERAL (
			SELECT (awake_at AT TIME ZONE 'UTC')::date AS day, awake_by AS sums
			UNION ALL
			SELECT d::date, jsonb_build_object(CASE WHEN busy IS NULL THEN 'keep_awake' ELSE 'work' END, usage_micros(
				awake_at, CASE WHEN busy IS NULL THEN LEAST(keep_awake_until, now()) ELSE now() END, d::date, d::date + 1))
			FROM generate_series(date_trunc('day', awake_at AT TIME ZONE 'UTC'), now() AT TIME ZONE 'UTC', '1 day') AS d
			WHERE busy IS NOT NULL OR keep_awake_until > awake_at
		) AS b
		WHERE s.phase = 'RUNNING' @owned`

	plainReportSQL = `
	SELECT u.workspace_id, w.name, owner.username AS owner, u.phase, ` + sums + `,
		(sum(u.byte_micros) / 3600000000)::float8 AS byte_hours
	FROM (
		SELECT * FROM (` + plainDaysSQL + ` UNION ALL ` + plainAwakeSQL + `) AS d WHERE day >= @from AND day < @to
		UNION ALL
		SELECT workspace_id, owner_user_id, NULL, phase, lasted, lasted::numeric * bytes, 0, 0, 0, 0
		FROM usage_spans s, LATERAL (SELECT usage_micros(since, now(), @from, @to) AS lasted) AS l WHERE lasted > 0 @owned
	) AS u
	LEFT JOIN workspaces w ON w.id = u.workspace_id LEFT JOIN users owner ON owner.id = u.owner_user_id
	GROUP BY u.workspace_id, w.name, owner.username, u.phase`

	plainByDaySQL = `
	SELECT day, phase, ` + sums + `
	FROM (
		SELECT * FROM (` + plainDaysSQL + ` UNION ALL ` + plainAwakeSQL + `) AS d WHERE day >= @from AND day < @to
		UNION ALL
		SELECT NULL, NULL, d::date, phase,
			n * usage_micros('-infinity', now(), d::date, d::date + 1) - CASE WHEN d = began THEN missed ELSE 0 END, 0, 0, 0, 0, 0
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

// TestAReportIsTheSumOfItsRows: on random rows, the reports of all users and of one user are, bit for bit, equal to the
// results of the plain statements. The rows belong to several owners and phases. Some are of workspaces that are gone
// or have changed hands, and some spans are open.
func TestAReportIsTheSumOfItsRows(t *testing.T) {
	seed.Each(t, func(t *testing.T, r *rand.Rand) {
		s := storetest.Open(t)
		u := New(s.DB)
		owners := []string{storetest.AddUser(t, s), storetest.AddUser(t, s), storetest.AddUser(t, s)}
		phases := []string{"PENDING", "STANDBY", "RUNNING", "ARCHIVED", "ERROR", "DELETING"}
		for range 12 {
			id := create(t, s, owners[r.IntN(3)])
			storetest.Set(t, s, id, `phase = '`+phases[r.IntN(6)]+`', desired_state = 'RUNNING'`)
			kept := []string{`keep_awake_until = now() + interval '1 day'`, `busy = '{"reason": "TerminalJob"}'`, `busy = NULL`}[r.IntN(3)]
			// Triggers would treat it as a change.
			storetest.Exec(t, s, fmt.Sprintf(`SET session_replication_role = replica;
				UPDATE usage_spans SET since = since - interval '%[2]d microseconds', bytes = %[3]d WHERE workspace_id = '%[1]s';
				UPDATE workspaces SET %[4]s, awake_at = awake_at - interval '%[2]d microseconds' / 2,
					awake_by = '{"input": 7, "work": 11}' WHERE id = '%[1]s'`, id, r.Int64N(60*86400e6), r.Int64N(1<<40), kept))
			for range r.IntN(60) {
				n := func(most int64) int64 { return r.Int64N(most) }
				phase := phases[r.IntN(6)]
				causes := int64(0)
				if phase == "RUNNING" {
					causes = 1 << 30
				}
				storetest.Exec(t, s, `INSERT INTO usage_days SELECT $1, now()::date - $2::int, $3, $4, $5::bigint, $6::numeric * $5::bigint, $7, $8, $9, $10 ON CONFLICT DO NOTHING`,
					string(id), n(45), phase, owners[r.IntN(3)], n(86400e6), n(1<<40), n(causes+1), n(causes+1), n(causes+1), n(causes+1))
			}
			if r.IntN(4) == 0 {
				storetest.Exec(t, s, `SET session_replication_role = replica; DELETE FROM workspaces`)
			}
		}
		// An open span would grow between the two queries, so the reports end before the first open span begins.
		to := time.Now().UTC().Truncate(24 * time.Hour)
		for range 8 {
			from := to.AddDate(0, 0, -r.IntN(40))
			user := []string{"", "", owners[0], owners[1]}[r.IntN(4)]
			args := postgres.Args{"from": from, "to": to}
			if user != "" {
				args["user"] = user
			}
			var rows []ofWorkspace
			days := []ofDay{}
			err := u.read(t.Context(), user, args,
				func(row ofWorkspace) { rows = append(rows, row) }, func(row ofDay) { days = append(days, row) })
			if err != nil {
				t.Fatal(err)
			}
			plain, err := postgres.Select(t.Context(), s.DB, "reading", postgres.RowToStruct[ofWorkspace], owned(plainReportSQL, user), args)
			if err != nil {
				t.Fatal(err)
			}
			plainDays, err := postgres.Select(t.Context(), s.DB, "reading", postgres.RowToStruct[ofDay], owned(plainByDaySQL, user), args)
			if err != nil {
				t.Fatal(err)
			}
			if len(plain) == 0 && from.Before(to) && user == "" {
				t.Error("nothing is compared")
			}
			for _, all := range [][]ofWorkspace{rows, plain} {
				slices.SortFunc(all, func(a, b ofWorkspace) int {
					return cmp.Or(cmp.Compare(a.WorkspaceID, b.WorkspaceID), cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.Phase, b.Phase))
				})
			}
			for _, all := range [][]ofDay{days, plainDays} {
				slices.SortFunc(all, func(a, b ofDay) int { return cmp.Or(a.Day.Compare(b.Day), cmp.Compare(a.Phase, b.Phase)) })
			}
			if !slices.Equal(rows, plain) {
				t.Errorf("from %s, user %q: %+v, want %+v", from, user, rows, plain)
			}
			if !reflect.DeepEqual(days, plainDays) {
				t.Errorf("from %s, user %q, by day: %+v, want %+v", from, user, days, plainDays)
			}
		}
	})
}
