package service_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/store/storetest"
	"github.com/codehub/gateway/coordinator/workspace"
)

func TestRecoverAll(t *testing.T) {
	st := storetest.Open(t)
	inv := &inventory{}
	core, logs := observer.New(zap.InfoLevel)
	s := service.New(st, service.Options{Inventory: inv, Logger: zap.New(core)})
	admin := service.Actor{Admin: true, Through: "cli"}
	a := actor(t, st)
	lost := map[workspace.ID]bool{}
	for range 5 {
		w := create(t, s, a)
		storetest.Set(t, st, w.ID, `phase = 'ERROR', error_reason = 'DataLost'`)
		lost[w.ID] = true
	}
	other := create(t, s, a)
	storetest.Set(t, st, other.ID, `phase = 'ERROR', error_reason = 'Timeout'`)

	recovered, failed, err := s.RecoverAll(t.Context(), admin, workspace.ReasonDataLost, none)
	var needed *service.ChoiceError
	if len(recovered) != 0 || len(failed) != 5 || err != nil || !errors.As(failed[slices.Collect(maps.Keys(lost))[0]], &needed) {
		t.Errorf("RecoverAll without data = %v, %v, %v", recovered, failed, err)
	}
	inv.err = errors.New("away")
	asked := inv.asked.Load()
	if recovered, failed, err := s.RecoverAll(t.Context(), admin, workspace.ReasonDataLost, none); !errors.Is(err, service.ErrInventoryUnknown) ||
		len(recovered) != 0 || len(failed) != 0 || inv.asked.Load() != asked+1 {
		t.Errorf("RecoverAll without an answer = %v, %v, %v after %d looks", recovered, failed, err, inv.asked.Load()-asked)
	}
	inv.err, inv.volume = nil, true
	recovered, failed, err = s.RecoverAll(t.Context(), admin, workspace.ReasonDataLost, none)
	if len(recovered) != 5 || len(failed) != 0 || err != nil {
		t.Errorf("RecoverAll once the volumes are back = %v, %v, %v", recovered, failed, err)
	}
	for _, id := range recovered {
		if got := storetest.Row(t, st, id); !lost[id] || got.ErrorReason != "" || got.Recovery.Choice != workspace.RecoverVolume {
			t.Errorf("recovered %+v", got)
		}
	}
	if got := storetest.Row(t, st, other.ID); got.ErrorReason != workspace.ReasonTimeout {
		t.Errorf("another reason was recovered: %+v", got)
	}
	if n := logs.FilterMessage("workspace recovered").FilterField(zap.String("choice", "volume")).FilterField(zap.String("through", "cli")).Len(); n != 5 {
		t.Errorf("%d recoveries are logged, want 5", n)
	}
	for _, c := range []struct {
		name   string
		actor  service.Actor
		reason workspace.ErrorReason
		choice service.Choice
		want   string
	}{
		{"by a user", a, "DataLost", none, "administrators"}, {"an unknown reason", admin, "Bad", none, "reason must"},
		{"no reason", admin, "", none, "reason must"}, {"an archive for all", admin, "DataLost", from("k"), "choice must"},
		{"an impossible choice", admin, "DataLost", service.Choice{ReplaceVolume: true}, "replace_volume must"},
	} {
		if _, _, err := s.RecoverAll(t.Context(), c.actor, c.reason, c.choice); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// Concurrent recoveries, undeletions, starts and creations, in two processes.
func TestConcurrentRecoveriesAndUndeletionsDoNotExceedTheLimits(t *testing.T) {
	st := storetest.Open(t)
	limits := service.Limits{PerUser: 3, Global: 5}
	var services []*service.Service
	for range 2 {
		services = append(services, service.New(storetest.Reopen(t, st), service.Options{Limits: limits}))
	}
	free := service.New(st, service.Options{})
	users := []service.Actor{actor(t, st), actor(t, st), actor(t, st)}
	admin := service.Actor{Admin: true}
	prepared := func(i int, set string) workspace.Workspace {
		w := create(t, free, users[i%len(users)])
		storetest.Set(t, st, w.ID, set)
		return w
	}
	var running atomic.Int64
	var wg sync.WaitGroup
	var calls []func()
	for i := range 24 {
		s, a := services[i%2], users[i%len(users)]
		failed := prepared(i, `phase = 'ERROR', error_reason = 'Timeout'`)
		deleted := prepared(i, `phase = 'RUNNING', deleted_at = now(), desired_state = 'DELETED'`)
		asleep := prepared(i, `phase = 'STANDBY', desired_state = 'STANDBY'`)
		granted := func(err error) {
			var over *service.LimitError
			switch {
			case err == nil:
				running.Add(1)
			case !errors.As(err, &over):
				t.Error(err)
			}
		}
		calls = append(calls, func() {
			w, err := s.Recover(t.Context(), admin, failed.ID, none)
			if err != nil || w.ErrorReason != "" {
				t.Errorf("recovered %+v, %v", w, err)
			}
			if w.DesiredState == workspace.DesiredRunning {
				running.Add(1)
			}
		}, func() {
			_, err := s.Undelete(t.Context(), service.Actor{UserID: deleted.OwnerID}, deleted.ID)
			granted(err)
		}, func() {
			granted(s.SetDesired(t.Context(), service.Actor{UserID: asleep.OwnerID}, asleep.ID, workspace.DesiredRunning))
		}, func() {
			_, err := s.Create(t.Context(), a, service.CreateInput{Name: "new"})
			granted(err)
		})
	}
	for _, call := range calls {
		wg.Go(call)
	}
	wg.Wait()
	if n := storetest.Value[int64](t, st, `SELECT count(*) FROM workspaces WHERE counted`); n != int64(limits.Global) || running.Load() != n {
		t.Errorf("%d hold a place and %d were granted, want %d", n, running.Load(), limits.Global)
	}
	if n := storetest.Value[int](t, st, `SELECT max(n) FROM (SELECT count(*) n FROM workspaces WHERE counted GROUP BY owner_user_id) u`); n > limits.PerUser {
		t.Errorf("a user has %d, the limit is %d", n, limits.PerUser)
	}
}
