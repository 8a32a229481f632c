package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/backendtest/memory"
	"github.com/codehub/gateway/coordinator/control/reconcile"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/store/storetest"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/storagejob/contract"
)

func TestWholeLoop(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.lead()
	id := h.create()
	if w := h.settles(id, workspace.PhaseRunning); w.Endpoint == "" || !w.HomeCtx.Dirty {
		t.Errorf("running with endpoint %q and %+v", w.Endpoint, w.HomeCtx)
	}
	h.setDesired(id, workspace.DesiredArchived)
	w := h.settles(id, workspace.PhaseArchived)
	if _, err := h.archives.Stat(t.Context(), w.ArchiveKey); err != nil || w.ArchiveOpID != "" || w.Endpoint != "" {
		t.Errorf("archived as %q (%v), op id %q, endpoint %q", w.ArchiveKey, err, w.ArchiveOpID, w.Endpoint)
	}
	if v, _ := h.backend.Volumes(t.Context(), id); len(v) != 0 {
		t.Error("the volume of an archived workspace is still there")
	}
	h.setDesired(id, workspace.DesiredRunning)
	h.settles(id, workspace.PhaseRunning)
	if err := h.service.Delete(t.Context(), h.owner, id, false); err != nil {
		t.Fatal(err)
	}
	h.controller.Wake(id)
	w = h.await(id, "only the archive to be left", func(w workspace.Workspace) bool {
		v, _ := h.backend.Volumes(t.Context(), id)
		k, _ := h.backend.Containers(t.Context(), id)
		return w.Operation == workspace.OpNone && len(v) == 0 && len(k) == 0
	})
	if w.Phase != workspace.PhaseDeleting {
		t.Errorf("phase %s while the archive exists, want DELETING", w.Phase)
	}
	if _, err := h.archives.Delete(t.Context(), []string{w.ArchiveKey, w.ArchiveKey + contract.MetaSuffix}); err != nil {
		t.Fatal(err)
	}
	h.controller.Wake(id)
	h.settles(id, workspace.PhaseDeleted)
}

func TestCreatedAsArchived(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	id := h.create()
	h.setDesired(id, workspace.DesiredArchived)
	h.lead()
	w := h.settles(id, workspace.PhaseArchived)
	if info, err := h.archives.Stat(t.Context(), w.ArchiveKey); err != nil || info.Size == 0 {
		t.Errorf("the empty archive: %+v, %v", info, err)
	}
}

// TestFailuresEndInErrorAndRecover also shows that an operation is retried.
func TestFailuresEndInErrorAndRecover(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	var broken atomic.Bool
	var starts atomic.Int32
	broken.Store(true)
	h.backend.Before = func(_ context.Context, method string, _ workspace.ID) error {
		if method == "Start" && broken.Load() {
			starts.Add(1)
			return memory.ErrRefused
		}
		return nil
	}
	h.lead()
	id := h.create()
	w := h.settles(id, workspace.PhaseError)
	if w.ErrorReason != workspace.ReasonRetryExceeded || !strings.Contains(w.ErrorMessage, memory.ErrRefused.Error()) || starts.Load() != 3 {
		t.Errorf("%s %q after %d starts, want RetryExceeded after 3", w.ErrorReason, w.ErrorMessage, starts.Load())
	}
	broken.Store(false)
	if _, err := h.service.Recover(t.Context(), service.Actor{UserID: h.owner.UserID, Admin: true}, id, service.Choice{}); err != nil {
		t.Fatal(err)
	}
	h.controller.Wake(id)
	if w := h.settles(id, workspace.PhaseRunning); w.ErrorCount != 0 || w.ErrorReason != "" || w.ErrorMessage != "" {
		t.Errorf("after recovery: %d %s %q", w.ErrorCount, w.ErrorReason, w.ErrorMessage)
	}
}

func TestCrashLoopKeepsTheLogTail(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.lead()
	id := h.create()
	for range 3 {
		h.settles(id, workspace.PhaseRunning)
		before := h.row(id)
		h.backend.Exit(id, 7, time.Second, "first\nout of \x00\xffmemory\n")
		h.await(id, "the crash to be counted", func(w workspace.Workspace) bool {
			return w.HomeCtx.Crashes != before.HomeCtx.Crashes || w.Phase == workspace.PhaseError
		})
	}
	w := h.settles(id, workspace.PhaseError)
	if !strings.Contains(w.ErrorMessage, "out of \uFFFDmemory") || !strings.Contains(w.ErrorMessage, "exit code 7") {
		t.Errorf("the message is %q", w.ErrorMessage)
	}
}

