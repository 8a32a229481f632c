package store

import (
	"slices"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/workspace"
)

// idle is a running workspace that was not used for an hour.
func idle(t *testing.T, s *Store, owner string) workspace.Workspace {
	return add(t, s, owner, `phase = 'RUNNING'`, `desired_state = 'RUNNING'`, `phase_changed_at = now() - interval '1 hour'`,
		`sleep_at = now() + interval '5 minutes'`, `endpoint = '10.0.0.1:80'`)
}

// kinds returns the kinds in the history, the newest first.
func kinds(t *testing.T, s *Store, id workspace.ID) (all []TransitionKind) {
	t.Helper()
	history, err := s.History(t.Context(), id, 10, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range history {
		all = append(all, h.Kind)
	}
	return all
}

// TestWhatDozes: only workspaces that have not changed since the decision doze.
func TestWhatDozes(t *testing.T) {
	s := open(t)
	for name, c := range map[string]struct {
		change string
		dozes  bool
	}{
		"idle":                {`memo = 'x'`, true},
		"used since":          {`last_access_at = now()`, false},
		"started since":       {`phase_changed_at = now()`, false},
		"kept awake":          {`keep_awake_until = now() + interval '1 hour'`, false},
		"was kept awake":      {`keep_awake_until = now() - interval '1 minute'`, true},
		"busy":                {`busy = '{"reason": "Job", "since": "2026-01-02T03:04:05Z"}'`, false},
		"an operation":        {`operation = 'STOPPING', op_started_at = now()`, false},
		"to sleep":            {`desired_state = 'STANDBY'`, false},
		"deleted":             {`desired_state = 'DELETED', deleted_at = now()`, false},
		"asleep":              {`phase = 'STANDBY'`, false},
		"dozes since earlier": {`doze_at = now() - interval '1 minute'`, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := idle(t, s, addUser(t, s))
			exec(t, s, `UPDATE workspaces SET `+c.change+` WHERE id = '`+string(w.ID)+`'`)
			before := read(t, s, w.ID)
			dozes, err := s.Doze(t.Context(), w.ID, time.Now().Add(-time.Minute), DozingLimits{})
			if err != nil || dozes != c.dozes {
				t.Fatalf("it dozes: %v, %v", dozes, err)
			}
			after := read(t, s, w.ID)
			if after.DozeAt.Equal(before.DozeAt) == c.dozes || (after.Revision != before.Revision) != c.dozes {
				t.Errorf("since %s, revision %d after %d", after.DozeAt, after.Revision, before.Revision)
			}
			if got := slices.Contains(kinds(t, s, w.ID), KindDozed); got != c.dozes {
				t.Errorf("the history tells of it: %v", got)
			}
		})
	}
}

// froze writes what the controller writes once it has observed the frozen container.
func froze(t *testing.T, s *Store, id workspace.ID) {
	t.Helper()
	exec(t, s, `UPDATE workspaces SET conditions = '{"infra.dozing": {"status": "True"}}' WHERE id = $1`, string(id))
}

