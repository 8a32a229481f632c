package ttl

import (
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
)

// A workspace that is wanted again within a minute should not have been put to sleep. It counts once as wrongly put to
// sleep.
func TestWrongSleeps(t *testing.T) {
	var s recentSleeps
	now := time.Now()
	s.add("early", now)
	s.add("late", now)
	row := func(id workspace.ID, d workspace.DesiredState) []store.Route {
		return []store.Route{{ID: id, Desired: d}}
	}
	for _, c := range []struct {
		name  string
		rows  []store.Route
		after time.Duration
		want  int
	}{
		{"its own sleep", row("early", workspace.DesiredStandby), 0, 0},
		{"wanted again", row("early", workspace.DesiredRunning), 50 * time.Second, 1},
		{"wanted once more", row("early", workspace.DesiredRunning), 51 * time.Second, 0},
		{"another one", row("other", workspace.DesiredRunning), 52 * time.Second, 0},
		{"wanted late", row("late", workspace.DesiredRunning), 61 * time.Second, 0},
	} {
		if got := s.wanted(c.rows, now.Add(c.after)); got != c.want {
			t.Errorf("%s: %d wrong sleeps, want %d", c.name, got, c.want)
		}
	}
	s.add("last", now.Add(2*time.Minute))
	if len(s.at) != 1 {
		t.Errorf("%d sleeps are kept, want the last one only", len(s.at))
	}
}
