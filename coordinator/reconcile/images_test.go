package reconcile_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/codehub/gateway/coordinator/backend/memory"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// TestTheImageOfJobsIsPulled when the engine misses it: both directions wait for it and
// say so, without asking the engine over and over.
func TestTheImageOfJobsIsPulled(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	arrive := make(chan error)
	h.backend.Fetch = func(ctx context.Context, image string, progress func(done, total int64)) error {
		progress(120e6, 540e6)
		select {
		case err := <-arrive:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	var jobs atomic.Int32
	h.backend.Before = func(_ context.Context, method string, _ workspace.ID) error {
		if method == "StartJob" {
			jobs.Add(1)
		}
		return nil
	}
	h.lead()
	id := h.create()
	h.settles(id, workspace.PhaseRunning)
	for _, c := range []struct {
		during  workspace.Operation
		desired workspace.DesiredState
		phase   workspace.Phase
	}{
		{workspace.OpArchiving, workspace.DesiredArchived, workspace.PhaseArchived},
		{workspace.OpRestoring, workspace.DesiredStandby, workspace.PhaseStandby},
	} {
		h.backend.Forget(memory.JobImage)
		jobs.Store(0)
		h.setDesired(id, c.desired)
		if w := h.waits(id, workspace.WaitPullingImage); w.Operation != c.during {
			t.Errorf("%s waits for the image, want %s", w.Operation, c.during)
		}
		var looks atomic.Int32
		h.guard.looked.Store(&looks)
		wait.Until(t, "it was looked at", func() bool { h.controller.WakeAll(); return looks.Load() > 5 })
		if n := jobs.Load(); n != 1 {
			t.Errorf("%s: the job was started %d times without its image", c.during, n)
		}
		arrive <- nil
		h.settles(id, c.phase)
	}
	// An image that cannot be had leaves the intact volume in STANDBY.
	h.backend.Forget(memory.JobImage)
	h.setDesired(id, workspace.DesiredArchived)
	arrive <- workspace.Fail(workspace.ReasonImagePullFailed, errors.New("manifest unknown"))
	if w := h.waits(id, workspace.WaitArchiveFailed); w.Phase != workspace.PhaseStandby || w.ErrorReason != "" {
		t.Errorf("%s %s, want STANDBY", w.Phase, w.ErrorReason)
	}
}