// TestABackendOutageFreezes: while the backend does not answer, nothing changes. A desired state that was set during
// the outage is reached after it (SPEC 2).
func TestABackendOutageFreezes(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	var outage atomic.Bool
	observed := make(chan struct{}, 1)
	h.backend.Before = func(_ context.Context, method string, _ workspace.ID) error {
		if method == "Containers" && outage.Load() {
			select {
			case observed <- struct{}{}:
			default:
			}
			return memory.ErrRefused
		}
		return nil
	}
	h.lead()
	id := h.create()
	before := h.settles(id, workspace.PhaseRunning)
	outage.Store(true)
	h.controller.WakeAll()
	<-observed // an observation that began before the outage has ended
	h.setDesired(id, workspace.DesiredStandby)
	for range 3 {
		<-observed
	}
	w := h.row(id)
	if w.Phase != workspace.PhaseRunning || w.Operation != workspace.OpNone || w.Endpoint != before.Endpoint ||
		w.Waiting == nil || w.Waiting.Reason != workspace.WaitBackendAway {
		t.Errorf("it became %s %s during the outage, and waits for %+v", w.Phase, w.Operation, w.Waiting)
	}
	outage.Store(false)
	h.settles(id, workspace.PhaseStandby)
}

// TestFormerLeaderChangesNothing: after another process took over, the former leader neither writes a row nor
// deletes anything.
func TestFormerLeaderChangesNothing(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	entered, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	var deletes atomic.Int32
	h.backend.Before = func(ctx context.Context, method string, _ workspace.ID) error {
		switch method {
		case "Delete":
			deletes.Add(1)
		case "Start":
			once.Do(func() {
				close(entered)
				<-release
			})
		}
		return ctx.Err()
	}
	h.lead()
	id := h.create()
	<-entered
	h.epoch() // another process leads
	before := h.row(id)
	close(release)
	other := h.create()
	h.await(other, "its row", func(workspace.Workspace) bool { return true })
	h.controller.WakeAll()
	k, err := h.backend.Containers(t.Context())
	for err == nil && len(k) == 0 {
		k, err = h.backend.Containers(t.Context())
	}
	h.resign()
	if w := h.row(id); w.Phase != before.Phase || w.Operation != before.Operation || !w.ObservedAt.Equal(before.ObservedAt) {
		t.Errorf("a former leader wrote %s %s over %s %s", w.Phase, w.Operation, before.Phase, before.Operation)
	}
	if w := h.row(other); w.Operation != workspace.OpNone || w.Phase != workspace.PhasePending {
		t.Errorf("a former leader claimed %s %s", w.Phase, w.Operation)
	}
	if deletes.Load() != 0 {
		t.Error("a former leader deleted a container")
	}
	h.lead() // the new leader continues from the present state
	h.settles(id, workspace.PhaseRunning)
	h.settles(other, workspace.PhaseRunning)
}

// TestKilledBetweenSaveAndAction ends the process after a decision was saved and before its actuator has an effect, for
// each actuator in turn. The next leader must bring the workspace to its desired state.
func TestKilledBetweenSaveAndAction(t *testing.T) {
	for _, method := range []string{"Provision", "Start", "Delete", "StartJob", "DeleteJobs", "DeleteVolume"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			died := make(chan struct{})
			var once sync.Once
			h.backend.Before = func(ctx context.Context, m string, _ workspace.ID) (err error) {
				if m == method {
					once.Do(func() {
						close(died)
						<-ctx.Done()
						err = ctx.Err()
					})
				}
				return err
			}
			h.lead()
			id := h.create()
			quit := h.quit
			go func() {
				<-died
				quit()
			}()
			for _, d := range []workspace.DesiredState{workspace.DesiredRunning, workspace.DesiredArchived, workspace.DesiredRunning} {
				if err := h.service.SetDesired(t.Context(), h.owner, id, d); err != nil && !errors.Is(err, service.ErrOperationInProgress) {
					t.Fatal(err)
				}
				h.controller.Wake(id)
				tick := time.NewTicker(5 * time.Millisecond)
				for w := h.row(id); w.Phase != workspace.Phase(d) || w.Operation != workspace.OpNone; w = h.row(id) {
					select {
					case <-died:
						h.resign()
						h.lead()
						died = nil
					case <-tick.C:
					}
					if w.Phase == workspace.PhaseError {
						t.Fatalf("%s: %s", w.ErrorReason, w.ErrorMessage)
					}
				}
				tick.Stop()
			}
			if died != nil {
				t.Fatalf("%s was never called", method)
			}
		})
	}
}

// TestIdleTickWritesNothing: converged workspaces are not written (SPEC 4).
func TestIdleTickWritesNothing(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	var observations atomic.Int32
	observed := make(chan struct{}, 64)
	h.backend.Before = func(_ context.Context, method string, _ workspace.ID) error {
		if method == "Jobs" {
			observations.Add(1)
			select {
			case observed <- struct{}{}:
			default:
			}
		}
		return nil
	}
	h.lead()
	var ids []workspace.ID
	for range 5 {
		ids = append(ids, h.create())
	}
	for _, id := range ids {
		h.settles(id, workspace.PhaseRunning)
	}
	versions := func() string {
		return storetest.Value[string](t, h.store, `SELECT string_agg(xmin::text, ' ' ORDER BY id) FROM workspaces`)
	}
	before, n := versions(), observations.Load()
	for observations.Load() < n+5 {
		h.controller.WakeAll()
		<-observed
	}
	if after := versions(); after != before {
		t.Errorf("rows were written: %s, before %s", after, before)
	}
}

