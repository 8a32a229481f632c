package usage

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/codehub/gateway/coordinator/seed"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/store/storetest"
	"github.com/codehub/gateway/coordinator/workspace"
)

// model is the naive sum: every microsecond belongs to its phase.
type model struct {
	from, to time.Time
	of       Of
}

func (m *model) span(phase workspace.Phase, bytes int64, since, until time.Time) {
	if since.Before(m.from) {
		since = m.from
	}
	if until.After(m.to) {
		until = m.to
	}
	if d := until.Sub(since); d > 0 {
		*m.of.Phases.of(phase) += d
		if phase != workspace.PhaseArchived {
			m.of.VolumeByteHours += float64(bytes) * d.Hours()
		}
	}
}

func create(t *testing.T, s *store.Store, owner string) workspace.ID {
	t.Helper()
	id := workspace.ID(uuid.NewString())
	_, _, err := s.Create(t.Context(), workspace.Workspace{
		ID: id, OwnerID: owner, Name: "notes", DesiredState: workspace.DesiredArchived,
		InstanceBackend: "docker", StorageBackend: "docker",
	}, "api", store.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// TestThePhasesAddUpToTheTimeOfExistence: a workspace changes at random times over several days. The report then
// matches a naive model.
func TestThePhasesAddUpToTheTimeOfExistence(t *testing.T) {
	seed.Each(t, func(t *testing.T, r *rand.Rand) {
		s := storetest.Open(t)
		u := New(s.DB)
		owner := storetest.AddUser(t, s)
		now := storetest.Value[time.Time](t, s, `SELECT now()`).UTC()
		to := now.Truncate(24*time.Hour).AddDate(0, 0, 1)
		m := model{from: to.AddDate(0, 0, -1-r.IntN(6)), to: to}
		id := create(t, s, owner)
		phases := []string{"PENDING", "STANDBY", "RUNNING", "ARCHIVED", "ERROR"}
		phase, bytes := "PENDING", int64(0)
		for range 12 {
			// The last span began some time ago.
			ago := time.Duration(r.Int64N(int64(50 * time.Hour))).Truncate(time.Microsecond)
			storetest.Exec(t, s, `UPDATE usage_spans SET since = since - $1::interval`, ago)
			since := storetest.Value[time.Time](t, s, `SELECT since FROM usage_spans`)
			next, size := phases[r.IntN(len(phases))], r.Int64N(1<<40)
			storetest.Set(t, s, id, `phase = '`+next+`', error_reason = NULL`)
			storetest.Exec(t, s, `UPDATE workspaces SET home_bytes = $1`, size)
			if next == "PENDING" || next == "ARCHIVED" { // no home; an archive whose size is not known
				size = 0
			}
			ended := storetest.Value[time.Time](t, s, `SELECT max(since) FROM usage_spans`)
			// Both changes end spans, and the second one begins within the first one's phase.
			m.span(workspace.Phase(phase), bytes, since, ended)
			phase, bytes = next, size
		}
		got, err := u.Report(t.Context(), m.from, m.to, "")
		if err != nil || len(got.Workspaces) != 1 {
			t.Fatalf("%v, %v", got, err)
		}
		of := got.Workspaces[0]
		// The statements of a step, and the report after the last one, run some milliseconds apart.
		const tolerance = 5 * time.Second
		for name, pair := range map[string][2]time.Duration{
			"awake": {of.Awake, m.of.Awake}, "asleep": {of.Asleep, m.of.Asleep},
			"archived": {of.Archived, m.of.Archived}, "other": {of.Other, m.of.Other},
		} {
			if (pair[0] - pair[1]).Abs() > tolerance {
				t.Errorf("%s is %s, want %s", name, pair[0], pair[1])
			}
		}
		if a, b := of.VolumeByteHours, m.of.VolumeByteHours; math.Abs(a-b) > float64(1<<40)*tolerance.Hours() {
			t.Errorf("%f byte-hours, want %f", a, b)
		}
	})
}

// TestSpansFollowWithoutAGap: to the microsecond, the phases add up to the age of the workspace.
func TestSpansFollowWithoutAGap(t *testing.T) {
	s := storetest.Open(t)
	id := create(t, s, storetest.AddUser(t, s))
	first := storetest.Value[time.Time](t, s, `SELECT since FROM usage_spans`)
	for _, phase := range []string{"STANDBY", "RUNNING", "STANDBY", "ARCHIVED", "RUNNING", "RUNNING", "DELETING"} {
		storetest.Set(t, s, id, `phase = '`+phase+`'`)
	}
	last := storetest.Value[time.Time](t, s, `SELECT since FROM usage_spans`)
	sum := storetest.Value[int64](t, s, `SELECT sum(micros)::bigint FROM usage_days`)
	if want := last.Sub(first).Microseconds(); sum != want {
		t.Errorf("the spans sum up to %d µs, want %d", sum, want)
	}
	storetest.Set(t, s, id, `phase = 'DELETED'`)
	if n := storetest.Value[int](t, s, `SELECT count(*) FROM usage_spans`); n != 0 {
		t.Error("a deleted workspace goes on counting")
	}
}

// awake is a naive computation of what kept a workspace awake, according to SPEC 14. Its times are the database's; a
// test shifts all of them into the past together.
type awake struct {
	running, busy bool
	known, wish   time.Time
	by            Causes
}

func (a *awake) until(t time.Time, of *time.Duration) {
	if t.After(a.known) {
		*of += t.Sub(a.known)
		a.known = t
	}
}

// nothing records that nothing was found until t.
func (a *awake) nothing(t time.Time) {
	if a.busy {
		a.until(t, &a.by.Work)
		return
	}
	if a.wish.Before(t) {
		a.until(a.wish, &a.by.KeepAwake)
	} else {
		a.until(t, &a.by.KeepAwake)
	}
	a.until(t, &a.by.Idle)
}

// found records a finding at t.
func (a *awake) found(t time.Time, of *time.Duration) {
	if a.busy || t.Sub(a.known) > 10*time.Minute {
		a.nothing(t)
	} else {
		a.until(t, of)
	}
}

// nearPause reports whether t is so close to the limit of a pause that it is uncertain whether a finding up to two
// minutes before t follows a pause.
func (a *awake) nearPause(t time.Time) bool {
	return slices.ContainsFunc([]time.Time{a.known, a.wish}, func(since time.Time) bool {
		return t.Sub(since) > 9*time.Minute && t.Sub(since) < 13*time.Minute
	})
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// TestTheCausesAddUpToTheTimeAwake: with uses, observations and wishes to stay awake at random times, the report
// matches the naive computation.
func TestTheCausesAddUpToTheTimeAwake(t *testing.T) {
	seed.Each(t, func(t *testing.T, r *rand.Rand) {
		s := storetest.Open(t)
		u := New(s.DB)
		id := create(t, s, storetest.AddUser(t, s))
		storetest.Exec(t, s, `UPDATE workspaces SET desired_state = 'RUNNING'`)
		var a awake
		for range 40 {
			passes := time.Duration(r.Int64N(int64(6 * time.Minute)))
			if r.IntN(4) == 0 {
				passes = time.Duration(r.Int64N(int64(30 * time.Hour)))
			}
			for a.nearPause(time.Now().Add(passes)) {
				passes += 15 * time.Minute
			}
			passes = passes.Truncate(time.Microsecond)
			// Triggers would treat it as a change.
			storetest.Exec(t, s, fmt.Sprintf(`SET session_replication_role = replica;
				UPDATE usage_spans SET since = since - interval '%[1]d microseconds';
				UPDATE workspaces SET awake_at = awake_at - interval '%[1]d microseconds',
					last_access_at = last_access_at - interval '%[1]d microseconds',
					last_input_at = last_input_at - interval '%[1]d microseconds',
					keep_awake_until = keep_awake_until - interval '%[1]d microseconds'`, passes.Microseconds()))
			a.known, a.wish = a.known.Add(-passes), a.wish.Add(-passes)
			now := storetest.Value[time.Time](t, s, `SELECT clock_timestamp()`)
			switch n := r.IntN(8); {
			case !a.running:
				storetest.Set(t, s, id, `phase = 'RUNNING'`)
				a.running, a.known = true, now
			case n == 0:
				storetest.Set(t, s, id, `phase = 'STANDBY'`)
				a.nothing(now)
				a.running, a.busy = false, false
			case n == 1:
				storetest.Set(t, s, id, `busy = CASE WHEN busy IS NULL THEN '{"reason": "TerminalJob"}'::jsonb END`)
				if !a.busy {
					a.nothing(earlier(now, a.wish))
				}
				a.found(now, &a.by.Work)
				a.busy = !a.busy
			case n == 2:
				wish := time.Duration(r.Int64N(int64(20 * time.Hour)))
				storetest.Exec(t, s, `UPDATE workspaces SET keep_awake_until = now() + $1::interval`, wish)
				if !a.busy {
					now = earlier(now, a.wish)
				}
				a.nothing(now)
				a.wish = storetest.Value[time.Time](t, s, `SELECT keep_awake_until FROM workspaces`)
			default:
				used := now.Add(-time.Duration(r.Int64N(int64(time.Minute))))
				input := used.Add(-time.Duration(r.Int64N(int64(time.Minute))))
				ages, inputs := map[workspace.ID]time.Duration{id: now.Sub(used)}, map[workspace.ID]time.Duration{}
				if !used.After(a.known.Add(2 * time.Minute)) {
					continue
				}
				if n > 4 {
					inputs[id] = now.Sub(input)
				}
				if err := s.TouchLastAccess(t.Context(), ages, inputs); err != nil {
					t.Fatal(err)
				}
				if n > 4 {
					a.found(input, &a.by.Input)
				}
				a.found(used, &a.by.Requests)
				a.busy = false
			}
		}
		got, err := u.Report(t.Context(), time.Now().AddDate(-1, 0, 0), time.Now().AddDate(0, 0, 2), "")
		if err != nil || len(got.Workspaces) != 1 {
			t.Fatalf("%v, %v", got, err)
		}
		if a.running {
			a.nothing(storetest.Value[time.Time](t, s, `SELECT clock_timestamp()`))
		}
		o, by := got.Workspaces[0], got.Workspaces[0].By
		if sum := by.Input + by.Requests + by.Work + by.KeepAwake + by.Idle; sum != o.Awake {
			t.Errorf("the causes add up to %s of %s", sum, o.Awake)
		}
		var days Phases
		for _, d := range got.Days {
			days.Awake, days.Other = days.Awake+d.Awake, days.Other+d.Other
			days.By.Input, days.By.Work, days.By.KeepAwake = days.By.Input+d.By.Input, days.By.Work+d.By.Work, days.By.KeepAwake+d.By.KeepAwake
		}
		const tolerance = 20 * time.Second // what passes between the statements of the steps
		for name, pair := range map[string][2]time.Duration{
			"input": {by.Input, a.by.Input}, "requests": {by.Requests, a.by.Requests}, "work": {by.Work, a.by.Work},
			"keep-awake": {by.KeepAwake, a.by.KeepAwake}, "idle": {by.Idle, a.by.Idle},
			"awake of the days": {days.Awake, o.Awake}, "other of the days": {days.Other, o.Other},
			"input of the days": {days.By.Input, by.Input}, "work of the days": {days.By.Work, by.Work},
			"keep-awake of the days": {days.By.KeepAwake, by.KeepAwake},
		} {
			if (pair[0] - pair[1]).Abs() > tolerance {
				t.Errorf("%s is %s, want %s", name, pair[0], pair[1])
			}
		}
	})
}

// TestWhatKeepsAwakeForDaysIsSplitByDay: work that began three days ago continues until the workspace
// is used now.
func TestWhatKeepsAwakeForDaysIsSplitByDay(t *testing.T) {
	s := storetest.Open(t)
	u := New(s.DB)
	id := create(t, s, storetest.AddUser(t, s))
	storetest.Set(t, s, id, `phase = 'RUNNING', desired_state = 'RUNNING'`)
	storetest.Set(t, s, id, `busy = '{"reason": "TerminalJob"}'`)
	storetest.Exec(t, s, `SET session_replication_role = replica; DELETE FROM usage_days; UPDATE usage_spans SET since = since - interval '3 days';
		UPDATE workspaces SET awake_at = awake_at - interval '3 days', awake_by = '{}'`)
	now := storetest.Value[time.Time](t, s, `SELECT now()`).UTC()
	report := func() (full int) {
		t.Helper()
		got, err := u.Report(t.Context(), now.AddDate(0, 0, -9), now.AddDate(0, 0, 1), "")
		if err != nil || len(got.Workspaces) != 1 || (got.Workspaces[0].By.Work-72*time.Hour).Abs() > time.Minute {
			t.Fatalf("%+v, %v", got, err)
		}
		for _, d := range got.Days {
			if (d.By.Work - d.Awake).Abs() > time.Minute {
				t.Errorf("on %s %s of %s are work", d.Day, d.By.Work, d.Awake)
			}
			if d.Awake == 24*time.Hour && d.By.Work == 24*time.Hour {
				full++
			}
		}
		return full
	}
	if full := report(); full != 2 && full != 3 { // three while it is midnight
		t.Errorf("%d full days while it goes on", full)
	}
	if err := s.TouchLastAccess(t.Context(), map[workspace.ID]time.Duration{id: 0}, nil); err != nil {
		t.Fatal(err)
	}
	if full := report(); full != 2 && full != 3 {
		t.Errorf("%d full days after it", full)
	}
	if n := storetest.Value[int](t, s, `SELECT count(*) FROM usage_days WHERE work_micros > 0`); n != 3 {
		t.Errorf("%d days are written, want those that are over", n)
	}
	storetest.Set(t, s, id, `phase = 'STANDBY'`)
	if full := report(); full != 2 && full != 3 {
		t.Errorf("%d full days when it sleeps", full)
	}
}

// TestReportsOfAUserReadAnIndex: the cost of a report about one user does not grow with the data of other users.
func TestReportsOfAUserReadAnIndex(t *testing.T) {
	s := storetest.Open(t)
	ann := storetest.AddUser(t, s)
	create(t, s, ann)
	storetest.Exec(t, s, `INSERT INTO usage_days SELECT gen_random_uuid(), now()::date - i % 400, 'RUNNING', gen_random_uuid(), 1, 1
		FROM generate_series(1, 30000) AS i`)
	storetest.Exec(t, s, `INSERT INTO usage_spans SELECT gen_random_uuid(), gen_random_uuid(), 'STANDBY', 1, now() - i * interval '1 minute'
		FROM generate_series(1, 30000) AS i`)
	storetest.Exec(t, s, `ANALYZE usage_days, usage_spans`)
	args := postgres.Args{"from": time.Now().AddDate(-1, 0, 0), "to": time.Now(), "user": ann}
	for name, sql := range map[string]string{"workspaces": reportSQL, "days": byDaySQL} {
		plan, err := postgres.Select(t.Context(), s.DB, "explaining", pgx.RowTo[string], `EXPLAIN `+owned(sql, ann), args)
		if text := strings.Join(plan, "\n"); err != nil || strings.Contains(text, "Seq Scan on usage") ||
			!strings.Contains(text, "usage_days_owner") || !strings.Contains(text, "usage_spans_owner") {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
}

func sumOther(days []Day) (sum time.Duration) {
	for _, d := range days {
		sum += d.Other
	}
	return sum
}

func TestReportIsOfAUserAndTrimmed(t *testing.T) {
	s := storetest.Open(t)
	u := New(s.DB)
	ann, bob := storetest.AddUser(t, s), storetest.AddUser(t, s)
	mine := create(t, s, ann)
	create(t, s, bob)
	storetest.Exec(t, s, `UPDATE usage_spans SET since = now() - interval '3 hours'`)
	now := storetest.Value[time.Time](t, s, `SELECT now()`).UTC()
	from, to := now.AddDate(0, 0, -2), now.AddDate(0, 0, 1)
	for _, user := range []string{ann, strings.ToUpper(storetest.Value[string](t, s, `SELECT username FROM users WHERE id = $1`, ann))} {
		got, err := u.Report(t.Context(), from, to, user)
		if err != nil || len(got.Workspaces) != 1 || got.Workspaces[0].WorkspaceID != mine || got.Workspaces[0].Name != "notes" ||
			got.Workspaces[0].Other.Round(time.Hour) != 3*time.Hour || sumOther(got.Days).Round(time.Hour) != 3*time.Hour {
			t.Errorf("ann's is %+v, %v", got, err)
		}
	}
	for _, c := range []struct {
		from, to   time.Time
		user       string
		workspaces int
		other      time.Duration
	}{{from, to, "", 2, 6 * time.Hour}, {from, from, "", 0, 0}, {from, to, "nobody", 0, 0}, {from, to, uuid.NewString(), 0, 0}} {
		if got, err := u.Report(t.Context(), c.from, c.to, c.user); err != nil || len(got.Workspaces) != c.workspaces ||
			sumOther(got.Days).Round(time.Hour) != c.other {
			t.Errorf("of %q: %+v, %v", c.user, got, err)
		}
	}
	storetest.Exec(t, s, `INSERT INTO usage_days SELECT $1, now()::date - i, 'RUNNING', $2, 1, 1 FROM generate_series(398, 403) AS i`,
		string(mine), ann)
	if n, err := u.Trim(t.Context(), Retention, 2); err != nil || n != 2 {
		t.Errorf("%d are deleted, %v", n, err)
	}
}
