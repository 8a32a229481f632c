package reconcile_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/control/reconcile"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/workspace"
)

// cycleWorkspaces is how many workspaces should start at the same time; ten starts run concurrently. A start takes 30 s
// in reality, and here a hundredth of that. The sensors take their real time.
const (
	cycleWorkspaces = 100
	sensorTakes     = 100 * time.Millisecond
	actuatorTakes   = 300 * time.Millisecond
)

// milestones is a database that records two times: when the start of the last workspace was saved, and when the last
// workspace was observed to run.
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

// BenchmarkCycle measures the time until the starts of all workspaces are planned, and how much longer the whole cycle
// takes than the actuators alone.
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

// expiring is how many homes expire at the same time, after a weekend.
const expiring = 200

// BenchmarkExpiry measures the largest number of concurrent storage jobs when many homes expire. It also measures how
// much longer it takes to open a workspace during that time than at other times, for a workspace that still has its
// home and for an archived one.
func BenchmarkExpiry(b *testing.B) {
	h := newHarness(b)
	h.use(h.archives, zap.NewNop(), func(s *reconcile.Settings) { *s = reconcile.DefaultSettings() })
	takes := func(ctx context.Context) {
		select {
		case <-time.After(actuatorTakes):
		case <-ctx.Done():
		}
	}
	h.backend.Before = func(ctx context.Context, method string, _ workspace.ID) error {
		if method == "Start" {
			takes(ctx)
		}
		return ctx.Err()
	}
	var jobs meter
	work := h.backend.Work
	h.backend.Work = func(ctx context.Context, spec backend.JobSpec) (int64, error) {
		defer jobs.enter()()
		takes(ctx)
		return work(ctx, spec)
	}
	h.lead()
	// opened opens the workspaces one after the other, and returns the median of the times that this takes.
	opened := func(ids []workspace.ID) time.Duration {
		var took []time.Duration
		for _, id := range ids {
			start := time.Now()
			h.setDesired(id, workspace.DesiredRunning)
			h.settles(id, workspace.PhaseRunning)
			took = append(took, time.Since(start))
		}
		slices.Sort(took)
		return took[len(took)/2]
	}
	rest := func(d workspace.DesiredState, p workspace.Phase) (ids []workspace.ID) {
		for range 5 {
			id := h.create()
			h.reach(id, d, p)
			ids = append(ids, id)
		}
		return ids
	}
	for b.Loop() {
		awake, stored := opened(rest(workspace.DesiredStandby, workspace.PhaseStandby)), opened(rest(workspace.DesiredArchived, workspace.PhaseArchived))
		asleep, archived := rest(workspace.DesiredStandby, workspace.PhaseStandby), rest(workspace.DesiredArchived, workspace.PhaseArchived)
		var ids []workspace.ID
		for range expiring {
			ids = append(ids, h.asleep(workspace.DesiredArchived))
		}
		start := time.Now()
		h.controller.Wake(ids...)
		h.waits(ids[expiring-1], workspace.WaitJobQueue)
		awakeBeside, storedBeside := opened(asleep), opened(archived)
		for _, id := range ids {
			h.settles(id, workspace.PhaseArchived)
		}
		took := time.Since(start)
		fmt.Printf("figure expiry_jobs_at_once %d jobs\n", jobs.peak.Load())
		fmt.Printf("figure expiry_seconds %.1f s\n", took.Seconds())
		fmt.Printf("figure expiry_wake_alone_s %.3f s\n", awake.Seconds())
		fmt.Printf("figure expiry_wake_ratio %.2f ratio\n", awakeBeside.Seconds()/awake.Seconds())
		fmt.Printf("figure expiry_restore_alone_s %.3f s\n", stored.Seconds())
		fmt.Printf("figure expiry_restore_ratio %.2f ratio\n", storedBeside.Seconds()/stored.Seconds())
	}
}
