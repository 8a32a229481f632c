package reconcile_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/backendtest/memory"
	"github.com/codehub/gateway/coordinator/testlog"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// applications simulates the programs in the containers: which endpoints answer, and which ports listen.
type applications struct {
	*memory.Backend
	mu     sync.Mutex
	open   []string
	stats  backend.Stats
	looks  atomic.Int32
	probes atomic.Int32
}

func (a *applications) probe(_ context.Context, endpoint, _ string) bool {
	a.probes.Add(1)
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Contains(a.open, endpoint)
}

func (a *applications) Stats(context.Context, workspace.ID) (backend.Stats, error) {
	a.looks.Add(1)
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stats, nil
}

// answers makes the program at an endpoint answer from now on.
func (a *applications) answers(endpoint string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open = append(a.open, endpoint)
}

// probing makes the controller probe the containers that it starts. They have that health.
func (h *harness) probing(health workspace.Health, starts *atomic.Int32) *applications {
	a := &applications{Backend: h.backend}
	h.backend.Container = func(spec backend.StartSpec) (workspace.Container, error) {
		starts.Store(int32(max(spec.Port, 8080)))
		return workspace.Container{Running: true, Ready: health == "", Health: health, Volume: true, Endpoint: "10.0.0.2:8080", StartedAt: time.Now()}, nil
	}
	h.engine, h.probe = a, a.probe
	h.use(h.archives, testlog.New(h.t), nil)
	return a
}

// TestTheFirstAnswerEndsAStart: the application's first answer ends a start, long before the engine runs the image's
// health check for the first time.
func TestTheFirstAnswerEndsAStart(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	var started atomic.Int32
	a := h.probing(workspace.HealthStarting, &started)
	h.lead()
	id := h.create()
	wait.Until(t, "it is probed", func() bool { return a.probes.Load() > 2 })
	if w := h.row(id); w.Phase != workspace.PhaseStandby || w.Operation != workspace.OpStarting {
		t.Fatalf("before the answer: %s %s", w.Phase, w.Operation)
	}
	a.answers("10.0.0.2:8080")
	if w := h.settles(id, workspace.PhaseRunning); w.Endpoint != "10.0.0.2:8080" || !w.Conditions.True(workspace.ContainerReady) {
		t.Errorf("at %q: %+v", w.Endpoint, w.Conditions[workspace.ContainerReady])
	}
	// Another leader does not know the answer, and probes once more.
	h.resign()
	before := a.probes.Load()
	h.lead()
	wait.Until(t, "it is probed again", func() bool { return a.probes.Load() > before })
	h.await(id, "it is ready", func(w workspace.Workspace) bool {
		return w.Phase == workspace.PhaseRunning && w.Conditions.True(workspace.ContainerReady)
	})
	// A healthy application that has answered is not probed any more.
	h.backend.Change(id, func(c *workspace.Container) { c.Health, c.Ready = "", true })
	h.reach(id, workspace.DesiredStandby, workspace.PhaseStandby)
}

// TestAPortThatIsFoundIsUsed: if another port than the configured one is found, it is used for that container, and for
// the next container from its start on, until the configured port answers.
func TestAPortThatIsFoundIsUsed(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	var started atomic.Int32
	a := h.probing("", &started)
	a.stats = backend.Stats{Processes: 1, Ports: []int{8888}, Declared: []int{8888}}
	a.answers("10.0.0.2:8888")
	h.lead()
	id := h.create()
	h.await(id, "its port", func(w workspace.Workspace) bool { return w.Endpoint == "10.0.0.2:8888" })
	if w := h.row(id); w.Phase != workspace.PhaseRunning || w.Waiting != nil || w.HomeCtx.Found.Port != 8888 {
		t.Errorf("%s, waits for %+v, found %+v", w.Phase, w.Waiting, w.HomeCtx.Found)
	}
	h.resign()
	h.lead()
	h.controller.WakeAll()
	h.reach(id, workspace.DesiredStandby, workspace.PhaseStandby)
	looks := a.looks.Load()
	h.setDesired(id, workspace.DesiredRunning)
	h.await(id, "its port again", func(w workspace.Workspace) bool {
		return w.Phase == workspace.PhaseRunning && w.Endpoint == "10.0.0.2:8888"
	})
	if started.Load() != 8080 || a.looks.Load() != looks {
		t.Errorf("it was started at %d, and what listens was asked for %d times", started.Load(), a.looks.Load()-looks)
	}
	h.resign()
	h.lead()
	h.controller.WakeAll()
	a.answers("10.0.0.2:8080")
	h.await(id, "the configured port", func(w workspace.Workspace) bool {
		return w.Phase == workspace.PhaseRunning && w.Endpoint == "10.0.0.2:8080" && w.HomeCtx.Found.Port == 0
	})
	h.reach(id, workspace.DesiredStandby, workspace.PhaseStandby)
}

// TestWhatListensIsTold: while a workspace does not answer, its row shows the ports that listen in it, under every
// leader.
func TestWhatListensIsTold(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	var started atomic.Int32
	a := h.probing("", &started)
	a.stats = backend.Stats{Processes: 1, Ports: []int{22, 8888}}
	h.lead()
	id := h.create()
	h.settles(id, workspace.PhaseRunning)
	w := h.waits(id, workspace.WaitNotAnswering)
	if w.Waiting.Port != 8080 || !slices.Equal(w.Waiting.Ports, []int{22, 8888}) || w.Phase != workspace.PhaseRunning {
		t.Errorf("%s %+v", w.Phase, w.Waiting)
	}
	h.resign()
	h.lead()
	h.controller.WakeAll()
	before := a.probes.Load()
	wait.Until(t, "another leader probes it", func() bool { return a.probes.Load() > before+1 })
	if next := h.row(id); next.Waiting == nil || !next.Waiting.Since.Equal(w.Waiting.Since) {
		t.Errorf("waits for %+v", next.Waiting)
	}
	a.answers("10.0.0.2:8080")
	h.await(id, "nothing is waited for", func(w workspace.Workspace) bool { return w.Waiting == nil })
	h.reach(id, workspace.DesiredStandby, workspace.PhaseStandby)
}
