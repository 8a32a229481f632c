package activator

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/dataplane/route"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/metrics"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/storetest"
	"github.com/codehub/gateway/coordinator/tracing"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// TestGivesWayToALaterRequest: a wake-up tells the service layer how long ago it was requested. If a user has requested
// sleep since then, the wake-up ends.
func TestGivesWayToALaterRequest(t *testing.T) {
	bubble(t, func(h *harness) {
		w := h.Wake(t.Context(), id, h.entry, time.Hour)
		synctest.Wait()
		time.Sleep(time.Minute)
		h.InProgress(id, time.Hour) // a polling page requests nothing
		h.set(func() { h.refuse = service.ErrOvertaken })
		h.change(func(r *store.Route) { r.Desired = workspace.DesiredStandby })
		<-w.Done()
		if !w.Overtaken() || w.Refusal() != nil || h.InProgress(id, time.Minute) != nil {
			t.Errorf("overtaken %v, refusal %v, in progress %v", w.Overtaken(), w.Refusal(), h.InProgress(id, time.Minute))
		}
		if last := h.actors[len(h.actors)-1]; last.Asked != time.Minute {
			t.Errorf("it says that it has asked %s ago", last.Asked)
		}
		n := h.attempts()
		time.Sleep(time.Minute)
		if h.attempts() != n {
			t.Error("it goes on to ask")
		}
		// The next request is later than the request for sleep.
		h.set(func() { h.refuse = nil })
		next := h.Wake(t.Context(), id, h.entry, time.Hour)
		synctest.Wait()
		if next == w || h.actors[n].Asked != 0 || h.row.Desired != workspace.DesiredRunning {
			t.Errorf("a new request: the same %v, asked %s ago, %s", next == w, h.actors[n].Asked, h.row.Desired)
		}
	})
}

// TestAnotherRequestIsLaterThanASleep: a request to wake the workspace that comes after a request for sleep prevails,
// even if it joins a wake-up that the sleep is about to end.
func TestAnotherRequestIsLaterThanASleep(t *testing.T) {
	bubble(t, func(h *harness) {
		h.set(func() { h.refuse = errors.New("the database does not answer") })
		w := h.Wake(t.Context(), id, h.entry, time.Hour)
		time.Sleep(time.Minute)
		asked := h.Activator.wakeUps[id].asked
		h.Wake(t.Context(), id, h.entry, time.Hour)
		if w.giveWay(asked) || w.Overtaken() {
			t.Error("the wake-up gives way although it was asked for since")
		}
		h.set(func() { h.refuse = nil })
		time.Sleep(2 * retryMax)
		synctest.Wait()
		if h.row.Desired != workspace.DesiredRunning {
			t.Errorf("it is to be %s", h.row.Desired)
		}
	})
}

// TestASleepEndsTheWakeUpsOfAllGateways: two processes wake a workspace that does not start, for example because no
// node is available. If the TTL runner puts it to sleep meanwhile, the wake-ups wake it again. If its owner does, they
// end.
func TestASleepEndsTheWakeUpsOfAllGateways(t *testing.T) {
	st := storetest.Open(t)
	s := service.New(st, service.Options{})
	owner := service.Actor{UserID: storetest.AddUser(t, st)}
	created, err := s.Create(t.Context(), owner, service.CreateInput{Name: "w", DesiredState: workspace.DesiredStandby})
	if err != nil {
		t.Fatal(err)
	}
	storetest.Set(t, st, created.ID, `phase = 'STANDBY'`)
	desired := func() workspace.DesiredState { return storetest.Row(t, st, created.ID).DesiredState }
	var tables []*route.Table
	var wakeUps []*WakeUp
	for range 2 {
		own := storetest.Reopen(t, st)
		table := route.New(own, route.Options{}, zap.NewNop())
		a := New(table, service.New(own, service.Options{}), nil, tracing.Off(), zap.NewNop())
		var run sync.WaitGroup
		run.Go(func() { table.Run(t.Context()) })
		run.Go(func() { _ = a.Run(t.Context()) })
		t.Cleanup(run.Wait)
		<-table.Loaded()
		e, err := table.Find(t.Context(), created.ID)
		if err != nil {
			t.Fatal(err)
		}
		tables = append(tables, table)
		wakeUps = append(wakeUps, a.Wake(t.Context(), created.ID, e, time.Hour, metrics.Program))
	}
	told := func() {
		for _, table := range tables {
			table.Refresh(created.ID)
		}
	}
	wait.Until(t, "the workspace is to run", func() bool { return desired() == workspace.DesiredRunning })
	storetest.Set(t, st, created.ID, `phase = 'RUNNING', phase_changed_at = now() - interval '1 hour'`)
	storetest.Set(t, st, created.ID, `sleep_at = now()`)
	if slept, err := s.Sleep(t.Context(), created.ID, service.Unused{TTL: time.Minute, Since: time.Now()}); err != nil || !slept {
		t.Fatal(slept, err)
	}
	told()
	wait.Until(t, "it is to run in spite of the TTL", func() bool { return desired() == workspace.DesiredRunning })
	if err := s.SetDesired(t.Context(), owner, created.ID, workspace.DesiredStandby); err != nil {
		t.Fatal(err)
	}
	told()
	for i, w := range wakeUps {
		<-w.Done()
		if !w.Overtaken() {
			t.Errorf("gateway %d was not overtaken", i)
		}
	}
	if got := desired(); got != workspace.DesiredStandby {
		t.Errorf("it is to be %s", got)
	}
}
