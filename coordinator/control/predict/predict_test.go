package predict_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/control/predict"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/storetest"
	"github.com/codehub/gateway/coordinator/store/usage"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// harness is a database in whose time zone it is about noon, so that no test runs over midnight.
type harness struct {
	*predict.Predictor
	t       *testing.T
	store   *store.Store
	service *service.Service
	usage   *usage.Store
	zone    *time.Location
	owner   service.Actor
}

func newHarness(t *testing.T, l service.Limits) *harness {
	t.Helper()
	st := storetest.Open(t)
	now := storetest.Value[time.Time](t, st, `SELECT now()`)
	h := &harness{
		t: t, store: st, service: service.New(st, service.Options{Limits: l, Logger: zap.NewNop()}), usage: usage.New(st.DB),
		zone:  time.FixedZone("noon", 12*3600-int(now.Sub(now.Truncate(24*time.Hour)).Seconds())),
		owner: service.Actor{UserID: storetest.AddUser(t, st)},
	}
	h.Predictor = h.lead()
	return h
}

// lead returns the predictor of another process.
func (h *harness) lead() *predict.Predictor {
	p := predict.New(predict.Options{Store: h.store, Start: h.service.StartAhead, Usage: h.usage.Ahead, Log: zap.NewNop()})
	p.Apply(h.zone)
	return p
}

