package reconcile_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/backendtest/memory"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/launch"
	"github.com/codehub/gateway/coordinator/store/storetest"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// TestTheImageOfJobsIsPulled: if the engine lacks the image of storage jobs, it is pulled. Archives and restores wait
// for the image and report that, without asking the engine again and again.
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
	// If the image cannot be pulled, the workspace stays in STANDBY with its intact volume.
	h.backend.Forget(memory.JobImage)
	h.setDesired(id, workspace.DesiredArchived)
	arrive <- workspace.Fail(workspace.ReasonImagePullFailed, errors.New("manifest unknown"))
	if w := h.waits(id, workspace.WaitJobImage); w.Phase != workspace.PhaseStandby || w.ErrorReason != "" {
		t.Errorf("%s %s, want STANDBY", w.Phase, w.ErrorReason)
	}
}

// TestAJobImageThatCannotBePulledIsWaitedFor: a workspace that needs the jobs' image does not go to ERROR while the
// image cannot be pulled. It continues without help once the image exists.
func TestAJobImageThatCannotBePulledIsWaitedFor(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	var there atomic.Bool
	var pulls atomic.Int32
	h.backend.Fetch = func(_ context.Context, image string, _ func(done, total int64)) error {
		if image != memory.JobImage || there.Load() {
			return nil
		}
		pulls.Add(1)
		return workspace.Fail(workspace.ReasonImagePullFailed, errors.New("manifest unknown"))
	}
	h.lead()
	id := h.create()
	h.reach(id, workspace.DesiredArchived, workspace.PhaseArchived)
	h.backend.Forget(memory.JobImage)
	h.setDesired(id, workspace.DesiredRunning)
	if w := h.waits(id, workspace.WaitJobImage); w.Phase == workspace.PhaseError || w.ErrorReason != "" || !strings.Contains(w.Waiting.Message, "manifest unknown") {
		t.Errorf("%s %s, waits for %+v", w.Phase, w.ErrorReason, w.Waiting)
	}
	wait.Until(t, "it is pulled again", func() bool { return pulls.Load() > 2 })
	if w := h.row(id); w.Phase == workspace.PhaseError || w.ErrorCount != 0 {
		t.Errorf("%s, %d failures", w.Phase, w.ErrorCount)
	}
	there.Store(true)
	h.settles(id, workspace.PhaseRunning)
}

