package reconcile_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/store/storetest"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// TestTheRouteEndsBeforeTheContainer: by the time a container is deleted, its workspace's row no longer names an
// address. No other workspace gets that address yet.
func TestTheRouteEndsBeforeTheContainer(t *testing.T) {
	h := newHarness(t)
	h.backend.Pool = backend.Pool{Name: "loopback", First: 42000, Size: 1}
	h.use(h.archives, h.log(), nil)
	routed := make(chan string, 10)
	h.backend.Before = func(_ context.Context, method string, id workspace.ID) error {
		if method == "Delete" {
			routed <- storetest.Row(t, h.store, id).Endpoint
		}
		return nil
	}
	h.lead()
	defer h.resign()
	first := h.create()
	wait.Until(t, "the first runs at its address", func() bool {
		w := h.row(first)
		return w.Phase == workspace.PhaseRunning && w.Endpoint == "127.0.0.1:42000"
	})
	h.setDesired(first, workspace.DesiredStandby)
	if endpoint := <-routed; endpoint != "" {
		t.Errorf("the container is deleted while there is a route to %s", endpoint)
	}
	wait.Until(t, "the first sleeps", func() bool { return h.row(first).Phase == workspace.PhaseStandby })

	second := h.create()
	wait.Until(t, "the second finds no address", func() bool { return h.row(second).ErrorCount > 0 })
	if w := h.row(second); !strings.Contains(w.ErrorMessage, "none of the 1 addresses") || !strings.Contains(w.ErrorMessage, "docker subnet") {
		t.Errorf("it says %q", w.ErrorMessage)
	}
	h.setDesired(first, workspace.DesiredRunning)
	wait.Until(t, "the first has its own again", func() bool { return h.row(first).Endpoint == "127.0.0.1:42000" })
}

// TestAnAddressThatSomethingElseHas is skipped.
func TestAnAddressThatSomethingElseHas(t *testing.T) {
	h := newHarness(t)
	h.backend.Pool = backend.Pool{Name: "loopback", First: 42000, Size: 2}
	h.use(h.archives, h.log(), nil)
	h.backend.Container = func(s backend.StartSpec) (workspace.Container, error) {
		if s.Slot == 42000 {
			return workspace.Container{}, fmt.Errorf("port 42000: %w", backend.ErrAddressInUse)
		}
		return workspace.Container{Running: true, Ready: true, Volume: true, Endpoint: fmt.Sprintf("127.0.0.1:%d", s.Slot)}, nil
	}
	h.lead()
	id := h.create()
	wait.Until(t, "it runs at the other address", func() bool { return h.row(id).Endpoint == "127.0.0.1:42001" })
	if w := h.row(id); w.ErrorCount != 0 {
		t.Errorf("%d errors: %s", w.ErrorCount, w.ErrorMessage)
	}
}
