package reconcile_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/backendtest/memory"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/store/storetest"
	"github.com/codehub/gateway/coordinator/workspace"
)

// TestResultsOfRestoresAreLost: if the result of a restore job is lost, another job runs, and no failure is counted. If
// every result is lost, the restore ends with an error that says so, and a recovery tries again.
func TestResultsOfRestoresAreLost(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	var losing, restores atomic.Int32
	work := h.backend.Work
	h.backend.Work = func(ctx context.Context, spec backend.JobSpec) (int64, error) {
		size, err := work(ctx, spec)
		if spec.Kind != workspace.JobRestore || err != nil {
			return size, err
		}
		if restores.Add(1); losing.Add(-1) >= 0 {
			return 0, &memory.LostError{Message: "the log is damaged"}
		}
		return size, nil
	}
	h.lead()
	id := h.create()
	h.reach(id, workspace.DesiredArchived, workspace.PhaseArchived)
	losing.Store(2)
	h.setDesired(id, workspace.DesiredRunning)
	if w := h.settles(id, workspace.PhaseRunning); w.ErrorCount != 0 || w.HomeCtx.Unread != 0 || restores.Load() != 3 {
		t.Errorf("after two lost results: %d failures, %d losses, %d restores", w.ErrorCount, w.HomeCtx.Unread, restores.Load())
	}
	if n := storetest.Value[int](t, h.store, `SELECT count(*)::int FROM workspace_history WHERE workspace_id = $1 AND kind = 'error'`, string(id)); n != 0 {
		t.Errorf("two lost results are %d errors in the history", n)
	}
	h.reach(id, workspace.DesiredArchived, workspace.PhaseArchived)
	losing.Store(1000)
	restores.Store(0)
	h.setDesired(id, workspace.DesiredRunning)
	w := h.settles(id, workspace.PhaseError)
	if w.ErrorReason != workspace.ReasonRetryExceeded || !strings.Contains(w.ErrorMessage, "the log is damaged") || restores.Load() != 3 {
		t.Errorf("%s %q after %d restores, want RetryExceeded after 3", w.ErrorReason, w.ErrorMessage, restores.Load())
	}
	losing.Store(0)
	if _, err := h.service.Recover(t.Context(), service.Actor{UserID: h.owner.UserID, Admin: true}, id, service.Choice{}); err != nil {
		t.Fatal(err)
	}
	h.controller.Wake(id)
	if w := h.settles(id, workspace.PhaseRunning); w.ErrorCount != 0 || w.HomeCtx.Unread != 0 {
		t.Errorf("after the recovery: %d failures, %d losses", w.ErrorCount, w.HomeCtx.Unread)
	}
}