func (h *harness) tick(p *predict.Predictor) {
	h.t.Helper()
	if err := p.Tick(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
}

// create adds a workspace at rest, whose owner has come every day of the last four weeks so long from now.
func (h *harness) create(in time.Duration) workspace.ID {
	h.t.Helper()
	w, err := h.service.Create(h.t.Context(), h.owner, service.CreateInput{Name: "w", DesiredState: workspace.DesiredStandby})
	if err != nil {
		h.t.Fatal(err)
	}
	storetest.Set(h.t, h.store, w.ID, `phase = 'STANDBY'`)
	storetest.Exec(h.t, h.store, `INSERT INTO arrivals (workspace_id, at)
		SELECT $1::uuid, now() + $2::interval - make_interval(days => n) FROM generate_series(1, 28) AS n`, string(w.ID), in)
	return w.ID
}

func (h *harness) row(id workspace.ID) workspace.Workspace { return storetest.Row(h.t, h.store, id) }

// ahead is what became of all starts.
func (h *harness) ahead() usage.Ahead {
	h.t.Helper()
	a, err := h.usage.Ahead(h.t.Context(), time.Now().AddDate(0, 0, -3), time.Now().AddDate(0, 0, 3), h.owner.UserID)
	if err != nil {
		h.t.Fatal(err)
	}
	return a
}

// none are no limits.
var none service.Limits

// soon is a time within the lead.
const soon = 3 * time.Minute

func TestAWorkspaceIsStartedAheadOnce(t *testing.T) {
	h := newHarness(t, none)
	id := h.create(soon)
	h.tick(h.Predictor)
	w := h.row(id)
	now := storetest.Value[time.Time](t, h.store, `SELECT now()`)
	if left := w.AheadUntil.Sub(now); w.DesiredState != workspace.DesiredRunning || left < time.Minute || left > soon {
		t.Fatalf("desired %s, expected in %s", w.DesiredState, left)
	}
	history, err := h.service.History(t.Context(), h.owner, id, 1, 0)
	if err != nil || history[0].Cause != "prediction" || !strings.Contains(history[0].Message, "on 28 of the last 28 such days") {
		t.Errorf("the history says %+v, %v", history, err)
	}
	storetest.Set(t, h.store, id, `phase = 'RUNNING'`)
	if err := h.service.SetDesired(t.Context(), h.owner, id, workspace.DesiredStandby); err != nil {
		t.Fatal(err)
	}
	storetest.Set(t, h.store, id, `phase = 'STANDBY'`)
	h.tick(h.Predictor)
	h.tick(h.lead()) // another process leads since
	if w := h.row(id); w.DesiredState != workspace.DesiredStandby || !w.AheadUntil.IsZero() {
		t.Errorf("it is started again: desired %s, expected until %s", w.DesiredState, w.AheadUntil)
	}
	if a := h.ahead(); a.Started != 1 || a.Opened != 0 || a.Waiting != 0 {
		t.Errorf("%+v", a)
	}
}

// TestWhoIsStartedAhead: each row changes a workspace that would be, or the limits.
func TestWhoIsStartedAhead(t *testing.T) {
	for name, c := range map[string]struct {
		in     time.Duration
		limits service.Limits
		change string // columns
		more   func(h *harness, id workspace.ID)
		want   bool
	}{
		"one that sleeps":      {in: soon, want: true},
		"one that is archived": {in: soon, change: `phase = 'ARCHIVED', desired_state = 'ARCHIVED'`, want: true},
		"not yet":              {in: 8 * time.Minute},
		"too late":             {in: -time.Minute},
		"its owner forbids it": {in: soon, more: func(h *harness, id workspace.ID) {
			if _, err := h.service.Update(h.t.Context(), h.owner, id, service.Patch{StartAhead: new(false)}); err != nil {
				h.t.Fatal(err)
			}
		}},
		"its owner forbids it on that day": {in: soon, change: `operation = 'STARTING', op_started_at = now()`, more: func(h *harness, id workspace.ID) {
			h.tick(h.Predictor)
			storetest.Set(h.t, h.store, id, `operation = 'NONE', op_started_at = NULL, start_ahead = false`)
		}},
		"an operation that has ended": {in: soon, change: `operation = 'STARTING', op_started_at = now()`, more: func(h *harness, id workspace.ID) {
			h.tick(h.Predictor)
			storetest.Set(h.t, h.store, id, `operation = 'NONE', op_started_at = NULL`)
		}, want: true},
		"its owner came early": {in: soon, more: func(h *harness, id workspace.ID) {
			storetest.Exec(h.t, h.store, `INSERT INTO arrivals VALUES ($1, now() - interval '1 hour')`, string(id))
		}},
		"it runs":                   {in: soon, change: `phase = 'RUNNING', desired_state = 'RUNNING'`},
		"an operation":              {in: soon, change: `operation = 'STARTING', op_started_at = now()`},
		"it is to be archived":      {in: soon, change: `desired_state = 'ARCHIVED'`},
		"an error":                  {in: soon, change: `phase = 'ERROR', error_reason = 'DataLost'`},
		"it is deleted":             {in: soon, change: `deleted_at = now(), desired_state = 'DELETED'`},
		"its owner may not sign in": {in: soon, more: func(h *harness, _ workspace.ID) { storetest.Exec(h.t, h.store, `UPDATE users SET disabled_at = now()`) }},
		"a place for its owner":     {in: soon, limits: service.Limits{PerUser: 2, Global: 2}, want: true},
		"the owner's last place":    {in: soon, limits: service.Limits{PerUser: 1, Global: 100}},
		"the owner's last of two": {in: soon, limits: service.Limits{PerUser: 2, Global: 100}, more: func(h *harness, _ workspace.ID) {
			storetest.Set(h.t, h.store, h.create(0), `phase = 'RUNNING', desired_state = 'RUNNING'`)
		}},
		"the last place of all": {in: soon, limits: service.Limits{PerUser: 100, Global: 1}},
		"the last tenth of all": {in: soon, limits: service.Limits{PerUser: 100, Global: 20}, more: func(h *harness, _ workspace.ID) {
			for range 18 {
				storetest.Set(h.t, h.store, h.create(0), `phase = 'RUNNING', desired_state = 'RUNNING'`)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, c.limits)
			id := h.create(c.in)
			if c.change != "" {
				storetest.Set(t, h.store, id, c.change)
			}
			if c.more != nil {
				c.more(h, id)
			}
			h.tick(h.Predictor)
			if got := !h.row(id).AheadUntil.IsZero(); got != c.want || (h.ahead().Started == 1) != c.want {
				t.Errorf("started ahead: %v, want %v; %+v", got, c.want, h.ahead())
			}
		})
	}
}

// TestWhatBecomesOfAStart: it counts as opened when a person comes, and by nothing else.
func TestWhatBecomesOfAStart(t *testing.T) {
	for name, c := range map[string]struct {
		then func(h *harness, id workspace.ID)
		want usage.Ahead // without Awake
	}{
		"nobody yet": {func(*harness, workspace.ID) {}, usage.Ahead{Started: 1, Waiting: 1}},
		"a person":   {func(h *harness, id workspace.ID) { h.use(id, true) }, usage.Ahead{Started: 1, Opened: 1}},
		"a program":  {func(h *harness, id workspace.ID) { h.use(id, false) }, usage.Ahead{Started: 1, Waiting: 1}},
		"it sleeps":  {func(h *harness, id workspace.ID) { storetest.Set(h.t, h.store, id, `desired_state = 'STANDBY'`) }, usage.Ahead{Started: 1}},
		"it fails":   {func(h *harness, id workspace.ID) { storetest.Set(h.t, h.store, id, `phase = 'ERROR'`) }, usage.Ahead{Started: 1}},
		"its deletion": {func(h *harness, id workspace.ID) {
			if err := h.service.Delete(h.t.Context(), h.owner, id, false); err != nil {
				h.t.Fatal(err)
			}
		}, usage.Ahead{Started: 1}},
		"a person, and then it sleeps": {func(h *harness, id workspace.ID) {
			h.use(id, true)
			storetest.Set(h.t, h.store, id, `desired_state = 'STANDBY'`)
		}, usage.Ahead{Started: 1, Opened: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, none)
			id := h.create(soon)
			h.tick(h.Predictor)
			storetest.Set(t, h.store, id, `phase = 'RUNNING'`)
			storetest.Exec(t, h.store, `UPDATE predictions SET at = at - interval '2 hours'`)
			before := h.row(id).Revision
			c.then(h, id)
			got := h.ahead()
			if (got.Awake - 2*time.Hour).Abs() > time.Minute {
				t.Errorf("awake for %s", got.Awake)
			}
			got.Awake = 0
			if w := h.row(id); got != c.want || w.AheadUntil.IsZero() == (got.Waiting == 1) || (w.Revision > before) == (got.Waiting == 1) {
				t.Errorf("%+v, want %+v; expected until %s; revision %d after %d", got, c.want, w.AheadUntil, w.Revision, before)
			}
			h.tick(h.Predictor)
			if sums := h.Sums(); sums == nil || sums.Opened != c.want.Opened || sums.Waiting != c.want.Waiting || sums.Started != 1 {
				t.Errorf("the metrics tell %+v", sums)
			}
		})
	}
}

