package explain

import (
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
)

// TestWhenItSleeps: the explanation of a running workspace says when it will sleep if it is not used from now on.
func TestWhenItSleeps(t *testing.T) {
	hour := time.Hour
	for name, c := range map[string]struct {
		phase   workspace.Phase
		standby time.Duration
		change  func(*workspace.Workspace)
		want    time.Time
		nothing bool
	}{
		"since it runs":    {"RUNNING", hour, func(w *workspace.Workspace) { w.PhaseChangedAt = ago(10 * time.Minute) }, now.Add(50 * time.Minute), false},
		"since it is used": {"RUNNING", hour, func(w *workspace.Workspace) { w.LastAccessAt = ago(time.Minute) }, now.Add(59 * time.Minute), false},
		"kept awake": {"RUNNING", hour, func(w *workspace.Workspace) { w.KeepAwakeUntil = now.Add(4 * time.Hour) },
			now.Add(4 * time.Hour), false},
		"kept awake for less": {"RUNNING", hour, func(w *workspace.Workspace) {
			w.LastAccessAt, w.KeepAwakeUntil = now, now.Add(time.Minute)
		}, now.Add(time.Hour), false},
		"announced": {"RUNNING", hour, func(w *workspace.Workspace) { w.SleepAt = now.Add(time.Minute) }, now.Add(time.Minute), false},
		"something works in it": {"RUNNING", hour, func(w *workspace.Workspace) {
			w.Busy = &workspace.Busy{Reason: "BusyFile"}
		}, time.Time{}, true},
		"something works in it for too long": {"RUNNING", hour, func(w *workspace.Workspace) {
			w.Busy, w.SleepAt = &workspace.Busy{Reason: "BusyFile"}, now.Add(time.Minute)
		}, now.Add(time.Minute), false},
		"nothing puts it to sleep": {"RUNNING", 0, func(*workspace.Workspace) {}, time.Time{}, true},
		"asleep":                   {"STANDBY", hour, func(*workspace.Workspace) {}, time.Time{}, true},
		"deleted":                  {"RUNNING", hour, func(w *workspace.Workspace) { w.DeletedAt = now }, time.Time{}, true},
	} {
		if got := SleepDue(row(c.phase, "RUNNING", c.change), c.standby); !got.Equal(c.want) || got.IsZero() != c.nothing {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}
