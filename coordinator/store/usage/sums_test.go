package usage

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/codehub/gateway/coordinator/seed"
	"github.com/codehub/gateway/coordinator/store/storetest"
)

// TestTheSumsAreThoseOfTheDays runs every kind of statement on random days, even on days of several weeks and owners at
// once, and checks that the sums still match the days.
func TestTheSumsAreThoseOfTheDays(t *testing.T) {
	seed.Each(t, func(t *testing.T, r *rand.Rand) {
		s := storetest.Open(t)
		ids, owners := []string{uuid.NewString(), uuid.NewString()}, []string{uuid.NewString(), uuid.NewString()}
		one := func(of []string) string { return of[r.IntN(len(of))] }
		const differences = `SELECT count(*) FROM (
			SELECT date_trunc('week', day)::date AS week, workspace_id, phase, owner_user_id, count(*) AS days, sum(micros) AS micros, sum(byte_micros)
				AS byte_micros, sum(input_micros) AS input, sum(requests_micros) AS requests, sum(work_micros) AS work, sum(keep_awake_micros) AS keep_awake
			FROM usage_days GROUP BY 1, 2, 3, 4
		) AS d FULL JOIN usage_weeks w ON
			(d.week, d.workspace_id, d.phase, d.owner_user_id, d.days, d.micros, d.byte_micros, d.input, d.requests, d.work, d.keep_awake) =
			(w.week, w.workspace_id, w.phase, w.owner_user_id, w.days, w.micros, w.byte_micros, w.input_micros, w.requests_micros, w.work_micros, w.keep_awake_micros)
		WHERE d.week IS NULL OR w.week IS NULL`
		const ofTotals = `SELECT count(*) FROM (
			SELECT day, phase, count(*)::numeric AS days, sum(micros) AS micros, sum(input_micros) AS input, sum(requests_micros) AS requests,
				sum(work_micros) AS work, sum(keep_awake_micros) AS keep_awake
			FROM usage_days GROUP BY 1, 2
		) AS d FULL JOIN (
			SELECT day, phase, sum(days) AS days, sum(micros) AS micros, sum(input_micros) AS input, sum(requests_micros) AS requests,
				sum(work_micros) AS work, sum(keep_awake_micros) AS keep_awake
			FROM usage_totals GROUP BY 1, 2 HAVING sum(days) <> 0
		) AS t ON d = t WHERE d IS NULL OR t IS NULL`
		check := func(after string) {
			t.Helper()
			if n := storetest.Value[int](t, s, differences); n != 0 {
				t.Fatalf("%d weeks are not the sum of their days after %s", n, after)
			}
			if n := storetest.Value[int](t, s, ofTotals); n != 0 {
				t.Fatalf("%d days are not the sum of all workspaces after %s", n, after)
			}
		}
		seen := 0
		for range 40 {
			day := time.Now().AddDate(0, 0, -r.IntN(30))
			switch r.IntN(5) {
			case 0:
				storetest.Exec(t, s, `DELETE FROM usage_days WHERE day < $1::date AND workspace_id = $2`, day, one(ids))
			case 1:
				storetest.Exec(t, s, `UPDATE usage_days SET owner_user_id = $1, work_micros = work_micros + $2 WHERE day >= $3::date`,
					one(owners), r.Int64N(1<<30), day)
			case 2:
				storetest.Exec(t, s, `UPDATE usage_days SET day = day - 1 WHERE phase = 'RUNNING' AND workspace_id = $1 AND NOT EXISTS (
					SELECT FROM usage_days d WHERE d.phase = 'RUNNING' AND d.workspace_id = $1 AND d.day = usage_days.day - 1)`, one(ids))
			default: // a span that ends: some of its days may exist already
				storetest.Exec(t, s, `INSERT INTO usage_days AS d SELECT $1, $2::date + n, $3, $4, $5::bigint, $6::numeric * $5::bigint, 1, 2, 3, 4
					FROM generate_series(0, $7::int) AS n ON CONFLICT (workspace_id, day, phase) DO UPDATE SET micros = d.micros + excluded.micros,
					byte_micros = d.byte_micros + excluded.byte_micros, owner_user_id = excluded.owner_user_id`,
					one(ids), day, one([]string{"RUNNING", "ARCHIVED"}), one(owners), r.Int64N(86400e6), r.Int64N(1<<40), r.IntN(10))
			}
			check("a statement")
			seen += storetest.Value[int](t, s, `SELECT count(*) FROM usage_weeks`)
		}
		if seen == 0 {
			t.Error("nothing was compared")
		}
		for _, age := range []time.Duration{Retention, 10 * 24 * time.Hour, 0} {
			if _, err := New(s.DB).Trim(t.Context(), age, 1<<20); err != nil {
				t.Fatal(err)
			}
			check("a trim")
			if n := storetest.Value[int](t, s, `SELECT count(*) - count(DISTINCT (day, phase)) FROM usage_totals`); n != 0 {
				t.Errorf("%d rows of the sums are left over", n)
			}
		}
	})
}
