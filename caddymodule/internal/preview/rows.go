package preview

import (
	"fmt"
	"slices"
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
)

// phaseRows returns one workspace in each phase.
func phaseRows(c states) (rows []workspace.Workspace) {
	for _, phase := range c.phases {
		rows = append(rows, rowOf(string(phase), phase))
	}
	return numbered(append(rows, rowOf(longName, workspace.PhaseRunning))...)
}

// operationRows returns one workspace in each operation, and in each step of a storage job.
func operationRows(c states) (rows []workspace.Workspace) {
	in := func(named string, op workspace.Operation, p *workspace.JobProgress) {
		rows = append(rows, rowOf(named, workspace.PhaseStandby, func(w *workspace.Workspace) {
			w.Operation, w.OpStartedAt, w.Progress = op, time.Now().Add(-20*time.Second), p
		}))
	}
	for _, op := range c.operations {
		in(string(op), op, nil)
	}
	for _, s := range jobSteps(c) {
		for _, p := range progresses(s.step) {
			in(s.step, s.op, p)
		}
	}
	return numbered(rows...)
}

// waitingRows returns one workspace for each reason for waiting.
func waitingRows(c states) (rows []workspace.Workspace) {
	for _, reason := range append(slices.Clone(c.waits), unknownReason) {
		rows = append(rows, rowOf(reason, workspace.PhaseStandby, func(w *workspace.Workspace) {
			w.Waiting, w.DesiredState = waitingFor(reason), workspace.DesiredRunning
		}))
	}
	return numbered(append(rows, rowOf("not-pulled-yet", workspace.PhaseStandby, func(w *workspace.Workspace) {
		w.Waiting, w.DesiredState = waitingFor(workspace.WaitPullingImage), workspace.DesiredRunning
		w.Waiting.Cause = workspace.CauseRateLimit
	}))...)
}

// failedRows returns one workspace for each reason of an error.
func failedRows(c states) (rows []workspace.Workspace) {
	for _, reason := range append(slices.Clone(c.reasons), unknownReason) {
		rows = append(rows, rowOf(string(reason), workspace.PhaseError, func(w *workspace.Workspace) {
			w.ErrorReason, w.ErrorMessage, w.ErrorCount = reason, "what the server said, for administrators", 3
		}))
	}
	return numbered(append(rows, rowOf("recovered", workspace.PhaseError))...)
}

// awakeRows returns workspaces that are awake but unused: one for each reason to stay awake, and some that are about to
// sleep.
func awakeRows(c states) (rows []workspace.Workspace) {
	soon := time.Now().Add(40 * time.Minute)
	for _, reason := range append(slices.Clone(c.busy), unknownReason) {
		rows = append(rows, rowOf(reason, workspace.PhaseRunning, func(w *workspace.Workspace) {
			w.Busy = &workspace.Busy{Reason: reason, Detail: "npm install", Since: time.Now().Add(-time.Hour)}
		}))
	}
	return numbered(append(rows,
		rowOf("kept", workspace.PhaseRunning, func(w *workspace.Workspace) { w.KeepAwakeUntil = soon }),
		rowOf("sleeps-soon", workspace.PhaseRunning, func(w *workspace.Workspace) { w.SleepAt = soon }),
		rowOf("dozing", workspace.PhaseRunning, dozes),
		rowOf("traffic", workspace.PhaseRunning, func(w *workspace.Workspace) {
			w.PageActivity = workspace.PageTraffic
		}),
		rowOf("never-used", workspace.PhaseRunning, func(w *workspace.Workspace) { w.LastAccessAt = time.Time{} }))...)
}

// dozes makes a running workspace doze.
func dozes(w *workspace.Workspace) {
	w.LastAccessAt, w.DozeAt = time.Now().Add(-57*time.Minute), time.Now().Add(-2*time.Minute)
	w.Conditions = w.Conditions.With(workspace.Dozing, true, workspace.ContainerDozing, "", w.DozeAt)
}

// fileRows returns workspaces whose files need a remark.
func fileRows() []workspace.Workspace {
	archived := func(w *workspace.Workspace) { w.ArchiveKey, w.ArchiveVerifiedAt = "new", time.Now().Add(-time.Hour) }
	damaged := func(w *workspace.Workspace) { w.ArchiveKey, w.ArchiveDamage = "new", "its checksum is another one" }
	return numbered(
		rowOf("archived", workspace.PhaseArchived, archived, func(w *workspace.Workspace) { // the one to continue with
			w.LastAccessAt = time.Now().Add(-30 * time.Minute)
		}),
		rowOf("going-back", workspace.PhaseStandby, archived, func(w *workspace.Workspace) {
			w.Revert = &workspace.Revert{ID: "1", Key: "old", At: time.Now()}
		}),
		rowOf("damaged", workspace.PhaseArchived, damaged),
		rowOf("damaged-beside-volume", workspace.PhaseStandby, damaged, func(w *workspace.Workspace) {
			w.Conditions = w.Conditions.With(workspace.VolumeReady, true, "", "", time.Now())
		}),
		rowOf("large", workspace.PhaseStandby, func(w *workspace.Workspace) { w.Home.Bytes = 3 * homeWarn }),
		rowOf("at-least", workspace.PhaseStandby, func(w *workspace.Workspace) { w.Home.AtLeast = true }),
		rowOf("not-measured", workspace.PhaseStandby, func(w *workspace.Workspace) { w.Home = workspace.HomeSize{} }),
	)
}

// homeWarn is the size from which a home counts as large.
const homeWarn = 20_000_000_000

// deletedRows returns deleted workspaces: idle, in an operation, and past the time to undo the deletion.
func deletedRows() []workspace.Workspace {
	deleted := func(since time.Duration, op workspace.Operation) func(*workspace.Workspace) {
		return func(w *workspace.Workspace) {
			w.DesiredState, w.DeletedAt, w.Operation = workspace.DesiredDeleted, time.Now().Add(-since), op
		}
	}
	rows := numbered(rowOf("deleted", workspace.PhaseDeleting, deleted(time.Hour, workspace.OpNone)),
		rowOf("being-deleted", workspace.PhaseStandby, deleted(time.Minute, workspace.OpDeleting)),
		rowOf("at-any-moment", workspace.PhaseDeleting, deleted(2*deletionDelay, workspace.OpNone)))
	for i := range rows {
		rows[i].ID = id(1000 + i)
	}
	return rows
}

// deletionDelay is how long a deletion can be undone.
const deletionDelay = 24 * time.Hour

// manyRows returns hundreds of workspaces.
func manyRows(c states) (rows []workspace.Workspace) {
	for i := range 300 {
		rows = append(rows, rowOf(fmt.Sprintf("workspace-%03d", i), c.phases[i%len(c.phases)]))
	}
	return numbered(rows...)
}