func TestActuatorsAreBounded(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s := reconcile.DefaultSettings()
	s.MaxConcurrent = 3
	h.controller.Apply(s)
	var now, peak atomic.Int32
	full := make(chan struct{}, 100)
	release := make(chan struct{})
	h.backend.Before = func(ctx context.Context, method string, _ workspace.ID) error {
		if method != "Provision" {
			return nil
		}
		n := now.Add(1)
		defer now.Add(-1)
		for m := peak.Load(); n > m && !peak.CompareAndSwap(m, n); m = peak.Load() {
		}
		full <- struct{}{}
		select {
		case <-release:
		case <-ctx.Done():
		}
		return nil
	}
	h.lead()
	var ids []workspace.ID
	for range 12 {
		ids = append(ids, h.create())
	}
	for range 3 {
		<-full
	}
	close(release)
	for _, id := range ids {
		h.settles(id, workspace.PhaseRunning)
	}
	if peak.Load() != 3 {
		t.Errorf("%d actuators at once, want 3", peak.Load())
	}
}

// TestMissingVolume: if the volume of a workspace in RUNNING or STANDBY disappears, the workspace is DataLost. It does
// not start with an empty volume (SPEC 12.2).
func TestMissingVolume(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.lead()
	for _, p := range []workspace.Phase{workspace.PhaseRunning, workspace.PhaseStandby} {
		id := h.create()
		h.settles(id, workspace.PhaseRunning)
		if p == workspace.PhaseStandby {
			h.setDesired(id, workspace.DesiredStandby)
			h.settles(id, workspace.PhaseStandby)
		}
		h.backend.LoseVolume(id)
		if w := h.settles(id, workspace.PhaseError); w.ErrorReason != workspace.ReasonDataLost {
			t.Errorf("%s: %s %s", p, w.ErrorReason, w.ErrorMessage)
		}
	}
}

// TestLostUpload: the success of an archive job counts only if the archive exists.
func TestLostUpload(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	var jobs atomic.Int32
	succeed := h.backend.Work
	h.backend.Work = func(ctx context.Context, spec backend.JobSpec) (int64, error) {
		if jobs.Add(1) == 1 {
			return 1234, nil
		}
		return succeed(ctx, spec)
	}
	h.lead()
	id := h.create()
	h.settles(id, workspace.PhaseRunning)
	h.setDesired(id, workspace.DesiredArchived)
	w := h.settles(id, workspace.PhaseArchived)
	if jobs.Load() < 2 {
		t.Error("the lost upload was not repeated")
	}
	if _, err := h.archives.Stat(t.Context(), w.ArchiveKey); err != nil {
		t.Error(err)
	}
}

// TestCorruptArchiveIsTerminal: a restore that finds a wrong checksum is not retried.
func TestCorruptArchiveIsTerminal(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	succeed := h.backend.Work
	var restores atomic.Int32
	h.backend.Work = func(ctx context.Context, spec backend.JobSpec) (int64, error) {
		if spec.Kind == workspace.JobRestore {
			restores.Add(1)
			return 0, workspace.Fail(workspace.ReasonArchiveCorrupted, fmt.Errorf("the checksum differs"))
		}
		return succeed(ctx, spec)
	}
	h.lead()
	id := h.create()
	h.reach(id, workspace.DesiredArchived, workspace.PhaseArchived)
	h.setDesired(id, workspace.DesiredRunning)
	w := h.settles(id, workspace.PhaseError)
	if w.ErrorReason != workspace.ReasonArchiveCorrupted || restores.Load() != 1 || w.ArchiveKey == "" {
		t.Errorf("%s after %d restores, key %q", w.ErrorReason, restores.Load(), w.ArchiveKey)
	}
}

// A workspace that is created asleep does not start until it is opened.
func TestCreatedAsleep(t *testing.T) {
	t.Parallel()
	for desired, phase := range map[workspace.DesiredState]workspace.Phase{
		workspace.DesiredStandby: workspace.PhaseStandby, workspace.DesiredArchived: workspace.PhaseArchived,
	} {
		h := newHarness(t)
		h.lead()
		w, err := h.service.Create(t.Context(), h.owner, service.CreateInput{Name: "w", DesiredState: desired})
		if err != nil {
			t.Fatal(err)
		}
		h.controller.Wake(w.ID)
		h.settles(w.ID, phase)
		n := storetest.Value[int](t, h.store, `SELECT count(*) FROM workspace_history WHERE workspace_id = $1 AND new_value = 'STARTING'`, string(w.ID))
		if n != 0 {
			t.Errorf("%s: started %d times on its way to sleep", desired, n)
		}
		h.setDesired(w.ID, workspace.DesiredRunning)
		h.settles(w.ID, workspace.PhaseRunning)
		n = storetest.Value[int](t, h.store, `SELECT count(*) FROM workspace_history WHERE workspace_id = $1 AND new_value = 'STARTING'`, string(w.ID))
		if n != 1 {
			t.Errorf("%s: started %d times when it was opened", desired, n)
		}
	}
}
