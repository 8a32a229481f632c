package service_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/codehub/gateway/coordinator/service"
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
		return s.Expire(t.Context(), id, workspace.PhaseRunning, workspace.DesiredStandby, ttl)
	}
	archive := func(id workspace.ID) (bool, error) {
		return s.Expire(t.Context(), id, workspace.PhaseStandby, workspace.DesiredArchived, ttl)
	}
	for _, c := range []struct {
		name, set string
		expire    func(workspace.ID) (bool, error)
		want      bool
	}{
		{"unused", `phase = 'RUNNING', ` + old, run, true},
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
		before := storetest.Row(t, st, w.ID)
		got, err := c.expire(w.ID)
		if got != c.want || err != nil {
			t.Errorf("%s: %v, %v; want %v", c.name, got, err, c.want)
		}
		if after := storetest.Row(t, st, w.ID); (after.DesiredState != before.DesiredState) != c.want {
			t.Errorf("%s: desired state %s, then %s", c.name, before.DesiredState, after.DesiredState)
		}
	}
	if n := logs.FilterMessage("workspace expired").Len(); n != 2 {
		t.Errorf("%d logged, want 2", n)
	}
	if _, err := s.Expire(t.Context(), workspace.ID(uuid.NewString()), workspace.PhaseArchived, workspace.DesiredDeleted, ttl); err == nil {
		t.Error("a workspace expires to DELETED")
	}
}
