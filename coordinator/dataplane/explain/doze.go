package explain

import (
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
)

// dozeDue returns when an idle, running workspace will doze if it is not used from now on (SPEC 6). sleepAt is when it
// will sleep. It is zero if the workspace sleeps before that, or if dozing is off.
func dozeDue(w workspace.Workspace, d Delays, sleepAt time.Time) time.Time {
	if d.Doze <= 0 || d.Doze >= d.Standby {
		return time.Time{}
	}
	due := unusedSince(w).Add(d.Doze)
	// The end of work counts as a use. The time of that end can be computed from the announced time to sleep.
	if ended := w.SleepAt.Add(d.Doze - d.Standby); !w.SleepAt.IsZero() && ended.After(due) {
		due = ended
	}
	if w.KeepAwakeUntil.After(due) {
		due = w.KeepAwakeUntil
	}
	if !due.Before(sleepAt) {
		return time.Time{}
	}
	return due
}

// lateDoze is how many check intervals may pass after the time to doze. If the workspace does not doze by then, the
// explanation says that it cannot doze.
const lateDoze = 3

// doze explains when a workspace that will sleep at sleepAt will doze, or that it cannot doze. It says nothing about a
// workspace that dozes already.
func doze(now time.Time, w workspace.Workspace, d Delays, sleepAt time.Time) []Statement {
	due := dozeDue(w, d, sleepAt)
	switch {
	case due.IsZero(), w.Dozes():
		return nil
	case now.Sub(due) > lateDoze*d.TTLInterval && d.TTLInterval > 0:
		return []Statement{timed("CannotDoze", due, "explain.next.cannot_doze")}
	case due.Before(now): // the next check finds it
		due = now.Add(d.TTLInterval)
	}
	return []Statement{timed("Dozes", due, "explain.next.dozes")}
}
