package service_test

import (
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/store/storetest"
	"github.com/codehub/gateway/coordinator/workspace"
)

func TestExpireChecksAgain(t *testing.T) {
	st := storetest.Open(t)
	core, logs := observer.New(zap.InfoLevel)
	s := service.New(st, service.Options{Logger: zap.New(core)})
	a := actor(t, st)
	const ttl = 10 * time.Minute
	const old = `phase_changed_at = now() - interval '1 hour', last_access_at = now() - interval '11 minutes'`
	run := func(id workspace.ID) (bool, error) {
		return s.Sleep(t.Context(), id, service.Unused{TTL: ttl, Since: time.Now().Add(-ttl)})
	}
	archive := func(id workspace.ID) (bool, error) {
		return s.Archive(t.Context(), id, ttl)
	}
	for _, c := range []struct {
		name, set string
		expire    func(workspace.ID) (bool, error)
		want      bool
	}{
		{"unused", `phase = 'RUNNING', ` + old, run, true},
		{"kept awake meanwhile", `phase = 'RUNNING', keep_awake_until = now() + interval '1 minute', ` + old, run, false},
		{"kept awake until a while ago", `phase = 'RUNNING', keep_awake_until = now() - interval '1 second', ` + old, run, true},
		{"used meanwhile", `phase = 'RUNNING', phase_changed_at = now() - interval '1 hour', last_access_at = now()`, run, false},
		{"started meanwhile", `phase = 'RUNNING', phase_changed_at = now()`, run, false},
		{"operation in progress", `phase = 'RUNNING', operation = 'STOPPING', ` + old, run, false},
		{"no longer running", `phase = 'STANDBY', ` + old, run, false},
		{"deleted", `phase = 'RUNNING', deleted_at = now(), desired_state = 'DELETED', ` + old, run, false},
		{"ARCHIVED is desired", `phase = 'RUNNING', desired_state = 'ARCHIVED', ` + old, run, false},
		{"long in standby", `phase = 'STANDBY', desired_state = 'STANDBY', ` + old, archive, true},
		{"RUNNING is desired", `phase = 'STANDBY', desired_state = 'RUNNING', ` + old, archive, false},
		{"recently in standby", `phase = 'STANDBY', desired_state = 'STANDBY', phase_changed_at = now()`, archive, false},
	} {
		w := create(t, s, a)
		storetest.Set(t, st, w.ID, c.set)
		storetest.Set(t, st, w.ID, "sleep_at = now()")
		before := storetest.Row(t, st, w.ID)
		got, err := c.expire(w.ID)
		if got != c.want || err != nil {
			t.Errorf("%s: %v, %v; want %v", c.name, got, err, c.want)
		}
		if after := storetest.Row(t, st, w.ID); (after.DesiredState != before.DesiredState) != c.want {
			t.Errorf("%s: desired state %s, then %s", c.name, before.DesiredState, after.DesiredState)
		}
	}
	if n := logs.FilterMessage("workspace expired").Len(); n != 3 {
		t.Errorf("%d logged, want 3", n)
	}
}