// TestOnlyWhatIsFrozenGivesItsPlaceAway: a workspace that should doze keeps its place until it is frozen, which may
// never happen. A frozen workspace holds no place, not even while it is put to sleep. A use that is reported late takes
// no place: the workspace goes to sleep.
func TestOnlyWhatIsFrozenGivesItsPlaceAway(t *testing.T) {
	s := open(t)
	w := idle(t, s, addUser(t, s))
	counted := func(when string, want bool) {
		t.Helper()
		if got := value[bool](t, s, `SELECT counted FROM workspaces WHERE id = $1`, string(w.ID)); got != want {
			t.Errorf("%s it holds a place: %v", when, got)
		}
	}
	if dozes, err := s.Doze(t.Context(), w.ID, time.Now(), DozingLimits{}); err != nil || !dozes {
		t.Fatal(dozes, err)
	}
	counted("before it is frozen", true)
	before := read(t, s, w.ID).Revision
	froze(t, s, w.ID)
	counted("frozen", false)
	if read(t, s, w.ID).Revision == before {
		t.Error("nobody learns that it is frozen")
	}
	for _, change := range []struct {
		set     string
		counted bool
	}{
		{`desired_state = 'STANDBY'`, false},
		{`operation = 'STOPPING', op_started_at = now()`, false},
		{`desired_state = 'RUNNING'`, true}, // it is started again, or goes on
		{`operation = 'NONE', doze_at = now()`, true},
		{`doze_at = now()`, false},
		{`last_access_at = now()`, false},
		{`desired_state = 'RUNNING'`, true},
		{`last_access_at = now() + interval '1 second'`, true},
	} {
		exec(t, s, `UPDATE workspaces SET `+change.set+` WHERE id = '`+string(w.ID)+`'`)
		counted(change.set, change.counted)
	}
}

// TestDozesThatWereNotMade end once their time is over.
func TestDozesThatWereNotMade(t *testing.T) {
	s := open(t)
	owner := addUser(t, s)
	dozes := func(minutes int) workspace.ID {
		id := idle(t, s, owner).ID
		exec(t, s, `UPDATE workspaces SET doze_at = now() - make_interval(mins => $2) WHERE id = $1`, string(id), minutes)
		return id
	}
	frozen, refused, young := dozes(5), dozes(5), dozes(0)
	froze(t, s, frozen)
	ids, err := s.EndUnmadeDozes(t.Context(), time.Minute)
	if err != nil || !slices.Equal(ids, []workspace.ID{refused}) || !read(t, s, refused).DozeAt.IsZero() {
		t.Errorf("%v, %v; want %s", ids, err, refused)
	}
	for _, id := range []workspace.ID{frozen, young} {
		if read(t, s, id).DozeAt.IsZero() {
			t.Errorf("%s does not doze any more", id)
		}
	}
	if h, err := s.History(t.Context(), refused, 1, 0); err != nil || h[0].Kind != KindThawed || h[0].Message != unmadeWhy {
		t.Errorf("the history says %+v, %v", h, err)
	}
}

// TestDozingIsBounded per user and overall.
func TestDozingIsBounded(t *testing.T) {
	s := open(t)
	a, b := addUser(t, s), addUser(t, s)
	limits := DozingLimits{PerUser: 1, Global: 2}
	for i, c := range []struct {
		owner string
		dozes bool
	}{{a, true}, {a, false}, {b, true}, {addUser(t, s), false}} {
		w := idle(t, s, c.owner)
		if dozes, err := s.Doze(t.Context(), w.ID, time.Now(), limits); err != nil || dozes != c.dozes {
			t.Errorf("%d: it dozes: %v, %v", i, dozes, err)
		}
	}
}

// TestWhatEndsADoze: every change of the workspace except of its texts.
func TestWhatEndsADoze(t *testing.T) {
	s := open(t)
	for name, c := range map[string]struct {
		change string
		ends   bool
		thawed bool // in the history
	}{
		"a use":                {`last_access_at = now()`, true, true},
		"an older use":         {`last_access_at = now() - interval '5 minutes'`, true, true},
		"a wish":               {`keep_awake_until = now() + interval '1 hour'`, true, true},
		"sleep":                {`desired_state = 'STANDBY'`, true, false},
		"deletion":             {`desired_state = 'DELETED', deleted_at = now()`, true, false},
		"its end":              {`phase = 'STANDBY'`, true, false},
		"an operation":         {`operation = 'STOPPING', op_started_at = now()`, true, false},
		"another name":         {`name = 'other'`, false, false},
		"another announcement": {`sleep_at = now() + interval '1 hour'`, false, false},
		"an observation":       {`observed_at = now(), conditions = '{}'`, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := idle(t, s, addUser(t, s))
			if dozes, err := s.Doze(t.Context(), w.ID, time.Now(), DozingLimits{}); err != nil || !dozes {
				t.Fatal(dozes, err)
			}
			exec(t, s, `UPDATE workspaces SET `+c.change+` WHERE id = '`+string(w.ID)+`'`)
			if after := read(t, s, w.ID); after.DozeAt.IsZero() != c.ends {
				t.Errorf("since %s", after.DozeAt)
			}
			if got := slices.Contains(kinds(t, s, w.ID), KindThawed); got != c.thawed {
				t.Errorf("the history says that it was wanted again: %v", got)
			}
		})
	}
}

