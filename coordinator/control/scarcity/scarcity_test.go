package scarcity_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/backendtest/memory"
	"github.com/codehub/gateway/coordinator/control/scarcity"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/storetest"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// harness is a runner with a real database, and with an engine whose memory the test sets.
type harness struct {
	t       *testing.T
	store   *store.Store
	owner   string
	engine  *memory.Backend
	asked   atomic.Int32
	refused atomic.Bool // the engine does not answer
	log     *observer.ObservedLogs
	runner  *scarcity.Runner
}

func newHarness(t *testing.T, at float64) *harness {
	st := storetest.Open(t)
	core, log := observer.New(zapcore.InfoLevel)
	h := &harness{t: t, store: st, owner: storetest.AddUser(t, st), engine: memory.New(), log: log}
	t.Cleanup(func() { h.engine.Close() })
	h.engine.Before = func(_ context.Context, method string, _ workspace.ID) error {
		if method != "Memory" {
			return nil
		}
		refused := h.refused.Load()
		h.asked.Add(1)
		if refused {
			return memory.ErrRefused
		}
		return nil
	}
	h.runner = scarcity.New(scarcity.Options{
		Memory: h.engine.Parts().Memory, Store: st, Sleeper: service.New(st, service.Options{}),
		Identity: func(context.Context) error { return nil }, Log: zap.New(core),
	}, scarcity.Settings{At: at})
	return h
}

// run runs the runner until the end of the test, or until end is called.
func (h *harness) run() (end func()) {
	ctx, cancel := context.WithCancel(h.t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = h.runner.Run(ctx) })
	end = func() { cancel(); wg.Wait() }
	h.t.Cleanup(end)
	return end
}

// used sets the percentage of the memory in use.
func (h *harness) used(percent int64) {
	h.engine.SetMemory(backend.Memory{Total: 100, Available: 100 - percent})
}

// dozes adds a workspace that has dozed for that many minutes.
func (h *harness) dozes(minutes int) workspace.ID {
	h.t.Helper()
	w, _, err := h.store.Create(h.t.Context(), workspace.Workspace{ID: workspace.ID(uuid.NewString()), OwnerID: h.owner, Name: "w", InstanceBackend: "docker", StorageBackend: "docker"}, "test", store.Limits{})
	if err != nil {
		h.t.Fatal(err)
	}
	storetest.Set(h.t, h.store, w.ID, `phase = 'RUNNING', phase_changed_at = now() - interval '1 hour'`)
	storetest.Exec(h.t, h.store, `UPDATE workspaces SET doze_at = now() - make_interval(mins => $2) WHERE id = $1`, string(w.ID), minutes)
	return w.ID
}

// slept completes the sleep of the workspaces that were put to sleep: they are in STANDBY afterwards.
func (h *harness) slept() {
	storetest.Exec(h.t, h.store, `UPDATE workspaces SET phase = 'STANDBY' WHERE desired_state = 'STANDBY'`)
}

// awake returns which of them still doze.
func (h *harness) awake(all []workspace.ID) (awake []workspace.ID) {
	h.t.Helper()
	for _, id := range all {
		if storetest.Row(h.t, h.store, id).DesiredState == workspace.DesiredRunning {
			awake = append(awake, id)
		}
	}
	return awake
}

