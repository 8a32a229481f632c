package codehub

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/route"
	"github.com/codehub/gateway/coordinator/service"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
)

// sleeper is one sleeping workspace, in a bubble with its own clock.
func sleeper(t *testing.T) (*world, *waking, *route.Entry) {
	w := &world{t: t, rows: map[workspace.ID]store.Route{wsOne: {
		ID: wsOne, OwnerID: "alice", Phase: workspace.PhaseStandby, Operation: workspace.OpNone, Desired: workspace.DesiredStandby,
	}}}
	w.routes = route.New(w, 0, zap.NewNop())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); w.routes.Run(ctx) }()
	k := newWaking(w.routes, w, zap.NewNop())
	k.probe = func(context.Context, string) bool { return false }
	t.Cleanup(func() { _ = k.Destruct(); cancel(); <-done })
	<-w.routes.Loaded()
	e, _ := w.routes.Lookup(wsOne)
	return w, k, e
}

func TestWakerKeepsAskingWhileAnOperationIsInProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, k, e := sleeper(t)
		w.refuse(service.ErrOperationInProgress)
		k.ask(wsOne, e, time.Minute, true)
		time.Sleep(5500 * time.Millisecond)
		if n := w.wished(); n < 5 || n > 7 {
			t.Fatalf("%d wishes in 5.5 s", n)
		}
		// The end of the operation is noticed at once.
		before := w.wished()
		w.change(wsOne, func(r *store.Route) { r.Phase, r.Desired = workspace.PhaseArchived, workspace.DesiredArchived })
		synctest.Wait()
		if w.wished() != before+1 {
			t.Fatal("a change of the route does not make it ask again")
		}
	})
}

func TestWakerEndsWhenNobodyAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, k, e := sleeper(t)
		w.refuse(errors.New("database away"))
		first := k.ask(wsOne, e, time.Minute, true)
		time.Sleep(40 * time.Second)
		if k.find(wsOne, time.Minute) != first {
			t.Fatal("it gave up early")
		}
		time.Sleep(40 * time.Second) // 20 s beyond the first minute
		select {
		case <-first.over:
			t.Fatal("being asked for did not prolong it")
		default:
		}
		time.Sleep(30 * time.Second)
		<-first.over
		if k.find(wsOne, time.Minute) != nil {
			t.Fatal("it is still there")
		}
		n := w.wished()
		time.Sleep(time.Minute)
		if w.wished() != n || n > 40 {
			t.Fatalf("%d wishes, then %d", n, w.wished())
		}
	})
}

func TestWakerWithoutWishWishesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, k, e := sleeper(t)
		<-k.ask(wsOne, e, time.Minute, false).over
		if w.wished() != 0 {
			t.Fatal("a tab made a wish")
		}
		w.change(wsOne, func(r *store.Route) { r.Desired, r.Operation = workspace.DesiredRunning, workspace.OpStarting })
		one := k.ask(wsOne, e, time.Minute, false)
		synctest.Wait()
		w.change(wsOne, func(r *store.Route) { r.Desired, r.Operation = workspace.DesiredStandby, workspace.OpNone })
		<-one.over
		if w.wished() != 0 {
			t.Fatal("a tab made a wish after somebody put the workspace to sleep")
		}
	})
}

func TestRefusalIsRememberedForAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, k, e := sleeper(t)
		w.refuse(&service.LimitError{Scope: "user", Limit: 2})
		for range 100 {
			one := k.ask(wsOne, e, time.Minute, true)
			<-one.over
			if one.refusal() == nil {
				t.Fatal("not refused")
			}
		}
		if w.wished() != 1 {
			t.Fatalf("%d wishes for 100 requests", w.wished())
		}
		time.Sleep(2 * refusalKept)
		<-k.ask(wsOne, e, time.Minute, true).over
		if w.wished() != 2 {
			t.Fatal("a refusal is remembered for ever")
		}
	})
}

func TestWakingStopsCleanly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, k, e := sleeper(t)
		w.change(wsOne, func(r *store.Route) {
			r.Phase, r.Desired, r.Endpoint = workspace.PhaseRunning, workspace.DesiredRunning, "10.0.0.1:1"
		})
		one := k.ask(wsOne, e, time.Hour, true)
		synctest.Wait()
		if err := k.Destruct(); err != nil {
			t.Fatal(err)
		}
		<-one.over
		<-k.ask(wsOne, e, time.Hour, true).over // late requests find it ended
	})
}
