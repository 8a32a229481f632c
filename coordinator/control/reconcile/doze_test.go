package reconcile_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/storetest"
	"github.com/codehub/gateway/coordinator/workspace"
)

// doze lets a running workspace doze, as the TTL runner does.
func (h *harness) doze(id workspace.ID) {
	h.t.Helper()
	dozes, err := h.store.Doze(h.t.Context(), id, time.Now().Add(time.Hour), store.DozingLimits{})
	if err != nil || !dozes {
		h.t.Fatalf("it dozes: %v, %v", dozes, err)
	}
	h.controller.Wake(id)
}

// seen waits until the controller has observed the container freeze or resume.
func (h *harness) seen(id workspace.ID, dozing bool) workspace.Workspace {
	h.t.Helper()
	return h.await(id, "the container to freeze or to go on", func(w workspace.Workspace) bool {
		return w.Conditions.True(workspace.Dozing) == dozing
	})
}

// health is the container's health, as the engine reports it.
func (h *harness) health(id workspace.ID) workspace.Health {
	h.t.Helper()
	all, err := h.backend.Containers(h.t.Context(), id)
	if err != nil {
		h.t.Fatal(err)
	}
	return all[id].Health
}

func TestDoze(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.lead()
	id := h.create()
	before := h.settles(id, workspace.PhaseRunning)
	h.doze(id)
	w := h.seen(id, true)
	if w.Phase != workspace.PhaseRunning || w.Endpoint != before.Endpoint || !w.PhaseChangedAt.Equal(before.PhaseChangedAt) || h.health(id) != workspace.HealthPaused {
		t.Errorf("%s at %q, container %q", w.Phase, w.Endpoint, h.health(id))
	}
	h.setDesired(id, workspace.DesiredRunning)
	w = h.seen(id, false)
	if w.Phase != workspace.PhaseRunning || w.Endpoint != before.Endpoint || !w.DozeAt.IsZero() || h.health(id) != "" {
		t.Errorf("it goes on: %s at %q, container %q", w.Phase, w.Endpoint, h.health(id))
	}
	// A use that only a gateway knew of.
	h.doze(id)
	h.seen(id, true)
	storetest.Set(t, h.store, id, "last_access_at = now(), doze_at = NULL, counted = true") // with a place
	h.controller.Wake(id)
	h.seen(id, false)
	// A dozing workspace can be put to sleep and archived without being thawed first.
	h.doze(id)
	h.seen(id, true)
	h.setDesired(id, workspace.DesiredArchived)
	h.settles(id, workspace.PhaseArchived)
	h.setDesired(id, workspace.DesiredRunning)
	if w = h.settles(id, workspace.PhaseRunning); h.health(id) != "" {
		t.Errorf("started again, its container is %q", h.health(id))
	}
	h.doze(id)
	h.seen(id, true)
	if err := h.service.Delete(t.Context(), h.owner, id, false); err != nil {
		t.Fatal(err)
	}
	h.controller.Wake(id)
	h.await(id, "a deleted workspace to lose its container", func(workspace.Workspace) bool {
		k, err := h.backend.Containers(t.Context(), id)
		return err == nil && len(k) == 0
	})
}

// TestNothingStaysFrozen: no container stays frozen by mistake if a leader ends between its save and its action, or if
// the engine refuses to freeze or thaw it.
func TestNothingStaysFrozen(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	type refusal struct {
		method string
		done   chan struct{}
	}
	var refuses atomic.Pointer[refusal] // the next call
	h.backend.Before = func(_ context.Context, method string, _ workspace.ID) error {
		if r := refuses.Load(); r != nil && r.method == method && refuses.CompareAndSwap(r, nil) {
			close(r.done)
			return errors.New("no")
		}
		return nil
	}
	h.lead()
	id := h.create()
	h.settles(id, workspace.PhaseRunning)
	started := func() time.Time {
		all, err := h.backend.Containers(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return all[id].StartedAt
	}
	// The former leader's call to freeze the container arrives when the workspace should no longer doze.
	h.resign()
	storetest.Set(t, h.store, id, `home_ctx = jsonb_set(home_ctx, '{dozed}', to_jsonb('`+started().UTC().Format(time.RFC3339Nano)+`'::text))`)
	if err := h.backend.Freeze(t.Context(), id, started()); err != nil {
		t.Fatal(err)
	}
	h.lead()
	h.await(id, "the container to go on", func(workspace.Workspace) bool { return h.health(id) == "" })
	// The leader ends after the container was frozen, and a user opens the workspace before there is another leader.
	h.doze(id)
	h.seen(id, true)
	h.resign()
	h.setDesired(id, workspace.DesiredRunning)
	h.lead()
	h.seen(id, false)
	// The engine first refuses to freeze the container, and later refuses to thaw it.
	for _, method := range []string{"Freeze", "Thaw"} {
		again := make(chan struct{})
		refuses.Store(&refusal{method, again})
		if method == "Freeze" {
			h.doze(id)
		} else {
			h.setDesired(id, workspace.DesiredRunning)
		}
		<-again
		h.seen(id, method == "Freeze")
	}
	if w := h.row(id); w.Phase != workspace.PhaseRunning || w.ErrorReason != "" {
		t.Errorf("%s %s", w.Phase, w.ErrorReason)
	}
}

// TestAPauseByAPersonStays: only containers that this program has frozen are thawed automatically.
func TestAPauseByAPersonStays(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.lead()
	id := h.create()
	h.settles(id, workspace.PhaseRunning)
	all, err := h.backend.Containers(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.backend.Freeze(t.Context(), id, all[id].StartedAt); err != nil {
		t.Fatal(err)
	}
	h.waits(id, workspace.WaitPaused)
	h.controller.Wake(id)
	h.setDesired(id, workspace.DesiredRunning)
	if h.health(id) != workspace.HealthPaused || h.row(id).Endpoint != "" {
		t.Error("it goes on")
	}
}
