package preview

import (
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
)

// tourRows returns a person's workspaces on an ordinary day, for the picture in the README.
func tourRows() []workspace.Workspace {
	now := time.Now()
	row := func(named, description string, phase workspace.Phase, used time.Duration, gigabytes float64,
		change ...func(*workspace.Workspace)) workspace.Workspace {
		w := rowOf(named, phase, change...)
		w.Description, w.LastAccessAt, w.Home.Bytes = description, now.Add(-used), int64(gigabytes*1e9)
		return w
	}
	const hour, day = time.Hour, 24 * time.Hour
	return numbered(
		row("thesis", "Simulations for chapter 4", workspace.PhaseRunning, 4*time.Minute, 3.4, func(w *workspace.Workspace) {
			w.Busy = &workspace.Busy{Reason: "TerminalJob", Detail: "make plots", Since: now.Add(-time.Minute)}
			w.GitURL = "https://git.example/physics/simulations.git"
		}),
		row("experiment", "A newer compiler", workspace.PhaseError, 2*hour, 0.2, func(w *workspace.Workspace) {
			w.ErrorReason, w.ErrorMessage, w.ErrorCount = workspace.ReasonImagePullFailed, "not found", 1
		}),
		row("notebooks", "Measurements, spring", workspace.PhaseArchived, 6*day, 11.2, func(w *workspace.Workspace) {
			w.Operation, w.OpStartedAt = workspace.OpRestoring, now.Add(-20*time.Second)
			w.DesiredState, w.Progress = workspace.DesiredRunning, progresses("unpack")[0]
		}),
		row("website", "The group's pages", workspace.PhaseStandby, 5*hour, 0.8),
		row("course", "Exercises, autumn", workspace.PhaseArchived, 9*day, 1.9),
		row("scratch", "", workspace.PhaseArchived, 40*day, 0.1),
	)
}
