package ttl

import (
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/internal/work"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
)

// TestDecide lists the decisions about an unused workspace. The TTL is 10 minutes; times are in seconds since
// its last use.
func TestDecide(t *testing.T) {
	settings := DefaultSettings()
	settings.Standby, settings.Doze = 10*time.Minute, 0 // see TestDecideToDoze
	short := settings
	short.Standby = time.Minute
	capped := settings
	capped.Work.Cap = time.Hour
	idle := work.Verdict{Known: true}
	builds := work.Verdict{Known: true, Reason: workspace.BusyTerminal, Detail: "make"}
	busy := func(since int) *workspace.Busy {
		return &workspace.Busy{Reason: workspace.BusyTerminal, Detail: "make", Since: at(since)}
	}
	for _, c := range []struct {
		name     string
		settings Settings
		now      int
		upTo     int // all use is known up to then
		was      *workspace.Busy
		announced,
		sleepAt int // 0: not announced
		verdict work.Verdict
		stale   bool
		busy    *workspace.Busy
		sleep   bool
		why     bool
		again   time.Duration
	}{
		{name: "before the second look", settings: settings, now: 500, upTo: 490, again: 15 * time.Second},
		{name: "before the second look of a new leader", settings: settings, now: 900, upTo: 890, was: busy(500), announced: 850, sleepAt: 850, busy: busy(500), again: 15 * time.Second},
		{name: "nothing goes on", settings: settings, now: 520, upTo: 510, verdict: idle, sleepAt: 600, again: 80 * time.Second},
		{name: "nothing goes on, found late", settings: settings, now: 700, upTo: 690, verdict: idle, sleepAt: 760, again: time.Minute},
		{name: "announced", settings: settings, now: 580, upTo: 570, announced: 600, sleepAt: 600, verdict: idle, again: 20 * time.Second},
		{name: "due", settings: settings, now: 630, upTo: 600, announced: 600, sleepAt: 600, verdict: idle, sleep: true, again: time.Minute},
		{name: "due, but a process may know of a use", settings: settings, now: 620, upTo: 599, announced: 600, sleepAt: 600, verdict: idle, again: 15 * time.Second},
		{name: "due, but the verdict is an old one", settings: settings, now: 630, upTo: 600, announced: 600, sleepAt: 600, verdict: idle, stale: true, again: 15 * time.Second},
		{name: "announced for before a longer TTL", settings: settings, now: 400, upTo: 390, announced: 60, sleepAt: 600, verdict: idle, again: 200 * time.Second},
		{name: "it works", settings: settings, now: 520, upTo: 510, verdict: builds, busy: busy(520), again: time.Minute},
		{name: "it works after the announcement", settings: settings, now: 600, upTo: 600, announced: 600, verdict: builds, busy: busy(600), again: time.Minute},
		{name: "it still works", settings: settings, now: 5000, upTo: 4990, was: busy(520), verdict: builds, busy: busy(520), again: time.Minute},
		{name: "it has ended", settings: settings, now: 5000, upTo: 4990, was: busy(520), verdict: idle, sleepAt: 5600, again: 10 * time.Minute},
		{name: "it had ended", settings: settings, now: 5550, upTo: 5540, announced: 5600, sleepAt: 5600, verdict: idle, again: 50 * time.Second},
		{name: "it ends shortly before the cap", settings: capped, now: 3500, upTo: 3490, was: busy(520), verdict: idle, sleepAt: 3600, again: 100 * time.Second},
		{name: "it ends after the cap", settings: capped, now: 3650, upTo: 3640, was: busy(520), announced: 3660, verdict: idle, sleepAt: 3710, again: time.Minute},
		{name: "it answers again", settings: settings, now: 5000, upTo: 4990, was: &workspace.Busy{Reason: workspace.BusyNoAnswer, Since: at(520)}, verdict: idle, sleepAt: 5060, again: time.Minute},
		{name: "the cap is reached", settings: capped, now: 3600, upTo: 3590, was: busy(520), verdict: builds, busy: busy(520), sleepAt: 3660, why: true, again: time.Minute},
		{name: "the cap is over", settings: capped, now: 3660, upTo: 3650, was: busy(520), announced: 3660, sleepAt: 3660, verdict: builds, busy: busy(520), sleep: true, why: true, again: time.Minute},
		{name: "no answer, and the cap is over", settings: capped, now: 3660, upTo: 3650, announced: 3660, sleepAt: 3660,
			verdict: work.Verdict{Known: true, Reason: workspace.BusyNoAnswer}, busy: &workspace.Busy{Reason: workspace.BusyNoAnswer, Since: at(3660)}, sleep: true, why: true, again: time.Minute},
		{name: "a short TTL is announced for half of it", settings: short, now: 10, upTo: 5, verdict: idle, sleepAt: 60, again: 50 * time.Second},
		{name: "a short TTL, found late", settings: short, now: 60, upTo: 50, verdict: idle, sleepAt: 90, again: 30 * time.Second},
	} {
		u := store.Unused{UsedAt: at(0), Busy: c.was}
		time0 := func(seconds int) (zero time.Time) {
			if seconds == 0 {
				return zero
			}
			return at(seconds)
		}
		u.SleepAt = time0(c.announced)
		got := decide(judged{Unused: u, verdict: c.verdict, fresh: !c.stale, now: at(c.now), upTo: at(c.upTo)}, c.settings)
		if !got.sleepAt.Equal(time0(c.sleepAt)) || got.sleep != c.sleep || (got.why != "") != c.why {
			t.Errorf("%s: %+v", c.name, got)
		}
		if got.again > settings.Interval {
			got.again = min(got.again, c.again) // beyond the interval it does not matter
		}
		if got.again != c.again && c.again <= settings.Interval {
			t.Errorf("%s: the next look is after %s, want %s", c.name, got.again, c.again)
		}
		if !sameBusy(got.busy, c.busy) || got.busy != nil && !got.busy.Since.Equal(c.busy.Since) {
			t.Errorf("%s: busy %+v, want %+v", c.name, got.busy, c.busy)
		}
	}
}