// look looks once. It fails the test unless exactly the last workspaces of all still doze; want is their number.
func (h *harness) look(all []workspace.ID, want int) {
	h.t.Helper()
	if err := h.runner.Look(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
	awake := h.awake(all)
	if len(awake) != want || want > 0 && awake[0] != all[len(all)-want] {
		h.t.Fatalf("%d doze, want the last %d of %d", len(awake), want, len(all))
	}
}

func (h *harness) lines(begin, end int) {
	h.t.Helper()
	if n := h.log.FilterMessageSnippet("memory runs short").Len(); n != begin {
		h.t.Errorf("%d lines that memory is short, want %d", n, begin)
	}
	if n := h.log.FilterMessageSnippet("keep their memory again").Len(); n != end {
		h.t.Errorf("%d lines that it is not any more, want %d", n, end)
	}
}

// TestTheLongestDozingSleepFirst: a few at a time, until memory is free again.
func TestTheLongestDozingSleepFirst(t *testing.T) {
	h := newHarness(t, scarcity.DefaultAt)
	var all []workspace.ID
	for i := range 10 {
		all = append(all, h.dozes(100-i))
	}
	h.run()()
	h.used(89)
	h.look(all, 10)
	h.used(95)
	end := h.run()
	h.runner.Wake()
	wait.Until(t, "the first to be put to sleep", func() bool { return len(h.awake(all)) == 6 })
	end() // from here on the test makes each look

	h.look(all, 6) // those on their way free memory, too
	if n := h.asked.Load(); n != 2 {
		t.Errorf("the memory was asked %d times, want 2", n)
	}
	h.slept()
	h.used(86) // below the mark, but not far enough
	h.look(all, 2)
	h.slept()
	h.used(84)
	h.look(all, 2)
	h.used(89)
	h.look(all, 2)
	h.lines(1, 1)
	h.engine.SetMemory(backend.Memory{Total: 100, Available: 90, Stalled: 0.12}) // a program waits at its own limit
	h.look(all, 2)
	h.engine.SetMemory(backend.Memory{Total: 100, Available: 50, Stalled: 0.12})
	h.look(all, 0)
	h.lines(2, 1)

	cause := storetest.Value[string](t, h.store, `SELECT cause FROM workspace_history WHERE workspace_id = $1 AND new_value = 'STANDBY'`, string(all[0]))
	message := storetest.Value[string](t, h.store, `SELECT message FROM workspace_history WHERE workspace_id = $1 AND new_value = 'STANDBY'`, string(all[0]))
	if cause != "memory" || !strings.Contains(message, "95% of it") {
		t.Errorf("the history says %q, %q", cause, message)
	}
}

// TestNothingIsAskedWhileNothingDozes, nor while the feature is off.
func TestNothingIsAskedWhileNothingDozes(t *testing.T) {
	h := newHarness(t, scarcity.DefaultAt)
	h.used(99)
	running := h.dozes(10)
	storetest.Set(t, h.store, running, `last_access_at = now()`)
	h.run()()
	h.look([]workspace.ID{running}, 1)
	if n := h.asked.Load(); n != 0 {
		t.Errorf("the memory was asked %d times although nothing dozes", n)
	}
	dozing := h.dozes(10)
	h.runner.Set(scarcity.Settings{})
	h.look([]workspace.ID{dozing}, 1)
	if n := h.asked.Load(); n != 0 {
		t.Errorf("the memory was asked %d times although it is off", n)
	}
	h.runner.Set(scarcity.DefaultSettings())
	h.look([]workspace.ID{dozing}, 0)
	h.runner.Set(scarcity.Settings{})
	h.look(nil, 0)
	h.lines(1, 1)
}

// TestAnEngineThatDoesNotAnswer changes nothing, and is reported once.
func TestAnEngineThatDoesNotAnswer(t *testing.T) {
	h := newHarness(t, scarcity.DefaultAt)
	all := []workspace.ID{h.dozes(10)}
	h.used(99)
	h.refused.Store(true)
	h.run()
	for i := range 3 {
		h.runner.Wake()
		wait.Until(t, "the memory to be asked", func() bool { return h.asked.Load() == int32(i+1) })
	}
	h.refused.Store(false)
	h.used(10)
	h.runner.Wake()
	wait.Until(t, "an answer", func() bool { return h.log.FilterMessageSnippet("works again").Len() == 1 })
	if n := h.log.FilterMessageSnippet("failed; it is retried").Len(); n != 1 {
		t.Errorf("%d lines, want 1", n)
	}
	if len(h.awake(all)) != 1 {
		t.Error("it was put to sleep")
	}
}

// TestAnotherEngine: its memory is ignored.
func TestAnotherEngine(t *testing.T) {
	h := newHarness(t, scarcity.DefaultAt)
	all := []workspace.ID{h.dozes(10)}
	h.used(99)
	h.runner.Identity = func(context.Context) error { return errors.New("another one") }
	h.run()()
	h.look(all, 1)
	if n := h.asked.Load(); n != 0 {
		t.Errorf("it was asked %d times", n)
	}
}
