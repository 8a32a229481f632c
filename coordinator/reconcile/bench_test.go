package reconcile_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/reconcile"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/postgres"
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
		h.asleep(workspace.DesiredRunning)
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

// expiring is the size of a weekend's end: so many homes expire at once, and somebody opens a workspace.
const expiring = 200

// BenchmarkWakeBesideArchives measures how many storage jobs run at most when many homes expire
// at once, and how much longer a wake-up takes beside them than alone: of a workspace whose home
// is there, and of an archived one.
func BenchmarkWakeBesideArchives(b *testing.B) {
	h := newHarness(b)
	h.use(h.archives, zap.NewNop(), func(s *reconcile.Settings) { *s = reconcile.DefaultSettings() })
	var jobs meter
	work := h.backend.Work
	h.backend.Work = func(ctx context.Context, spec backend.JobSpec) (int64, error) {
		defer jobs.enter()()
		select {
		case <-time.After(actuatorTakes):
		case <-ctx.Done():
		}
		return work(ctx, spec)
	}
	h.lead()
	wakes := func() (standby, archived time.Duration) {
		id := h.create()
		h.reach(id, workspace.DesiredStandby, workspace.PhaseStandby)
		took := func() time.Duration {
			start := time.Now()
			h.setDesired(id, workspace.DesiredRunning)
			h.settles(id, workspace.PhaseRunning)
			return time.Since(start)
		}
		standby = took()
		h.reach(id, workspace.DesiredArchived, workspace.PhaseArchived)
		return standby, took()
	}
	alone, restored := wakes()
	for b.Loop() {
		// Archived before the others, so that its restore is beside them.
		id := h.create()
		h.reach(id, workspace.DesiredArchived, workspace.PhaseArchived)
		light := h.create()
		h.reach(light, workspace.DesiredStandby, workspace.PhaseStandby)
		var ids []workspace.ID
		for range expiring {
			ids = append(ids, h.asleep(workspace.DesiredArchived))
		}
		start := time.Now()
		h.controller.Wake(ids...)
		h.await(ids[expiring-1], "its place", func(w workspace.Workspace) bool { return w.Waiting != nil })
		took := func(id workspace.ID) time.Duration {
			at := time.Now()
			h.setDesired(id, workspace.DesiredRunning)
			h.settles(id, workspace.PhaseRunning)
			return time.Since(at)
		}
		beside, restoredBeside := took(light), took(id)
		for _, id := range ids {
			h.settles(id, workspace.PhaseArchived)
		}
		fmt.Printf("figure jobs_at_once_most %d jobs\n", jobs.most.Load())
		fmt.Printf("figure jobs_all_archived_s %.1f s\n", time.Since(start).Seconds())
		fmt.Printf("figure jobs_wake_beside_ratio %.2f ratio\n", beside.Seconds()/alone.Seconds())
		fmt.Printf("figure jobs_restore_beside_ratio %.2f ratio\n", restoredBeside.Seconds()/restored.Seconds())
		b.Logf("a wake-up takes %s alone and %s beside %d archives; with a restore %s and %s", alone, beside, expiring, restored, restoredBeside)
	}
}
