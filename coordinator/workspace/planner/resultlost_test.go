package planner_test

import (
	"strings"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/coordinator/workspace/planner"
)

// TestLostResultsHaveAnEnd: a storage job whose result was lost is run again without counting as a failure. If
// its result is lost each time, that ends in an error that explains it. A volume that is only being put away
// loses nothing by waiting.
func TestLostResultsHaveAnEnd(t *testing.T) {
	const cause = "its result could not be read: the log is damaged"
	for kind, op := range map[workspace.JobKind]workspace.Operation{workspace.JobRestore: workspace.OpRestoring, workspace.JobArchive: workspace.OpArchiving} {
		begin := func() (workspace.Workspace, workspace.Observation) {
			w, o := during(op, workspace.DesiredRunning)
			if kind == workspace.JobArchive {
				w, o = during(op, workspace.DesiredArchived)
			}
			w.OpStartedAt, w.HomeCtx.RestoreOpID, w.ArchiveOpID = now, "op", "op"
			if kind == workspace.JobRestore {
				w.ArchiveKey, w.Conditions = "key", conditions(false, true, false)
			}
			o.Jobs = []workspace.Job{{Kind: kind, OpID: "op", State: workspace.JobFailed, Reason: workspace.ReasonActionFailed, Message: cause, ResultLost: true}}
			return w, o
		}
		lost := 0
		for try := 1; try <= policy().MaxRetry; try++ {
			w, o := begin()
			w.HomeCtx.Unread = lost
			d := planner.Reconcile(now.Add(time.Second), w, o, false, policy())
			n := d.Next
			lost = n.HomeCtx.Unread
			if d.Action != planner.ActDeleteJobs || n.Operation != workspace.OpNone {
				t.Errorf("%s job, try %d: %s, %q", kind, try, n.Operation, d.Action)
			}
			switch {
			case try < policy().MaxRetry:
				if n.ErrorCount != 0 || n.ErrorReason != "" || waits(n) != workspace.WaitEvicted || !strings.Contains(n.Waiting.Message, cause) || d.Retry == 0 || d.Retry > 30*time.Second {
					t.Errorf("%s job, try %d: %s %d, again in %s, waits for %+v", kind, try, n.ErrorReason, n.ErrorCount, d.Retry, n.Waiting)
				}
			case kind == workspace.JobArchive:
				if n.Phase == workspace.PhaseError || waits(n) != workspace.WaitArchiveFailed || !strings.Contains(n.Waiting.Message, cause) || d.Retry == 0 {
					t.Errorf("%s job, the last try: %s, again in %s, waits for %+v", kind, n.Phase, d.Retry, n.Waiting)
				}
			default:
				if n.Phase != workspace.PhaseError || n.ErrorReason != workspace.ReasonRetryExceeded || n.ErrorCount != try || !strings.Contains(n.ErrorMessage, cause) {
					t.Errorf("%s job, the last try: %s %s %d %q", kind, n.Phase, n.ErrorReason, n.ErrorCount, n.ErrorMessage)
				}
			}
		}
		w, o := begin()
		w.HomeCtx.Unread, o.Jobs[0].State, o.Jobs[0].ResultLost = 2, workspace.JobSucceeded, false
		if kind == workspace.JobRestore {
			if n := planner.Reconcile(now, w, o, false, policy()).Next; n.HomeCtx.Unread != 0 {
				t.Errorf("an operation that is done leaves %d losses", n.HomeCtx.Unread)
			}
		}
	}
}
