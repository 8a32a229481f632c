package ttl

import (
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/internal/work"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
)

// TestDecideToDoze lists when an unused workspace dozes. It dozes after 5 minutes, and sleeps after 10; times are in
// seconds since its last use.
func TestDecideToDoze(t *testing.T) {
	settings := DefaultSettings()
	settings.Standby, settings.Doze = 10*time.Minute, 5*time.Minute
	never, late := settings, settings
	never.Doze, late.Doze = 0, settings.Standby
	idle := work.Verdict{Known: true}
	builds := work.Verdict{Known: true, Reason: workspace.BusyTerminal, Detail: "make"}
	for _, c := range []struct {
		name      string
		settings  Settings
		knows     int
		now, upTo int
		announced int
		awake     int // its owner keeps it awake until then; 0: not
		dozes     bool
		worked    bool
		verdict   work.Verdict
		stale     bool
		doze      bool
		sleep     bool
		again     time.Duration
	}{
		{name: "not yet", settings: settings, now: 280, upTo: 270, verdict: idle, again: 20 * time.Second},
		{name: "due", settings: settings, now: 310, upTo: 300, verdict: idle, doze: true, again: time.Minute},
		{name: "due, but a process may know of a use", settings: settings, now: 310, upTo: 299, verdict: idle, again: 15 * time.Second},
		{name: "due, but the verdict is an old one", settings: settings, now: 310, upTo: 300, verdict: idle, stale: true, again: 15 * time.Second},
		{name: "due, but nothing is known", settings: settings, now: 310, upTo: 300, again: 15 * time.Second},
		{name: "it works", settings: settings, now: 310, upTo: 300, verdict: builds, again: time.Minute},
		{name: "it has ended", settings: settings, now: 5000, upTo: 4990, worked: true, verdict: idle, again: 5 * time.Minute},
		{name: "it had ended", settings: settings, now: 5310, upTo: 5300, announced: 5600, verdict: idle, doze: true, again: time.Minute},
		{name: "it had ended a moment ago", settings: settings, now: 5290, upTo: 5280, announced: 5600, verdict: idle, again: 15 * time.Second},
		{name: "it is kept awake", settings: settings, now: 310, upTo: 300, awake: 370, verdict: idle, again: time.Minute},
		{name: "it was kept awake", settings: settings, now: 380, upTo: 370, awake: 370, verdict: idle, doze: true, again: time.Minute},
		{name: "it dozes", settings: settings, now: 400, upTo: 390, dozes: true, announced: 600, verdict: idle, again: time.Minute},
		{name: "it dozes, and its time is over", settings: settings, now: 630, upTo: 600, dozes: true, announced: 600, verdict: idle, sleep: true, again: time.Minute},
		{name: "found when it is to sleep", settings: settings, now: 630, upTo: 600, announced: 600, verdict: idle, sleep: true, again: time.Minute},
		{name: "an older process serves, too", settings: settings, knows: 17, now: 310, upTo: 300, verdict: idle, again: time.Minute},
		{name: "none dozes", settings: never, now: 310, upTo: 300, verdict: idle, again: time.Minute},
		{name: "later than it sleeps", settings: late, now: 590, upTo: 590, verdict: idle, again: time.Minute},
	} {
		time0 := func(seconds int) (zero time.Time) {
			if seconds == 0 {
				return zero
			}
			return at(seconds)
		}
		u := store.Unused{UsedAt: at(0), QuietSince: at(0), KeepAwakeUntil: time0(c.awake), SleepAt: time0(c.announced)}
		if c.dozes {
			u.DozeAt = at(300)
		}
		if c.worked {
			u.Busy = &workspace.Busy{Reason: workspace.BusyTerminal, Since: at(100)}
		}
		knows := c.knows
		if knows == 0 {
			knows = knowsDoze
		}
		got := decide(judged{Unused: u, verdict: c.verdict, fresh: !c.stale, now: at(c.now), upTo: at(c.upTo)}, c.settings.among(knows))
		if got.doze != c.doze || got.sleep != c.sleep {
			t.Errorf("%s: %+v", c.name, got)
		}
		if min(got.again, settings.Interval) != min(c.again, settings.Interval) {
			t.Errorf("%s: the next look is after %s, want %s", c.name, got.again, c.again)
		}
	}
}

// TestWhenItIsLookedAt: the first look at a workspace is early enough for two looks before it dozes or its sleep is
// announced.
func TestWhenItIsLookedAt(t *testing.T) {
	s := Settings{Interval: time.Minute, Standby: 10 * time.Minute, Doze: 5 * time.Minute, Notice: time.Minute}
	if got, want := s.unusedFor(), 5*time.Minute-2*15*time.Second-time.Minute; got != want {
		t.Errorf("before it dozes: from %s on, want %s", got, want)
	}
	s.Doze = time.Minute
	if got, want := s.unusedFor(), 30*time.Second; got != want { // a workspace in use is not looked at
		t.Errorf("before it dozes soon: from %s on, want %s", got, want)
	}
	s.Doze = 0
	if got, want := s.unusedFor(), 10*time.Minute-time.Minute-2*15*time.Second-time.Minute; got != want {
		t.Errorf("before it sleeps: from %s on, want %s", got, want)
	}
}
