package service_test

import (
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/metrics"
	"github.com/codehub/gateway/coordinator/store/storetest"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Dozing is counted and logged. A dozing workspace frees its place among the running workspaces, and needs a place to
// resume.
func TestDozing(t *testing.T) {
	st := storetest.Open(t)
	core, logs := observer.New(zap.InfoLevel)
	counted := metrics.New(func() *metrics.State { return new(metrics.State) })
	s := service.New(st, service.Options{Logger: zap.New(core), Metrics: counted.Service, Limits: service.Limits{
		PerUser: 1, Global: 10, Dozing: service.DozingLimits{PerUser: 1, Global: 10},
	}})
	a := actor(t, st)
	unused := func() workspace.ID {
		w := create(t, s, a)
		storetest.Set(t, st, w.ID, `phase = 'RUNNING', phase_changed_at = now() - interval '1 hour'`)
		return w.ID
	}
	doze := func(id workspace.ID, want bool) {
		t.Helper()
		if got, err := s.Doze(t.Context(), id, time.Now().Add(-5*time.Minute)); got != want || err != nil {
			t.Errorf("it dozes: %v, %v; want %v", got, err, want)
		}
	}
	first := unused()
	doze(first, true)
	// As the controller observes a frozen container.
	storetest.Set(t, st, first, `conditions = '{"infra.dozing": {"status": "True"}}'`)
	second := unused() // in the place of the first
	doze(second, false)

	full := new(service.LimitError)
	if err := s.SetDesired(t.Context(), a, first, workspace.DesiredRunning); !errors.As(err, &full) || full.Limit != 1 {
		t.Errorf("it goes on without a place: %v", err)
	}
	if _, err := s.KeepAwake(t.Context(), a, first, time.Hour); !errors.As(err, &full) {
		t.Errorf("it is kept awake without a place: %v", err)
	}
	storetest.Set(t, st, first, `doze_at = NULL, counted = true, keep_awake_until = now() - interval '1 minute'`)
	storetest.Set(t, st, first, `doze_at = now()`)
	if w, err := s.KeepAwake(t.Context(), a, first, 0); err != nil || w.DozeAt.IsZero() {
		t.Errorf("it is kept awake no longer, and dozes since %s, %v", w.DozeAt, err)
	}
	if storetest.Row(t, st, first).DozeAt.IsZero() {
		t.Error("it dozes no more")
	}
	if err := s.SetDesired(t.Context(), a, second, workspace.DesiredStandby); err != nil {
		t.Fatal(err)
	}
	storetest.Set(t, st, second, `phase = 'STANDBY'`)
	w, err := s.KeepAwake(t.Context(), a, first, time.Hour)
	if err != nil || !w.DozeAt.IsZero() || w.KeepAwakeUntil.IsZero() || w.DesiredState != workspace.DesiredRunning {
		t.Errorf("kept awake: %+v, %v", w, err)
	}
	doze(first, false)

	if n := logs.FilterMessage("workspace dozes").Len(); n != 1 {
		t.Errorf("%d logged, want 1", n)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(counted)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if n := f.GetMetric()[0].GetCounter().GetValue(); f.GetName() == "codehub_dozes_total" && n != 1 {
			t.Errorf("%v are counted, want 1", n)
		}
	}
}

// A dozing workspace is put to sleep to free its memory. This is counted and logged. One that was thawed meanwhile
// stays awake.
func TestSleepForMemory(t *testing.T) {
	st := storetest.Open(t)
	core, logs := observer.New(zap.InfoLevel)
	counted := metrics.New(func() *metrics.State { return new(metrics.State) })
	s := service.New(st, service.Options{Logger: zap.New(core), Metrics: counted.Service})
	a := actor(t, st)
	dozing := func() workspace.ID {
		w := create(t, s, a)
		storetest.Set(t, st, w.ID, `phase = 'RUNNING', phase_changed_at = now() - interval '1 hour'`)
		storetest.Set(t, st, w.ID, `doze_at = now() - interval '1 minute'`)
		return w.ID
	}
	sleeps, thawed := dozing(), dozing()
	if err := s.SetDesired(t.Context(), a, thawed, workspace.DesiredRunning); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[workspace.ID]bool{sleeps: true, thawed: false} {
		if got, err := s.SleepForMemory(t.Context(), id, "to free memory"); got != want || err != nil {
			t.Errorf("it sleeps: %v, %v; want %v", got, err, want)
		}
		if got := storetest.Row(t, st, id).DesiredState; (got == workspace.DesiredStandby) != want {
			t.Errorf("its desired state is %s", got)
		}
	}
	logged := logs.FilterMessage("workspace put to sleep to free memory").All()
	if len(logged) != 1 || logged[0].ContextMap()["through"] != "memory" || logged[0].ContextMap()["workspace"] != string(sleeps) {
		t.Errorf("logged %v", logged)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(counted)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var n float64
	for _, f := range families {
		for _, m := range f.GetMetric() {
			labels := m.GetLabel() // sorted by name
			if f.GetName() == "codehub_desired_state_changes_total" && labels[0].GetValue() == "memory" && labels[1].GetValue() == "STANDBY" {
				n = m.GetCounter().GetValue()
			}
		}
	}
	if n != 1 {
		t.Errorf("%v are counted, want 1", n)
	}
}
