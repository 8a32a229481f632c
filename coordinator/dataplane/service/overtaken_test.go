package service_test

import (
	"errors"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/store/storetest"
	"github.com/codehub/gateway/coordinator/workspace"
)

// TestTheLaterRequestWins: a user or a program may request another state after a wake-up was requested. Then the
// wake-up has no effect. It does take effect after changes by the system itself and after earlier requests.
func TestTheLaterRequestWins(t *testing.T) {
	st := storetest.Open(t)
	s := service.New(st, service.Options{})
	a := actor(t, st)
	const before, since = time.Minute, time.Nanosecond
	by := func(through audit.Through, d workspace.DesiredState) func(t *testing.T, id workspace.ID) {
		return func(t *testing.T, id workspace.ID) {
			a := a
			a.Through = through
			if err := s.SetDesired(t.Context(), a, id, d); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		asked  time.Duration // by the wake-up, ago
		after  func(t *testing.T, id workspace.ID)
		yields bool
	}{
		"sleep in the dashboard":        {before, by("api", workspace.DesiredStandby), true},
		"archive in the dashboard":      {before, by("api", workspace.DesiredArchived), true},
		"a swap":                        {before, by("gateway", workspace.DesiredStandby), true},
		"sleep on the command line":     {before, by("cli", workspace.DesiredStandby), true},
		"sleep before it was asked for": {since, by("api", workspace.DesiredStandby), false},
		"a start":                       {before, by("api", workspace.DesiredRunning), false},
		"the TTL": {before, func(t *testing.T, id workspace.ID) {
			storetest.Set(t, st, id, `phase = 'RUNNING', phase_changed_at = now() - interval '1 hour'`)
			storetest.Set(t, st, id, `sleep_at = now()`)
			if slept, err := s.Sleep(t.Context(), id, service.Unused{TTL: time.Minute, Since: time.Now()}); err != nil || !slept {
				t.Fatal(slept, err)
			}
		}, false},
		"no place": {before, func(t *testing.T, id workspace.ID) {
			storetest.Set(t, st, id, `phase = 'RUNNING', doze_at = now(), conditions = '{"infra.dozing": {"status": "True"}}'`)
			storetest.Set(t, st, id, `doze_at = now(), conditions = '{"infra.dozing": {"status": "True"}}'`)
			if err := st.EndDozes(t.Context()); err != nil {
				t.Fatal(err)
			}
		}, false},
		"sleep long ago, and then a start": {before, func(t *testing.T, id workspace.ID) {
			by("api", workspace.DesiredStandby)(t, id)
			storetest.Exec(t, st, `UPDATE workspace_history SET at = at - interval '1 hour' WHERE workspace_id = $1`, string(id))
			by("api", workspace.DesiredRunning)(t, id)
			storetest.Set(t, st, id, `desired_state = 'STANDBY'`)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := create(t, s, a)
			storetest.Exec(t, st, `UPDATE workspace_history SET at = at - interval '2 hours' WHERE workspace_id = $1`, string(w.ID))
			c.after(t, w.ID)
			was := storetest.Row(t, st, w.ID)
			wakes := service.Actor{UserID: a.UserID, Through: "gateway", Asked: c.asked}
			err := s.SetDesired(t.Context(), wakes, w.ID, workspace.DesiredRunning)
			if errors.Is(err, service.ErrOvertaken) != c.yields || err != nil && !c.yields {
				t.Errorf("%v, want it to yield: %v", err, c.yields)
			}
			if got := storetest.Row(t, st, w.ID); (got.DesiredState == workspace.DesiredRunning) == c.yields || c.yields && got.Revision != was.Revision {
				t.Errorf("it is to be %s", got.DesiredState)
			}
			wakes.Asked = 0 // a new request
			err = s.SetDesired(t.Context(), wakes, w.ID, workspace.DesiredRunning)
			if err != nil || storetest.Row(t, st, w.ID).DesiredState != workspace.DesiredRunning {
				t.Errorf("a new request: %v", err)
			}
		})
	}
}
