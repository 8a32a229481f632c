package ttl_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/control/ttl"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/internal/work"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/store/storetest"
	"github.com/codehub/gateway/coordinator/workspace"
)

// watched simulates the activity in workspaces, and records the looks.
type watched struct {
	mu    sync.Mutex              // guards the following while the runner asks
	files map[workspace.ID]string // workspaces with a recent busy file
	err   error
	asked map[workspace.ID]int
	clock time.Time
	takes time.Duration // one look, by the clock
}

func (w *watched) Look(_ context.Context, id workspace.ID) (work.Sample, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked[id]++
	w.clock = w.clock.Add(w.takes)
	if w.err != nil {
		return work.Sample{}, w.err
	}
	s := work.Sample{At: w.clock, Container: "c"}
	if line, ok := w.files[id]; ok {
		s.File = &work.File{Line: line}
	}
	return s, nil
}

// watching returns a harness whose runner looks into workspaces, and whose clock advances by a minute per tick.
func watching(t *testing.T) (*harness, *watched) {
	h := newHarness(t)
	w := &watched{files: map[workspace.ID]string{}, asked: map[workspace.ID]int{}, clock: time.Now()}
	s := atOnce()
	h.Runner = h.with(ttl.Options{Looker: w}, s)
	h.SetClock(func() time.Time {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.clock
	})
	return h, w
}

// next is a tick a minute later.
func (h *harness) next(w *watched) {
	h.t.Helper()
	w.clock = w.clock.Add(time.Minute)
	h.tick()
}

func unused(h *harness) workspace.ID {
	return h.insert(row{phase: workspace.PhaseRunning, accessed: time.Hour, changed: time.Hour})
}

func TestAWorkspaceInWhichSomethingGoesOnStaysAwake(t *testing.T) {
	h, w := watching(t)
	builds, idle := unused(h), unused(h)
	used := h.insert(row{phase: workspace.PhaseRunning, accessed: time.Second, changed: time.Hour})
	w.files[builds] = "nightly build"
	h.next(w)
	h.wants(idle, workspace.DesiredRunning) // one look is not enough
	h.next(w)
	h.wants(idle, workspace.DesiredStandby)
	h.wants(builds, workspace.DesiredRunning)
	if b := storetest.Row(t, h.store, builds).Busy; b == nil || b.Reason != workspace.BusyFile || b.Detail != "nightly build" || b.Since.IsZero() {
		t.Errorf("busy: %+v", b)
	}
	if w.asked[builds] != 2 || w.asked[idle] != 2 || w.asked[used] != 0 {
		t.Errorf("asked %v, want one question per candidate and tick", w.asked)
	}
	since := storetest.Row(t, h.store, builds).Busy.Since
	revision := storetest.Row(t, h.store, builds).Revision
	h.next(w)
	if r := storetest.Row(t, h.store, builds); !r.Busy.Since.Equal(since) || r.Revision != revision {
		t.Errorf("nothing has changed, and the row has: %+v", r)
	}
	delete(w.files, builds)
	h.next(w)
	h.wants(builds, workspace.DesiredRunning)
	if r := storetest.Row(t, h.store, builds); r.Busy != nil || time.Until(r.SleepAt) < atOnce().Standby-time.Minute {
		t.Errorf("its work has ended, and it is busy %+v, to sleep at %s", r.Busy, r.SleepAt)
	}
	storetest.Set(t, h.store, builds, "sleep_at = now() - interval '1 second'")
	h.next(w)
	h.wants(builds, workspace.DesiredStandby)
	if r := storetest.Row(t, h.store, builds); r.Busy != nil || !r.SleepAt.IsZero() {
		t.Errorf("asleep, and busy %+v, to sleep at %s", r.Busy, r.SleepAt)
	}
}