// use is what the TTL runner writes of a use.
func (h *harness) use(id workspace.ID, byPerson bool) {
	h.t.Helper()
	used, input := map[workspace.ID]time.Duration{id: 0}, map[workspace.ID]time.Duration{}
	if byPerson {
		input[id] = 0
	}
	if err := h.store.TouchLastAccess(h.t.Context(), used, input); err != nil {
		h.t.Fatal(err)
	}
}

// TestAStartThatFailsHasNotBeenMade: whatever interrupts the statement, the next look makes the start.
func TestAStartThatFailsHasNotBeenMade(t *testing.T) {
	h := newHarness(t, none)
	id := h.create(soon)
	storetest.Exec(t, h.store, `CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''killed''; END'`)
	storetest.Exec(t, h.store, `CREATE TRIGGER killed AFTER UPDATE ON workspaces FOR EACH ROW WHEN (NEW.ahead_until IS NOT NULL) EXECUTE FUNCTION fail()`)
	if err := h.Tick(t.Context()); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("the look ends with %v", err)
	}
	if a := h.ahead(); a.Started != 0 {
		t.Fatalf("%+v", a)
	}
	storetest.Exec(t, h.store, `DROP TRIGGER killed ON workspaces`)
	h.tick(h.Predictor)
	if a := h.ahead(); a.Started != 1 || h.row(id).AheadUntil.IsZero() {
		t.Errorf("%+v", a)
	}
}

