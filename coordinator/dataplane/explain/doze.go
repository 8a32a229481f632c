package explain

import (
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
)

// dozeDue returns when an idle running workspace that sleeps at sleepAt will doze if it is not used from now on (SPEC
// 6). It is zero if the workspace sleeps before that, or if dozing is off.
func dozeDue(w workspace.Workspace, d Delays, sleepAt time.Time) time.Time {
	if d.Doze <= 0 || d.Doze >= d.Standby {
		return time.Time{}
	}
	due := unusedSince(w).Add(d.Doze)
	// The end of work counts like a use; its time follows from the announced time to sleep.
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

// lateDoze is the number of checks after which a workspace that should doze counts as hindered.
const lateDoze = 3

// doze says when a workspace that sleeps at sleepAt will doze, or that it cannot. It says nothing about a workspace
// that dozes already.
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
