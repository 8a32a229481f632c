package activator

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/codehub/gateway/coordinator/metrics"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
)

// TestStagesOfAWakeUp: a wake-up is in one stage at a time, and the times of its stages add up to its total time.
func TestStagesOfAWakeUp(t *testing.T) {
	bubble(t, func(h *harness) {
		m := metrics.New(func() *metrics.State { return new(metrics.State) })
		h.Metrics = m.Wakes
		h.row.Phase = workspace.PhaseArchived
		h.change(func(r *store.Route) { r.Phase = workspace.PhaseArchived })
		w := h.Wake(h.t.Context(), id, h.entry, time.Hour)
		synctest.Wait()
		took := func(d time.Duration, then func(*store.Route)) {
			time.Sleep(d)
			h.change(then)
		}
		took(time.Second, func(r *store.Route) { r.Operation = workspace.OpRestoring })
		took(2*time.Second, func(r *store.Route) {
			r.Phase, r.Operation = workspace.PhaseStandby, workspace.OpStarting
			r.Waiting = &workspace.Waiting{Reason: workspace.WaitPullingImage}
		})
		took(4*time.Second, func(r *store.Route) { r.Waiting = nil })
		took(8*time.Second, running)
		time.Sleep(16 * time.Second)
		h.set(func() { h.answers = true })
		<-w.Done()
		want := map[string]float64{"waiting": 1, "restoring": 2, "pulling": 4, "starting": 8, "answering": 16}
		sums, ended := gathered(t, m)
		for stage, seconds := range want {
			if got := sums[stage]; got < seconds || got > seconds+1 {
				t.Errorf("%s took %v s, want %v", stage, got, seconds)
			}
		}
		if got := sums["ARCHIVED"]; got < 31 || got > 32 || ended != "ready" {
			t.Errorf("it took %v s in all, and ended as %q", got, ended)
		}
	})
}

func TestHowWakeUpsEnd(t *testing.T) {
	for want, end := range map[string]func(h *harness){
		"given_up": func(h *harness) { <-h.Wake(h.t.Context(), id, h.entry, time.Second).Done() },
		"failed": func(h *harness) {
			w := h.Wake(h.t.Context(), id, h.entry, time.Hour)
			h.change(func(r *store.Route) { r.Phase, r.ErrorReason = workspace.PhaseError, workspace.ReasonTimeout })
			<-w.Done()
		},
		"stopped": func(h *harness) {
			w := h.Wake(h.t.Context(), id, h.entry, time.Hour)
			h.stop()
			<-w.Done()
		},
	} {
		t.Run(want, func(t *testing.T) {
			bubble(t, func(h *harness) {
				m := metrics.New(func() *metrics.State { return new(metrics.State) })
				h.Metrics = m.Wakes
				end(h)
				if sums, got := gathered(t, m); got != want || sums["STANDBY"] != 0 {
					t.Errorf("it ended as %q, and took %v s", got, sums["STANDBY"])
				}
			})
		})
	}
}

// gathered returns the sums of the histograms by the value of their last label, and how the only wake-up has ended.
func gathered(t *testing.T, m *metrics.Metrics) (sums map[string]float64, ended string) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(m); err != nil {
		t.Fatal(err)
	}
	all, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sums = make(map[string]float64)
	for _, f := range all {
		for _, s := range f.GetMetric() {
			labels := s.GetLabel()
			switch f.GetName() {
			case "codehub_wake_duration_seconds", "codehub_wake_stage_duration_seconds":
				sums[labels[1].GetValue()] += s.GetHistogram().GetSampleSum()
			case "codehub_wakes_total":
				if s.GetCounter().GetValue() > 0 {
					ended += labels[2].GetValue()
				}
			}
		}
	}
	return sums, ended
}
