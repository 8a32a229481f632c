package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/control/reconcile"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// never is an image whose pull never ends.
const never = "registry.example/never:1"

// hangs makes pulls of the image [never] hang. It returns the number of running ones.
func (h *harness) hangs() *atomic.Int32 {
	under := new(atomic.Int32)
	h.backend.Fetch = func(ctx context.Context, image string, progress func(done, total int64)) error {
		if image != never {
			return nil
		}
		under.Add(1)
		defer under.Add(-1)
		progress(1e6, 5e9)
		<-ctx.Done()
		return ctx.Err()
	}
	h.backend.Forget(never)
	return under
}

// TestAPullCanBeCancelled: while the image of a workspace is pulled, the owner puts the workspace to sleep, archives or
// deletes it, or chooses another image. The pull ends, and the workspace can be used as before.
func TestAPullCanBeCancelled(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	under := h.hangs()
	h.lead()
	stopped := func() {
		t.Helper()
		wait.Until(t, "the pull has ended", func() bool { return under.Load() == 0 })
	}
	pulls := func(id workspace.ID) {
		t.Helper()
		if w := h.waits(id, workspace.WaitPullingImage); w.Operation != workspace.OpStarting {
			t.Fatalf("%s waits for its image", w.Operation)
		}
	}

	id := h.createOf(never)
	pulls(id)
	h.setDesired(id, workspace.DesiredStandby)
	if w := h.settles(id, workspace.PhaseStandby); w.Waiting != nil || w.ErrorReason != "" {
		t.Errorf("asleep, it waits for %+v, %s", w.Waiting, w.ErrorReason)
	}
	stopped()
	h.setDesired(id, workspace.DesiredRunning)
	pulls(id)
	h.setDesired(id, workspace.DesiredArchived)
	h.settles(id, workspace.PhaseArchived)
	stopped()

	h.setDesired(id, workspace.DesiredRunning)
	pulls(id)
	other := ""
	if _, err := h.service.Update(t.Context(), h.owner, id, service.Patch{ImageRef: &other}); err != nil {
		t.Fatal(err)
	}
	h.controller.WakeAll()
	if w := h.settles(id, workspace.PhaseRunning); w.ErrorReason != "" {
		t.Errorf("with another image: %s", w.ErrorReason)
	}
	stopped()

	id = h.createOf(never)
	pulls(id)
	if err := h.service.Delete(t.Context(), h.owner, id, false); err != nil {
		t.Fatal(err)
	}
	h.controller.Wake(id)
	h.await(id, "its archive alone is left", func(w workspace.Workspace) bool { return w.AwaitsGC && w.Operation == workspace.OpNone })
	stopped()

	// A pull that others wait for continues.
	first, second := h.createOf(never), h.createOf(never)
	pulls(first)
	pulls(second)
	h.setDesired(first, workspace.DesiredStandby)
	h.settles(first, workspace.PhaseStandby)
	if n := under.Load(); n != 1 {
		t.Errorf("%d pulls are under way for the other one", n)
	}
}

// TestAStartThatTheBackendKeepsCanBeCancelled, and so can an archive and a restore. Nothing that they began is
// left afterwards.
func TestAStartThatTheBackendKeepsCanBeCancelled(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	var keeps atomic.Bool
	keeps.Store(true)
	full := fmt.Errorf("creating the Pod: %w", &workspace.PendingError{
		Pending: workspace.Pending{Reason: workspace.WaitQuota, Message: "the quota q is used up"}, Err: errors.New("403")})
	h.backend.Container = func(backend.StartSpec) (workspace.Container, error) {
		if keeps.Load() {
			return workspace.Container{}, full
		}
		return workspace.Container{Running: true, Ready: true, Volume: true, Endpoint: "127.0.0.1:1"}, nil
	}
	h.backend.Before = func(_ context.Context, method string, _ workspace.ID) error {
		if method == "StartJob" && keeps.Load() {
			return full
		}
		return nil
	}
	h.lead()
	id := h.create()
	h.waits(id, workspace.WaitQuota)
	h.setDesired(id, workspace.DesiredStandby)
	h.settles(id, workspace.PhaseStandby)
	h.setDesired(id, workspace.DesiredArchived)
	h.await(id, "the archive waits", func(w workspace.Workspace) bool { return w.Operation == workspace.OpArchiving && w.Waiting != nil })
	keeps.Store(false)
	h.setDesired(id, workspace.DesiredRunning)
	h.settles(id, workspace.PhaseRunning)
	h.reach(id, workspace.DesiredArchived, workspace.PhaseArchived)
	keeps.Store(true)
	h.setDesired(id, workspace.DesiredRunning)
	h.await(id, "the restore waits", func(w workspace.Workspace) bool { return w.Operation == workspace.OpRestoring && w.Waiting != nil })
	h.setDesired(id, workspace.DesiredArchived)
	h.settles(id, workspace.PhaseArchived)
	wait.Until(t, "no volume of the restore is left", func() bool {
		volumes, err := h.backend.Volumes(t.Context(), id)
		return err == nil && len(volumes) == 0
	})
	keeps.Store(false)
	h.setDesired(id, workspace.DesiredRunning)
	h.settles(id, workspace.PhaseRunning)
}

// replacing is a backend whose Start replaces a container that was started from another image. Kubernetes does that
// with a container that has not begun to run.
type replacing struct {
	reconcile.Backend
	image  atomic.Value // of the container that it has
	starts atomic.Int32
}

func (r *replacing) Start(ctx context.Context, s backend.StartSpec) error {
	r.starts.Add(1)
	if was := r.image.Swap(s.Image); was != nil && was != s.Image {
		if err := r.Backend.Delete(ctx, s.ID); err != nil {
			return err
		}
	}
	return r.Backend.Start(ctx, s)
}

// TestACorrectedImageReachesAContainerThatWaits for an image that does not come.
func TestACorrectedImageReachesAContainerThatWaits(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	engine := &replacing{Backend: h.backend}
	h.engine = engine
	h.outdated = func(_ context.Context, s backend.StartSpec) bool { return engine.image.Load() != s.Image }
	h.backend.Container = func(s backend.StartSpec) (workspace.Container, error) {
		if s.Image == never {
			return workspace.Container{Running: true, Volume: true, Health: workspace.HealthStarting,
				Pending: &workspace.Pending{Reason: workspace.WaitPullingImage, Message: "the node cannot fetch it"}}, nil
		}
		return workspace.Container{Running: true, Ready: true, Volume: true, Endpoint: "127.0.0.1:1"}, nil
	}
	h.use(h.archives, h.log(), nil)
	h.lead()
	id := h.createOf(never)
	h.waits(id, workspace.WaitPullingImage)
	other := ""
	if _, err := h.service.Update(t.Context(), h.owner, id, service.Patch{ImageRef: &other}); err != nil {
		t.Fatal(err)
	}
	h.controller.WakeAll()
	if w := h.settles(id, workspace.PhaseRunning); w.ErrorReason != "" || engine.starts.Load() != 2 {
		t.Errorf("%s, started %d times", w.ErrorReason, engine.starts.Load())
	}
}