// TestComingIsTheFirstUseByAPersonAfterAPause of four hours.
func TestComingIsTheFirstUseByAPersonAfterAPause(t *testing.T) {
	h := newHarness(t, none)
	id := h.create(0)
	storetest.Exec(t, h.store, `DELETE FROM arrivals`)
	for _, step := range []struct {
		last     string // of the person, before
		byPerson bool
		want     int
	}{{"NULL", false, 0}, {"NULL", true, 1}, {"now() - interval '3 hours'", true, 0}, {"now() - interval '5 hours'", false, 0}, {"now() - interval '5 hours'", true, 1}} {
		storetest.Set(t, h.store, id, `last_access_at = NULL, last_input_at = `+step.last)
		storetest.Exec(t, h.store, `DELETE FROM arrivals`)
		h.use(id, step.byPerson)
		if n := storetest.Value[int](t, h.store, `SELECT count(*) FROM arrivals WHERE at > now() - interval '1 minute'`); n != step.want {
			t.Errorf("%+v: %d", step, n)
		}
	}
}

func TestOffDoesNothing(t *testing.T) {
	p := predict.New(predict.Options{Log: zap.NewNop()}) // any query would be a panic
	for range 2 {
		if err := p.Tick(t.Context()); err != nil || p.Sums() != nil {
			t.Fatal(err)
		}
		p.Apply(nil)
	}
	h := newHarness(t, none)
	id := h.create(soon)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	h.Apply(nil)
	go func() { ended <- h.Run(ctx) }()
	h.Apply(h.zone) // at a reload
	wait.Until(t, "it is started", func() bool { return !h.row(id).AheadUntil.IsZero() && h.Sums() != nil })
	h.Apply(nil)
	wait.Until(t, "it is off", func() bool { return h.Sums() == nil })
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestZone(t *testing.T) {
	for setting, good := range map[string]bool{"Asia/Seoul": true, "UTC": true, "off": true, "": false, "Local": false, "on": false, "Seoul": false} {
		zone, err := predict.Zone(setting)
		if (err == nil) != good || (zone == nil) != (!good || setting == "off") {
			t.Errorf("%q: %v, %v", setting, zone, err)
		}
	}
}

func TestWhatIsTooOldIsDeleted(t *testing.T) {
	h := newHarness(t, none)
	storetest.Exec(t, h.store, `INSERT INTO arrivals SELECT gen_random_uuid(), now() - make_interval(days => n) FROM generate_series(1, 40) AS n`)
	storetest.Exec(t, h.store, `INSERT INTO predictions SELECT gen_random_uuid(), now()::date - n, gen_random_uuid() FROM generate_series(391, 410) AS n`)
	for _, c := range []struct {
		trim  func(context.Context, time.Duration, int) (int64, error)
		after time.Duration
		want  []int64
	}{{h.store.TrimArrivals, predict.Kept, []int64{7, 4, 0}}, {h.usage.TrimAhead, usage.Retention, []int64{7, 4, 0}}} {
		for _, want := range c.want {
			if n, err := c.trim(t.Context(), c.after, 7); n != want || err != nil {
				t.Errorf("%d deleted, want %d; %v", n, want, err)
			}
		}
	}
}

// TestAnOwnersStarts are told by the owner's name and id, and by the days.
func TestAnOwnersStarts(t *testing.T) {
	h := newHarness(t, none)
	storetest.Exec(t, h.store, `INSERT INTO predictions (workspace_id, day, owner_user_id)
		SELECT gen_random_uuid(), day::date, owner FROM unnest(ARRAY['2026-01-01', '2026-01-02', '2026-01-03']) AS day, unnest(ARRAY[$1::uuid, gen_random_uuid()]) AS owner`, h.owner.UserID)
	name := storetest.Value[string](t, h.store, `SELECT username FROM users`)
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for user, want := range map[string]int{"": 4, name: 2, h.owner.UserID: 2, "nobody": 0} {
		if a, err := h.usage.Ahead(t.Context(), from, from.AddDate(0, 0, 2), user); a.Started != want || a.Waiting != want || err != nil {
			t.Errorf("%q: %+v, want %d; %v", user, a, want, err)
		}
	}
}