// One tick has time for less than two pages.
func TestManyBusyWorkspacesDoNotKeepTheOthersFromBeingLookedAt(t *testing.T) {
	h, w := watching(t)
	const pages, page = 3, 1000
	rows, err := storetest.Pool(t, h.store).Query(t.Context(), `
		INSERT INTO workspaces (owner_user_id, name, instance_backend, storage_backend, home_store_key, phase, desired_state, last_access_at, phase_changed_at)
		SELECT $1, 'w', 'docker', 'docker', 'k', 'RUNNING', 'RUNNING', now() - interval '3 hours', now() - interval '3 hours' FROM generate_series(1, $2)
		RETURNING id::text`, h.owner, pages*page)
	if err != nil {
		t.Fatal(err)
	}
	busy, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range busy {
		w.files[workspace.ID(id)] = "nightly build"
	}
	idle := unused(h) // it comes last
	w.takes = 16 * time.Second / page
	for range 4 * pages {
		h.next(w)
		if storetest.Row(t, h.store, idle).DesiredState == workspace.DesiredStandby {
			return
		}
	}
	t.Errorf("the last one is awake and was looked at %d times, the first one %d times", w.asked[idle], w.asked[workspace.ID(busy[0])])
}

func TestAnEngineThatDoesNotAnswerKeepsEverythingAwake(t *testing.T) {
	h, w := watching(t)
	id := unused(h)
	w.err = errors.New("connection refused")
	for range 3 {
		h.next(w)
		h.wants(id, workspace.DesiredRunning)
	}
	if b := storetest.Row(t, h.store, id).Busy; b == nil || b.Reason != workspace.BusyNoAnswer {
		t.Errorf("busy: %+v", b)
	}
	w.err = backend.ErrNotFound // its container has just ended
	h.next(w)
	h.wants(id, workspace.DesiredRunning)
	w.err = nil
	h.next(w)
	h.wants(id, workspace.DesiredRunning)
	h.next(w)
	h.wants(id, workspace.DesiredStandby)
}

func TestTheCapEndsAllWorkAndSaysSo(t *testing.T) {
	h, w := watching(t)
	id := h.insert(row{phase: workspace.PhaseRunning, accessed: 13 * time.Hour, changed: 13 * time.Hour})
	w.files[id] = "for ever"
	h.next(w)
	h.wants(id, workspace.DesiredStandby)
	history, err := h.store.History(t.Context(), id, 1, 0)
	if err != nil || len(history) != 1 || !strings.Contains(history[0].Message, workspace.BusyFile) || history[0].Cause != "ttl" {
		t.Errorf("history: %+v, %v", history, err)
	}
}

func TestSleepIsAnnouncedAndAUseEndsThat(t *testing.T) {
	h, w := watching(t)
	s := ttl.DefaultSettings()
	h.Set(s)
	id := unused(h)
	h.next(w)
	h.next(w)
	r := storetest.Row(t, h.store, id)
	if in := time.Until(r.SleepAt); in < 50*time.Second || in > 61*time.Second || r.DesiredState != workspace.DesiredRunning {
		t.Fatalf("to sleep in %s, %s; want to hear a minute before", in, r.DesiredState)
	}
	h.next(w) // the database's clock has hardly moved
	h.wants(id, workspace.DesiredRunning)
	h.used(id, 0)
	h.next(w)
	if r := storetest.Row(t, h.store, id); !r.SleepAt.IsZero() {
		t.Errorf("used, and to sleep at %s", r.SleepAt)
	}
}

func TestAWorkspaceThatIsKeptAwakeIsNotAskedAndDoesNotSleep(t *testing.T) {
	h, w := watching(t)
	id := unused(h)
	svc := service.New(h.store, service.Options{})
	a := service.Actor{UserID: h.owner}
	if _, err := svc.KeepAwake(t.Context(), a, id, time.Hour); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		h.next(w)
		h.wants(id, workspace.DesiredRunning)
	}
	if w.asked[id] != 0 {
		t.Errorf("asked %d times", w.asked[id])
	}
	if _, err := svc.KeepAwake(t.Context(), a, id, 0); err != nil {
		t.Fatal(err)
	}
	h.next(w)
	h.next(w)
	h.wants(id, workspace.DesiredStandby)
	if r := storetest.Row(t, h.store, id); !r.KeepAwakeUntil.IsZero() {
		t.Errorf("asleep, and kept awake until %s", r.KeepAwakeUntil)
	}
}

