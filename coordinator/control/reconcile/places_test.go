package reconcile_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/store/storetest"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// crowded is a harness whose controller enforces a limit of running workspaces per user. It counts the starts
// of containers.
type crowded struct {
	*harness
	starts *atomic.Int32
}

func crowd(t *testing.T, perUser int) crowded {
	t.Helper()
	h := crowded{newHarness(t), new(atomic.Int32)}
	h.backend.Before = func(_ context.Context, method string, _ workspace.ID) error {
		if method == "Start" {
			h.starts.Add(1)
		}
		return nil
	}
	h.limit(perUser)
	h.database = h.service.Limited()
	h.use(h.archives, h.log(), nil)
	h.lead()
	return h
}

func (h crowded) limit(perUser int) {
	h.service.SetLimits(service.Limits{PerUser: perUser, Global: 1000})
}

// dozing is a running workspace that has given its place up.
func (h crowded) dozing() workspace.ID {
	h.t.Helper()
	id := h.create()
	h.settles(id, workspace.PhaseRunning)
	h.doze(id)
	h.seen(id, true)
	return id
}

// places waits until that many workspaces hold a place.
func (h crowded) places(want int) {
	h.t.Helper()
	var n int
	wait.Until(h.t, "the places are taken", func() bool {
		n = storetest.Value[int](h.t, h.store, `SELECT count(*)::int FROM workspaces WHERE counted`)
		return n == want
	})
}

// rests waits until the workspace is in the phase p as desired, has no operation and does not doze.
func (h crowded) rests(id workspace.ID, p workspace.Phase) {
	h.t.Helper()
	h.await(id, "its rest", func(w workspace.Workspace) bool {
		return w.Phase == p && string(w.DesiredState) == string(p) && w.Operation == workspace.OpNone && w.DozeAt.IsZero() &&
			!w.Conditions.True(workspace.Dozing) && !w.Reverting()
	})
}

// kill ends the container, alone or with its engine.
func (h crowded) kill(id workspace.ID, withEngine bool) {
	h.backend.Exit(id, 137, time.Hour, "")
	h.backend.Change(id, func(k *workspace.Container) { k.Disrupted = withEngine })
}

// TestTheEndOfAContainerThatDozes: the container is started again if a place is free. Otherwise its workspace sleeps,
// and its container does not start.
func TestTheEndOfAContainerThatDozes(t *testing.T) {
	t.Parallel()
	for name, withEngine := range map[string]bool{"killed": false, "with its engine": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := crowd(t, 1)
			a := h.dozing()
			b := h.create() // in the place of the first
			h.settles(b, workspace.PhaseRunning)
			starts := h.starts.Load()
			h.kill(a, withEngine)
			h.rests(a, workspace.PhaseStandby)
			h.places(1)
			if n := h.starts.Load(); n != starts {
				t.Errorf("%d containers started without a place", n-starts)
			}
			h.setDesired(b, workspace.DesiredStandby)
			h.rests(b, workspace.PhaseStandby)
			h.setDesired(a, workspace.DesiredRunning)
			h.settles(a, workspace.PhaseRunning)
			h.doze(a)
			h.seen(a, true)
			h.places(0)
			h.kill(a, withEngine) // and its place is still free
			h.rests(a, workspace.PhaseRunning)
			h.places(1)
		})
	}
}

// TestAnEngineRestartWithSeveralThatDoze: as many start as there are places.
func TestAnEngineRestartWithSeveralThatDoze(t *testing.T) {
	t.Parallel()
	h := crowd(t, 1)
	ids := []workspace.ID{h.dozing(), h.dozing(), h.dozing(), h.dozing()}
	runs := h.create()
	h.settles(runs, workspace.PhaseRunning)
	h.limit(3)
	for _, id := range append(ids, runs) {
		h.kill(id, true)
	}
	h.rests(runs, workspace.PhaseRunning)
	h.places(3)
	asleep, awake := 0, 0
	for _, id := range ids {
		w := h.await(id, "its rest", func(w workspace.Workspace) bool {
			return w.Operation == workspace.OpNone && string(w.Phase) == string(w.DesiredState) && !w.Conditions.True(workspace.Dozing)
		})
		if w.Phase == workspace.PhaseRunning {
			awake++
		} else {
			asleep++
		}
	}
	if awake != 2 || asleep != 2 {
		t.Errorf("%d run and %d sleep, want 2 and 2", awake, asleep)
	}
}

// TestAnErrorThatEndsByItselfNeedsAPlace: a workspace that recovers from a transient error needs a place under the
// limits, too. Without one it is put to sleep.
func TestAnErrorThatEndsByItselfNeedsAPlace(t *testing.T) {
	t.Parallel()
	for _, free := range []bool{true, false} {
		h := crowd(t, 1)
		a := h.create()
		h.settles(a, workspace.PhaseRunning)
		// The start appeared to take too long.
		h.backend.Change(a, func(k *workspace.Container) { k.Ready = false })
		storetest.Set(t, h.store, a, `phase = 'ERROR', error_reason = 'Timeout', error_message = 'x', error_count = 1, conditions = '{}'`)
		h.places(0)
		places := 0
		if !free {
			h.settles(h.create(), workspace.PhaseRunning)
			places = 1
		}
		h.backend.Change(a, func(k *workspace.Container) { k.Ready = true })
		h.controller.Wake(a)
		if free {
			h.rests(a, workspace.PhaseRunning)
			h.places(1)
			continue
		}
		h.rests(a, workspace.PhaseStandby)
		h.places(places)
	}
}

// TestAnOlderArchiveOfOneThatDozes: a request to go back to an older archive of a dozing workspace is refused if there
// is no place for it. Otherwise the workspace keeps the place until it runs again.
func TestAnOlderArchiveOfOneThatDozes(t *testing.T) {
	t.Parallel()
	h := crowd(t, 1)
	a := h.dozing()
	key := a.ArchiveKey(uuid.NewString())
	if err := h.archives.CreateEmpty(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	b := h.create()
	h.settles(b, workspace.PhaseRunning)
	s := service.New(h.store, service.Options{Limits: service.Limits{PerUser: 1}, Inventory: older{key}})
	full := new(service.LimitError)
	if _, err := s.Revert(t.Context(), h.owner, a, key); !errors.As(err, &full) {
		t.Fatalf("without a place: %v", err)
	}
	if w := h.row(a); !w.Dozes() || w.Reverting() {
		t.Errorf("refused, it dozes since %s, reverting %v", w.DozeAt, w.Reverting())
	}
	h.setDesired(b, workspace.DesiredStandby)
	h.rests(b, workspace.PhaseStandby)
	if w, err := s.Revert(t.Context(), h.owner, a, key); err != nil || !w.DozeAt.IsZero() {
		t.Fatalf("with a place: %v, dozes since %s", err, w.DozeAt)
	}
	h.places(1)
	if _, err := s.Create(t.Context(), h.owner, service.CreateInput{Name: "c"}); !errors.As(err, &full) {
		t.Errorf("its place is taken while it goes back: %v", err)
	}
	h.controller.Wake(a)
	h.rests(a, workspace.PhaseRunning)
	h.places(1)
}

// older is an inventory with one archive.
type older struct{ key string }

func (o older) Inventory(context.Context, workspace.ID) (workspace.Inventory, error) {
	return workspace.Inventory{Archives: []workspace.ArchiveVersion{{Key: o.key}}}, nil
}

func (o older) Versions(context.Context, workspace.ID) ([]workspace.ArchiveVersion, error) {
	return []workspace.ArchiveVersion{{Key: o.key}}, nil
}
