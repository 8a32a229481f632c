package ttl

import (
	"time"

	"github.com/codehub/gateway/coordinator/internal/work"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
)

// judged is an unused workspace with the facts for the decision. Times are the database's.
type judged struct {
	store.Unused
	verdict work.Verdict
	stays   bool // do not try to let it doze
	fresh   bool // the verdict was made in this tick
	now     time.Time
	upTo    time.Time // all use until then is known
}

// worked reports whether the previous look found work.
func (j judged) worked() bool { return j.Busy != nil && j.Busy.Reason != workspace.BusyNoAnswer }

// decision is the result for a workspace.
type decision struct {
	busy    *workspace.Busy
	sleepAt time.Time
	sleep   bool   // now
	doze    bool   // now
	why     string // for the history
	// again is how long the next look can wait.
	again time.Duration
}

// decide decides whether an unused workspace stays awake, whether its sleep is announced, and whether it goes to sleep.
// TestDecide has a row for every case.
func decide(j judged, s Settings) decision {
	d := decision{busy: j.Busy, sleepAt: j.SleepAt, again: s.Interval}
	if !j.verdict.Known {
		d.again = s.gap()
		return d
	}
	d.busy = nil
	if reason := j.verdict.Reason; reason != "" {
		d.busy = &workspace.Busy{Reason: reason, Detail: j.verdict.Detail, Since: j.now}
		if j.Busy != nil {
			d.busy.Since = j.Busy.Since
		}
		if j.now.Sub(j.UsedAt) < s.Work.Cap {
			d.sleepAt = time.Time{}
			return d
		}
		d.why = "it is still busy (" + reason + "), but has been unused for longer than work may keep it awake, " +
			s.Work.Cap.String()
	}
	due := s.Due(j.UsedAt)
	soonest := later(due, j.now.Add(s.notice()))
	switch {
	case d.busy == nil && j.worked():
		// The TTL counts from the end of the work (SPEC 6), but only up to the cap on work. Without the cap, a
		// workspace that works now and then would stay awake forever.
		d.sleepAt = later(soonest, earlier(j.now.Add(s.Standby), j.UsedAt.Add(s.Work.Cap)))
	case d.sleepAt.Before(due): // also when nothing is announced yet
		d.sleepAt = soonest
	}
	if d.busy == nil && d.sleepAt.After(j.now) {
		d.doze, d.again = s.doze(j, d.sleepAt)
	}
	switch {
	case d.sleepAt.After(j.now):
		d.again = min(d.again, d.sleepAt.Sub(j.now))
	case j.upTo.Before(due):
		d.again = s.gap() // a process may still know of a use
	case !j.fresh:
		d.again = s.gap()
	default:
		d.sleep = true
	}
	return d
}

// notice is how long in advance the sleep of a workspace is announced.
func (s Settings) notice() time.Duration { return min(s.Notice, s.Standby/2) }

// Due returns the earliest time at which a workspace that was last used at usedAt may sleep.
func (s Settings) Due(usedAt time.Time) time.Time { return usedAt.Add(s.Standby) }

// gap is the least time between two comparable looks.
func (s Settings) gap() time.Duration {
	gap := min(longestGap, s.Standby/4)
	if s.Doze > 0 {
		gap = min(gap, s.Doze/4)
	}
	return gap
}

// longestGap is long enough to compare the CPU times of processes, which ps reports in whole seconds.
const longestGap = 15 * time.Second

// ahead is how long before the end of the TTL the first look at a workspace takes place. It is early enough for two
// looks before the announcement of the sleep.
func (s Settings) ahead() time.Duration { return s.notice() + 2*s.gap() + s.Interval }

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