// A process writes its activity every 30 seconds. So a use in the last half minute of the TTL may not be in the
// database yet when the TTL has passed.
func TestAUseThatIsStillInAProcessCounts(t *testing.T) {
	h := newHarness(t)
	s := atOnce()
	s.Standby = 10 * time.Minute
	h.Runner = h.with(ttl.Options{}, s)
	g := h.gateway("one", h.redis)
	g.flush()
	h.Runner = h.with(ttl.Options{Store: &known{Store: h.store}}, s)
	h.tick()
	id := h.insert(row{phase: workspace.PhaseRunning, accessed: 10*time.Minute + 5*time.Second, changed: time.Hour})
	before := h.insert(row{phase: workspace.PhaseRunning, accessed: 11 * time.Minute, changed: time.Hour})
	g.Record(id)
	storetest.Exec(t, h.store, `UPDATE activity_writers SET flushed_at = now() - interval '20 seconds'`)
	h.tick()
	h.wants(before, workspace.DesiredStandby)
	h.wants(id, workspace.DesiredRunning)
	g.flush()
	h.tick()
	h.wants(id, workspace.DesiredRunning)
	if d := h.idle(id); d > time.Minute {
		t.Errorf("it was used %s ago, according to the database", d)
	}
}

// known is a store that the runner appears to have read first long ago, so that it waits for no process.
type known struct {
	ttl.Store
	read bool
}

func (k *known) Writers(ctx context.Context) (postgres.Writers, error) {
	w, err := k.Store.Writers(ctx)
	if !k.read {
		k.read = true
		w.Now = w.Now.Add(-time.Hour)
	}
	return w, err
}

func TestADeposedLeaderAnnouncesNothing(t *testing.T) {
	h, w := watching(t)
	h.Set(ttl.DefaultSettings())
	id := unused(h)
	storetest.Exec(t, h.store, `UPDATE system_locks SET epoch = epoch + 1`)
	h.next(w)
	h.next(w)
	if r := storetest.Row(t, h.store, id); !r.SleepAt.IsZero() {
		t.Errorf("announced for %s", r.SleepAt)
	}
}

// TestAnIdleWorkspaceDozesBeforeItSleeps, and is not looked at while it does.
func TestAnIdleWorkspaceDozesBeforeItSleeps(t *testing.T) {
	h, w := watching(t)
	idle := h.insert(row{phase: workspace.PhaseRunning, accessed: 6 * time.Minute, changed: time.Hour})
	builds := h.insert(row{phase: workspace.PhaseRunning, accessed: 6 * time.Minute, changed: time.Hour})
	used := h.insert(row{phase: workspace.PhaseRunning, accessed: 2 * time.Minute, changed: time.Hour})
	w.files[builds] = "nightly build"
	h.next(w)
	if r := storetest.Row(t, h.store, idle); !r.DozeAt.IsZero() {
		t.Error("it dozes after one look, which tells nothing")
	}
	h.next(w)
	for id, dozes := range map[workspace.ID]bool{idle: true, builds: false, used: false} {
		if r := storetest.Row(t, h.store, id); r.DozeAt.IsZero() == dozes {
			t.Errorf("%s dozes since %s; want %v", id, r.DozeAt, dozes)
		}
		h.wants(id, workspace.DesiredRunning)
	}
	asked := w.asked[idle]
	h.next(w)
	if w.asked[idle] != asked {
		t.Error("what goes on in a frozen container is asked")
	}
	paused := h.insert(row{phase: workspace.PhaseRunning, accessed: 6 * time.Minute, changed: time.Hour})
	w.err = fmt.Errorf("container ws: %w", backend.ErrFrozen) // as if a person had paused it
	h.next(w)
	if r := storetest.Row(t, h.store, paused); r.Busy != nil {
		t.Errorf("what is paused is busy: %+v", r.Busy)
	}
	s := atOnce()
	s.Standby, s.Doze = 5*time.Minute+30*time.Second, 5*time.Minute
	h.Set(s)
	storetest.Set(t, h.store, idle, "sleep_at = now()")
	h.next(w)
	h.wants(idle, workspace.DesiredStandby)
	if r := storetest.Row(t, h.store, idle); !r.DozeAt.IsZero() {
		t.Error("it is to sleep, and still dozes")
	}
}