// TestAskingForOneThatDozes: requesting a dozing workspace ends the doze, counts as a use, and needs a running
// place.
func TestAskingForOneThatDozes(t *testing.T) {
	s := open(t)
	owner := addUser(t, s)
	w := idle(t, s, owner)
	if dozes, err := s.Doze(t.Context(), w.ID, time.Now(), DozingLimits{}); err != nil || !dozes {
		t.Fatal(dozes, err)
	}
	froze(t, s, w.ID)
	ask := func(limits Limits) (workspace.Workspace, Outcome) {
		t.Helper()
		ctx := audit.With(t.Context(), audit.Actor{Kind: "user", ID: owner})
		got, outcome, err := s.Update(ctx, Viewer{UserID: owner, Through: "gateway"}, w.ID, Edit{Desired: new(workspace.DesiredRunning)}, limits)
		if err != nil {
			t.Fatal(err)
		}
		return got, outcome
	}
	other := idle(t, s, owner)
	if _, outcome := ask(Limits{PerUser: 1}); outcome != UserLimit {
		t.Errorf("without a place: %s", outcome)
	}
	if after := read(t, s, w.ID); after.DozeAt.IsZero() {
		t.Error("it does not doze any more although there is no place")
	}
	got, outcome := ask(Limits{PerUser: 2})
	if outcome != Changed || !got.DozeAt.IsZero() || time.Since(got.LastAccessAt) > time.Minute || !got.SleepAt.IsZero() || got.Origin != nil {
		t.Errorf("%s: dozes since %s, used at %s, sleeps at %s, origin %v", outcome, got.DozeAt, got.LastAccessAt, got.SleepAt, got.Origin)
	}
	if all := kinds(t, s, w.ID); !slices.Equal(all, []TransitionKind{KindThawed, KindDozed, KindCreated}) {
		t.Errorf("the history is %v", all)
	}
	if _, outcome = ask(Limits{PerUser: 2}); outcome != Unchanged {
		t.Errorf("once more: %s", outcome)
	}
	if _, outcome = ask(Limits{PerUser: 1}); outcome != Unchanged {
		t.Errorf("of %s and %s: %s", w.ID, other.ID, outcome)
	}
}

