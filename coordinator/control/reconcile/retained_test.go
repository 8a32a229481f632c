package reconcile_test

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/codehub/gateway/coordinator/backend/backendtest/memory"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/storagejob/contract"
)

// TestNothingIsKeptOfEndedWorkspaces: the controller keeps nothing in memory about deleted workspaces. It also keeps
// nothing about the operations of archived workspaces, because these are rarely observed.
func TestNothingIsKeptOfEndedWorkspaces(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.lead()
	stays := h.create()
	var archived, deleted []workspace.ID
	for range 3 {
		archived, deleted = append(archived, h.create()), append(deleted, h.create())
	}
	ended := slices.Concat(archived, deleted)
	for _, id := range ended {
		h.settles(id, workspace.PhaseRunning)
	}
	h.backend.Forget(memory.JobImage) // it is pulled
	for _, id := range ended {
		h.setDesired(id, workspace.DesiredArchived)
	}
	for _, id := range ended {
		h.settles(id, workspace.PhaseArchived)
	}
	for _, id := range deleted {
		if err := h.service.Delete(t.Context(), h.owner, id, false); err != nil {
			t.Fatal(err)
		}
		h.controller.Wake(id)
		w := h.settles(id, workspace.PhaseDeleting)
		if _, err := h.archives.Delete(t.Context(), []string{w.ArchiveKey, w.ArchiveKey + contract.MetaSuffix}); err != nil {
			t.Fatal(err)
		}
		h.controller.Wake(id)
		h.settles(id, workspace.PhaseDeleted)
	}
	h.settles(stays, workspace.PhaseRunning)
	var looks atomic.Int32
	h.guard.looked.Store(&looks)
	wait.Until(t, "the loop has gone on", func() bool { h.controller.WakeAll(); return looks.Load() > 3 })
	loops := h.controller.Loops()
	h.resign()
	for _, l := range loops {
		// The test's engine may keep the remaining workspace, and the queue may keep workspaces to observe next.
		kept := slices.DeleteFunc(retainedIn(l), func(path string) bool { return strings.Contains(path, ".Engine.") || strings.Contains(path, ".queue.") })
		if len(kept) > 0 {
			t.Errorf("kept: %q", kept)
		}
	}
	if len(loops) != 1 {
		t.Errorf("%d loops", len(loops))
	}
}
