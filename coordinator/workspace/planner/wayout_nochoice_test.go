package planner_test

import (
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
)

// settled reports whether the workspace is at rest: as desired, or in a state that requires a person's choice.
func (h *harness) settled() bool {
	r := h.row
	return r.Operation == workspace.OpNone && (r.Phase == workspace.Phase(r.DesiredState) && r.ErrorReason == "" || r.NeedsRecovery() != "")
}

// retry requests a recovery without a choice after all faults have ended. A workspace with its own volume reaches its
// desired state with its files. If it is unknown where its files are, it waits for a choice.
func retry(t *testing.T, s stuck) {
	h := s.harness()
	h.live(t, 2)
	reason := h.row.NeedsRecovery()
	if reason == "" || reason == workspace.ReasonDataLost || reason == workspace.ReasonConflict {
		return // it needs none, or the service refuses it without a choice
	}
	h.row.DesiredState = s.desired
	h.choose(workspace.Recovery{Choice: workspace.RecoverRetry})
	h.live(t, 40)
	r := h.row
	switch {
	case !h.settled():
		t.Errorf("retried: %s %s %s %q, waiting %+v", r.Phase, r.Operation, r.ErrorReason, r.ErrorMessage, r.Waiting)
	case s.volume == "A" && s.container != "beside" && (r.NeedsRecovery() != "" || h.version() != 2):
		t.Errorf("retried: %s %s %q with version %d of the files, although its volume is there", r.Phase, r.ErrorReason, r.ErrorMessage, h.version())
	case r.NeedsRecovery() != "" && !r.NeedsRecovery().DoubtsData():
		t.Errorf("retried: nothing is broken, and it is %s %s %q", r.Phase, r.ErrorReason, r.ErrorMessage)
	case r.NeedsRecovery() == "" && s.volume != "" && h.version() != 2:
		t.Errorf("retried: it has version %d of the files, and a volume with version 2 was there", h.version())
	}
}

// undelete deletes the workspace and undoes that in time. The files stay where they were, and the workspace
// comes to rest like one that was never deleted.
func undelete(t *testing.T, s stuck) {
	h := s.harness()
	h.live(t, 2)
	before := h.version()
	h.delete()
	h.live(t, 3)
	if h.row.Phase == workspace.PhaseDeleted {
		if before != 0 && h.version() != before {
			t.Errorf("deleted for good before its time, with version %d of the files; it had %d", h.version(), before)
		}
		return // nothing was left to keep
	}
	for range 5 { // an operation in progress comes first
		if h.row.Operation == workspace.OpNone {
			break
		}
		h.live(t, 1)
	}
	h.deleted = false
	h.row.DeletedAt, h.row.DesiredState = time.Time{}, workspace.DesiredArchived
	h.live(t, 40)
	if r := h.row; !h.settled() {
		t.Errorf("undeleted: %s %s %s %q, waiting %+v", r.Phase, r.Operation, r.ErrorReason, r.ErrorMessage, r.Waiting)
	} else if h.version() != before {
		t.Errorf("undeleted: it has version %d of the files, and had %d", h.version(), before)
	}
}

// expire lets the time pass for which the files of a deleted workspace are kept. Then the workspace is removed, unless
// it is in doubt whose files they are. In that case the files stay, and no time is promised.
func expire(t *testing.T, s stuck) {
	h := s.harness()
	h.live(t, 2)
	h.delete()
	h.now = h.now.Add(policy().KeepDeleted)
	h.live(t, 40)
	r := h.row
	gone := h.container == nil && h.volume == nil && (r.Phase == workspace.PhaseDeleted || r.AwaitsGC)
	kept := h.container == nil && h.volume != nil && r.Waiting != nil && r.Waiting.Reason == workspace.WaitKeptUntilGivenUp
	if r.Operation != workspace.OpNone || !gone && !kept {
		t.Errorf("its time is over: %s %s %s %q, waiting %+v, container %+v, volume %+v", r.Phase, r.Operation, r.ErrorReason, r.ErrorMessage, r.Waiting, h.container, h.volume)
	}
	if kept && s.volume == "A" && !s.reason.DoubtsData() {
		t.Errorf("its time is over, and its own volume stays without a limit: %s %q", r.ErrorReason, r.ErrorMessage)
	}
}

// delete deletes the workspace as its owner does.
func (h *harness) delete() {
	h.deleted = true
	h.row.DeletedAt, h.row.DesiredState = h.now, workspace.DesiredDeleted
}