// TestAsManyDozeAsMay: if the limit of dozing workspaces is reached, a further workspace stays awake. The runner does
// not try again to let it doze before a place may be free.
func TestAsManyDozeAsMay(t *testing.T) {
	h, w := watching(t)
	limited := service.New(h.store, service.Options{Logger: zap.NewNop()})
	limited.SetLimits(service.DefaultLimits())
	h.Expirer = limited
	var ids []workspace.ID
	for range service.DefaultMaxDozingPerUser + 1 {
		ids = append(ids, h.insert(row{phase: workspace.PhaseRunning, accessed: 6 * time.Minute, changed: time.Hour}))
	}
	dozing := func() (dozes []workspace.ID) {
		for _, id := range ids {
			if r := storetest.Row(t, h.store, id); !r.DozeAt.IsZero() {
				dozes = append(dozes, id)
			}
		}
		return dozes
	}
	h.next(w)
	h.next(w)
	dozes := dozing()
	if len(dozes) != service.DefaultMaxDozingPerUser {
		t.Fatalf("%d doze", len(dozes))
	}
	left := ids[slices.IndexFunc(ids, func(id workspace.ID) bool { return !slices.Contains(dozes, id) })]
	storetest.Set(t, h.store, dozes[0], "doze_at = NULL, last_access_at = now()")
	asked := w.asked[left]
	for range 4 {
		h.next(w)
	}
	if len(dozing()) != len(dozes)-1 || w.asked[left] != asked {
		t.Errorf("%d doze, and the other one was asked %d times", len(dozing()), w.asked[left]-asked)
	}
	h.next(w)
	h.next(w)
	if r := storetest.Row(t, h.store, left); r.DozeAt.IsZero() {
		t.Error("it does not doze, although there is a place")
	}
}

// TestADozeThatCannotBeMadeEnds, and is not tried again before the workspace was used. A successful doze
// continues.
func TestADozeThatCannotBeMadeEnds(t *testing.T) {
	h, w := watching(t)
	idle := func() workspace.ID {
		return h.insert(row{phase: workspace.PhaseRunning, accessed: 6 * time.Minute, changed: time.Hour})
	}
	refused, made := idle(), idle()
	storetest.Set(t, h.store, made, `conditions = '{"infra.dozing": {"status": "True"}}'`)
	dozes := func(when string, id workspace.ID, want bool) {
		t.Helper()
		if r := storetest.Row(t, h.store, id); r.DozeAt.IsZero() == want {
			t.Errorf("%s: it dozes since %s", when, r.DozeAt)
		}
	}
	h.next(w)
	h.next(w)
	h.next(w)
	dozes("while it may still be frozen", refused, true)
	storetest.Exec(t, h.store, `UPDATE workspaces SET doze_at = doze_at - interval '31 seconds'`)
	for range 3 {
		h.next(w)
		dozes("after its time", refused, false)
		dozes("frozen", made, true)
	}
	history, err := h.store.History(t.Context(), refused, 1, 0)
	if err != nil || len(history) != 1 || history[0].Kind != store.KindThawed || history[0].Message == "" {
		t.Errorf("the history says %+v, %v", history, err)
	}
	storetest.Set(t, h.store, refused, "last_access_at = now()")
	h.next(w)
	storetest.Exec(t, h.store, `UPDATE workspaces SET last_access_at = now() - interval '6 minutes'`)
	h.next(w)
	h.next(w)
	dozes("once it was used again", refused, true)
}

// TestNothingDozesBesideAnOlderProcess, which would not wake dozing workspaces.
func TestNothingDozesBesideAnOlderProcess(t *testing.T) {
	h, w := watching(t)
	idle := h.insert(row{phase: workspace.PhaseRunning, accessed: 6 * time.Minute, changed: time.Hour})
	for i, knows := range []int{17, 17, 17, 18, 18, 17} {
		if err := h.store.WriterFlushed(t.Context(), "node", 0, time.Minute); err != nil {
			t.Fatal(err)
		}
		storetest.Exec(t, h.store, `UPDATE activity_writers SET knows = $1`, knows)
		h.next(w)
		if r := storetest.Row(t, h.store, idle); r.DozeAt.IsZero() != (i != 4) { // two looks, once they know
			t.Errorf("tick %d, beside a process that knows %d: it dozes since %s", i, knows, r.DozeAt)
		}
	}
}