// TestLongestDozing: the workspaces that have dozed longest come first; workspaces whose sleep would free no memory are
// left out. Workspaces on their way to STANDBY count as freeing memory, too, unless they wait for something.
func TestLongestDozing(t *testing.T) {
	s := open(t)
	owner := addUser(t, s)
	dozes := func(minutes int, more ...string) workspace.ID {
		w := idle(t, s, owner)
		exec(t, s, `UPDATE workspaces SET doze_at = now() - make_interval(mins => $2) WHERE id = $1`, string(w.ID), minutes)
		for _, change := range more {
			exec(t, s, `UPDATE workspaces SET `+change+` WHERE id = $1`, string(w.ID))
		}
		return w.ID
	}
	second, third, first := dozes(20), dozes(10), dozes(30)
	idle(t, s, owner)
	dozes(40, `last_access_at = now()`)
	dozes(50, `operation = 'STOPPING', op_started_at = now()`, `doze_at = now() - interval '50 minutes'`)
	sleepy := dozes(60, `desired_state = 'STANDBY'`, `doze_at = now() - interval '60 minutes'`)
	longest := func(limit int, want ...workspace.ID) {
		t.Helper()
		if got, err := s.LongestDozing(t.Context(), limit); err != nil || !slices.Equal(got, want) {
			t.Errorf("at most %d: %v, %v; want %v", limit, got, err, want)
		}
	}
	longest(9, first, second, third)
	longest(3, first, second)
	longest(1)
	longest(0)
	exec(t, s, `UPDATE workspaces SET waiting = '{"reason": "Paused"}' WHERE id = $1`, string(sleepy))
	longest(1, first)

	for _, c := range []struct {
		id    workspace.ID
		sleep bool
	}{{second, true}, {second, false}, {first, true}, {sleepy, false}, {idle(t, s, owner).ID, false}} {
		before := read(t, s, c.id)
		changed, err := s.SleepForMemory(t.Context(), c.id, "memory", "to free memory")
		if err != nil || changed != c.sleep {
			t.Errorf("it was put to sleep: %v, %v; want %v", changed, err, c.sleep)
		}
		if after := read(t, s, c.id); c.sleep && (after.DesiredState != workspace.DesiredStandby || !after.DozeAt.IsZero()) ||
			!c.sleep && after.Revision != before.Revision {
			t.Errorf("%s, dozing since %s", after.DesiredState, after.DozeAt)
		}
	}
	history, err := s.History(t.Context(), first, 1, 0)
	if err != nil || len(history) != 1 || history[0].Kind != KindDesiredState || history[0].New != "STANDBY" ||
		history[0].Cause != "memory" || history[0].Message != "to free memory" {
		t.Errorf("the history says %+v, %v", history, err)
	}
}

// TestAWriterSaysWhatItKnows of the schema.
func TestAWriterSaysWhatItKnows(t *testing.T) {
	s := open(t)
	if err := s.WriterFlushed(t.Context(), "node", 0, time.Minute); err != nil {
		t.Fatal(err)
	}
	exec(t, s, `SET codehub.schema = ''; INSERT INTO activity_writers (instance, node_id, flushed_at, due_at, has_session)
		VALUES (gen_random_uuid(), 'older', now(), now(), false)`)
	writers, err := s.Writers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range writers.All {
		if older := w.Node == "older"; older != (w.Knows < 18) {
			t.Errorf("%s knows %d", w.Node, w.Knows)
		}
	}
	if len(writers.All) != 2 {
		t.Errorf("%d writers, want 2", len(writers.All))
	}
}

// TestWhoEndsADoze: if a person's input ends a doze, last_input_at records the input. This is so whether the person
// requests the workspace or the use is written a moment later.
func TestWhoEndsADoze(t *testing.T) {
	s := open(t)
	for name, c := range map[string]struct{ asked, input, want bool }{
		"a person": {true, true, true}, "a program": {true, false, false}, "a person's use is written after": {false, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			owner := addUser(t, s)
			w := idle(t, s, owner)
			if dozes, err := s.Doze(t.Context(), w.ID, time.Now(), DozingLimits{}); err != nil || !dozes {
				t.Fatal(dozes, err)
			}
			running := workspace.DesiredRunning
			_, outcome, err := s.Update(t.Context(), Viewer{UserID: owner, Through: "gateway"}, w.ID,
				Edit{Desired: &running, Input: c.asked && c.input}, Limits{})
			if err != nil || outcome != Changed {
				t.Fatal(outcome, err)
			}
			if !c.asked {
				const age = 500 * time.Millisecond // a use of just before
				ages := map[workspace.ID]time.Duration{w.ID: age}
				if err := s.TouchLastAccess(t.Context(), ages, ages); err != nil {
					t.Fatal(err)
				}
			}
			if got := value[bool](t, s, `SELECT last_input_at > now() - interval '1 minute' IS TRUE FROM workspaces WHERE id = $1`, string(w.ID)); got != c.want {
				t.Errorf("it is known as a person's input: %v, want %v", got, c.want)
			}
		})
	}
}
