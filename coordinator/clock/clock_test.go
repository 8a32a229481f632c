package clock

import (
	"testing"
	"time"
)

// TestElapsed: the clock that has advanced the most counts.
func TestElapsed(t *testing.T) {
	now := Now()
	for name, m := range map[string]Moment{
		"monotonic": {now.at.Add(-time.Hour), now.boot},
		"wall":      {now.at.Round(0).Add(-time.Hour), now.boot}, // no monotonic reading
		"boot":      {now.at, now.boot - time.Hour},
	} {
		if e := m.Elapsed(); e < time.Hour || e > time.Hour+time.Minute {
			t.Errorf("%s: %s, want an hour", name, e)
		}
	}
	if e := now.Elapsed(); e < 0 || e > time.Minute {
		t.Errorf("now was %s ago", e)
	}
	if !(Moment{}).IsZero() || now.IsZero() || !(Moment{}).Before(now) || now.Before(now) {
		t.Error("the order of moments is wrong")
	}
}
