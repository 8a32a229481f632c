package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// TestABackendThatWaits: while a backend waits for something, the workspace shows that. The operation does not fail,
// and continues when the wait is over. If the state of a volume is uncertain, the container on it keeps running.
func TestABackendThatWaits(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	var starts, deletes atomic.Int32
	var full, refuses atomic.Bool
	full.Store(true)
	h.backend.Container = func(backend.StartSpec) (workspace.Container, error) {
		starts.Add(1)
		if full.Load() {
			return workspace.Container{}, fmt.Errorf("creating the Pod: %w", &workspace.PendingError{
				Pending: workspace.Pending{Reason: workspace.WaitQuota, Message: "the quota q is used up"}, Err: errors.New("403")})
		}
		return workspace.Container{Running: true, Ready: true, Volume: true, Endpoint: "127.0.0.1:1"}, nil
	}
	h.backend.Before = func(_ context.Context, method string, _ workspace.ID) error {
		if method != "Delete" {
			return nil
		}
		if deletes.Add(1); refuses.Load() {
			return &workspace.PendingError{Pending: workspace.Pending{Reason: workspace.WaitTerminating, Message: "node1 has not confirmed"}, Err: errors.New("no answer")}
		}
		return nil
	}
	h.lead()
	id := h.create()
	h.waits(id, workspace.WaitQuota)
	revision := h.row(id).Revision
	wait.Until(t, "it was tried again", func() bool { h.controller.WakeAll(); return starts.Load() > 2 })
	if w := h.row(id); w.Operation != workspace.OpStarting || w.ErrorCount != 0 || w.Revision != revision {
		t.Errorf("%s with %d errors, and the row was written %d times more", w.Operation, w.ErrorCount, w.Revision-revision)
	}
	full.Store(false)
	if w := h.settles(id, workspace.PhaseRunning); w.Waiting != nil {
		t.Errorf("it runs and waits for %+v", w.Waiting)
	}

	h.backend.Doubt(id, "its claim is being deleted")
	h.waits(id, workspace.WaitVolume)
	h.setDesired(id, workspace.DesiredStandby)
	var looks atomic.Int32
	h.guard.looked.Store(&looks)
	wait.Until(t, "it was looked at", func() bool { h.controller.WakeAll(); return looks.Load() > 5 })
	if w := h.row(id); w.Phase != workspace.PhaseRunning || w.Operation != workspace.OpNone || deletes.Load() != 0 {
		t.Errorf("%s %s, and %d attempts to stop it", w.Phase, w.Operation, deletes.Load())
	}
	refuses.Store(true)
	h.backend.Doubt(id, "")
	if w := h.waits(id, workspace.WaitTerminating); w.Operation != workspace.OpStopping || w.ErrorCount != 0 {
		t.Errorf("%s with %d errors", w.Operation, w.ErrorCount)
	}
	refuses.Store(false)
	h.settles(id, workspace.PhaseStandby)
}

// TestAContainerThatIsReplacedAtOnce: a backend may check a container before its first use, and replace it. That does
// not count as a failure, and no route leads to the old container.
func TestAContainerThatIsReplacedAtOnce(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	var starts atomic.Int32
	const again = 2
	h.backend.Container = func(backend.StartSpec) (workspace.Container, error) {
		n := starts.Add(1)
		return workspace.Container{
			Running: true, Ready: true, Volume: true, StartAgain: n <= again, Endpoint: fmt.Sprintf("127.0.0.1:%d", n),
		}, nil
	}
	h.lead()
	id := h.create()
	w := h.await(id, "it has an address", func(w workspace.Workspace) bool { return w.Endpoint != "" })
	if w.Phase != workspace.PhaseRunning || w.Endpoint != "127.0.0.1:3" || w.ErrorCount != 0 || w.Waiting != nil || starts.Load() != again+1 {
		t.Errorf("%s at %s with %d errors after %d starts, waits for %+v", w.Phase, w.Endpoint, w.ErrorCount, starts.Load(), w.Waiting)
	}
}