// TestTheImageIsPulledDuringTheRestore: if the image of a workspace is missing, it is pulled while the home is
// restored, so that the user does not wait for one after the other.
func TestTheImageIsPulledDuringTheRestore(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	pulled, restore := make(chan string, 2), make(chan struct{})
	h.backend.Fetch = func(_ context.Context, image string, _ func(done, total int64)) error {
		pulled <- image
		return nil
	}
	work := h.backend.Work
	h.backend.Work = func(ctx context.Context, spec backend.JobSpec) (int64, error) {
		if spec.Kind == workspace.JobRestore {
			select {
			case <-restore:
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		}
		return work(ctx, spec)
	}
	h.lead()
	id := h.create()
	h.reach(id, workspace.DesiredArchived, workspace.PhaseArchived)
	h.backend.Forget(memory.DefaultImage)
	h.setDesired(id, workspace.DesiredRunning)
	select {
	case image := <-pulled:
		if w := h.row(id); image != memory.DefaultImage || w.Operation != workspace.OpRestoring {
			t.Errorf("%s is pulled during %s", image, w.Operation)
		}
	case <-time.After(wait.Timeout):
		t.Fatal("the image is not pulled during the restore")
	}
	close(restore)
	h.settles(id, workspace.PhaseRunning)

	// The controller does not pull an image that the engine has, nor the image of a workspace that should not run.
	h.reach(id, workspace.DesiredArchived, workspace.PhaseArchived)
	h.setDesired(id, workspace.DesiredRunning)
	h.reach(id, workspace.DesiredArchived, workspace.PhaseArchived)
	h.backend.Forget(memory.DefaultImage)
	h.setDesired(id, workspace.DesiredStandby)
	h.settles(id, workspace.PhaseStandby)
	if len(pulled) != 0 {
		t.Errorf("%s was pulled", <-pulled)
	}
}

// TestAnImageThatIsNotConfigured: if the workspace's image is not in the settings, its start fails immediately, because
// no other image may run on its files. Choosing another image starts the workspace.
func TestAnImageThatIsNotConfigured(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.lead()
	id := h.create()
	h.settles(id, workspace.PhaseRunning)
	storetest.Set(t, h.store, id, `image_ref = 'gone'`)
	if w := h.row(id); w.Phase != workspace.PhaseRunning {
		t.Fatalf("what runs was touched: %+v", w)
	}
	h.setDesired(id, workspace.DesiredStandby)
	h.settles(id, workspace.PhaseStandby)
	h.setDesired(id, workspace.DesiredRunning)
	w := h.settles(id, workspace.PhaseError)
	if w.ErrorReason != workspace.ReasonImagePullFailed || !strings.Contains(w.ErrorMessage, `"gone" is not in the setting images`) {
		t.Fatalf("it is in ERROR with %s: %s", w.ErrorReason, w.ErrorMessage)
	}
	other := launch.DefaultName
	if _, err := h.service.Update(t.Context(), h.owner, id, service.Patch{ImageRef: &other}); err != nil {
		t.Fatal(err)
	}
	h.controller.Wake(id)
	h.settles(id, workspace.PhaseRunning)
}

// TestAnImageThatCannotBePulledForNow: while the image cannot be pulled for a transient reason, the workspace waits and
// shows why. It does not go to ERROR, and continues without help. Its owner can request another attempt immediately.
func TestAnImageThatCannotBePulledForNow(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	var fails atomic.Pointer[error]
	var pulls atomic.Int32
	fails.Store(ptr(&workspace.PendingError{Pending: workspace.Pending{Reason: workspace.WaitPullingImage, Cause: workspace.CauseRateLimit}, Err: errors.New("toomanyrequests")}))
	h.backend.Fetch = func(context.Context, string, func(done, total int64)) error {
		if err := fails.Load(); err != nil {
			pulls.Add(1)
			return *err
		}
		return nil
	}
	h.backend.Forget(never)
	h.lead()
	id := h.createOf(never)
	w := h.await(id, "a second failure", func(w workspace.Workspace) bool { return w.Waiting.FailedPull() && w.Waiting.Tries > 1 })
	if w.Phase != workspace.PhaseStandby || w.ErrorReason != "" || w.ErrorCount != 0 || w.Waiting.Cause != workspace.CauseRateLimit || !strings.Contains(w.Waiting.Message, "toomanyrequests") {
		t.Errorf("%s %s, waits for %+v", w.Phase, w.ErrorReason, w.Waiting)
	}
	// The pause has become long. A requested start does not wait for its end.
	storetest.Exec(t, h.store, `UPDATE workspaces SET waiting = jsonb_set(waiting, '{tries}', '9') WHERE id = $1`, string(id))
	h.await(id, "a long pause", func(w workspace.Workspace) bool { return w.Waiting.FailedPull() && w.Waiting.Tries > 9 })
	before := pulls.Load()
	fails.Store(nil)
	h.setDesired(id, workspace.DesiredRunning)
	h.settles(id, workspace.PhaseRunning)
	if pulls.Load() != before {
		t.Errorf("%d pulls have failed since", pulls.Load()-before)
	}

	// An engine that was away is no error either.
	h.reach(id, workspace.DesiredStandby, workspace.PhaseStandby)
	h.backend.Forget(never)
	fails.Store(ptr(workspace.Fail(workspace.ReasonUnreachable, errors.New("no engine"))))
	h.setDesired(id, workspace.DesiredRunning)
	h.await(id, "another failure", func(w workspace.Workspace) bool { return w.Waiting.FailedPull() && w.ErrorReason == "" })
	h.setDesired(id, workspace.DesiredStandby)
	h.settles(id, workspace.PhaseStandby)
	// If the image can never be pulled, the workspace is in ERROR immediately, and its owner can start it again.
	fails.Store(ptr(workspace.Fail(workspace.ReasonImagePullFailed, errors.New("manifest unknown"))))
	h.setDesired(id, workspace.DesiredRunning)
	if w := h.settles(id, workspace.PhaseError); w.ErrorReason != workspace.ReasonImagePullFailed {
		t.Fatalf("%s", w.ErrorReason)
	}
	fails.Store(nil)
	h.setDesired(id, workspace.DesiredRunning)
	h.settles(id, workspace.PhaseRunning)
}
