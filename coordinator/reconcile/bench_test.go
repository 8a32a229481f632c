package reconcile_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/reconcile"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/store/storetest"
	"github.com/codehub/gateway/coordinator/workspace"
)

// The case of the sources: so many workspaces are to start at once, ten at a time. The
// actuators of 30 s are scaled down 100 times, and the sensors are not.
const (
	cycleWorkspaces = 100
	sensorTakes     = 100 * time.Millisecond
	actuatorTakes   = 300 * time.Millisecond
)

// milestones is a database that notes when the last workspace was claimed, and when the
// last one was seen to run.
type milestones struct {
	*store.Store
	mu               sync.Mutex
	claimed, running int
	planned, done    chan time.Time
}

// Save implements [reconcile.Store].
func (m *milestones) Save(ctx context.Context, f postgres.Fence, prev, next workspace.Workspace, a *workspace.ArchiveRecord) (bool, error) {
	saved, err := m.Store.Save(ctx, f, prev, next, a)
	if !saved || err != nil {
		return saved, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if prev.Operation == workspace.OpNone && next.Operation == workspace.OpStarting {
		if m.claimed++; m.claimed == cycleWorkspaces {
			m.planned <- time.Now()
		}
	}
	if prev.Phase != workspace.PhaseRunning && next.Phase == workspace.PhaseRunning {
		if m.running++; m.running == cycleWorkspaces {
			m.done <- time.Now()
		}
	}
	return saved, err
}

// BenchmarkCycle measures the time until all are planned, and how much longer than the
// actuators alone the whole takes.
func BenchmarkCycle(b *testing.B) {
	var plan, total time.Duration
	runs := 0
	for b.Loop() {
		p, t := cycle(b)
		plan, total, runs = plan+p, total+t, runs+1
	}
	ideal := sensorTakes + cycleWorkspaces/time.Duration(reconcile.DefaultSettings().MaxConcurrent)*actuatorTakes
	fmt.Printf("figure reconcile_plan_s %.3f s\n", plan.Seconds()/float64(runs))
	fmt.Printf("figure reconcile_cycle_ratio %.3f ratio\n", total.Seconds()/float64(runs)/ideal.Seconds())
}

// cycle starts all workspaces once.
func cycle(b *testing.B) (plan, total time.Duration) {
	h := newHarness(b)
	takes := map[string]time.Duration{"Containers": sensorTakes, "Volumes": sensorTakes, "Jobs": sensorTakes, "Start": actuatorTakes}
	m := &milestones{Store: h.store, planned: make(chan time.Time, 1), done: make(chan time.Time, 1)}
	h.database = m
	h.use(h.archives, zap.NewNop(), func(s *reconcile.Settings) { *s = reconcile.DefaultSettings() })
	for range cycleWorkspaces {
		id := h.create()
		op := uuid.NewString()
		if err := h.backend.Provision(b.Context(), id, op); err != nil {
			b.Fatal(err)
		}
		storetest.Exec(b, h.store, `UPDATE workspaces SET phase = 'STANDBY', home_ctx = jsonb_build_object('volume_op_id', $2::text),
			conditions = jsonb_build_object('storage.volume_ready', jsonb_build_object('status', 'True', 'last_transition_time', now()))
			WHERE id = $1`, string(id), op)
	}
	h.backend.Before = func(ctx context.Context, method string, _ workspace.ID) error {
		select {
		case <-time.After(takes[method]):
		case <-ctx.Done():
		}
		return ctx.Err()
	}
	start := time.Now()
	h.lead()
	planned, done := <-m.planned, <-m.done
	h.resign()
	return planned.Sub(start), done.Sub(start)
}
