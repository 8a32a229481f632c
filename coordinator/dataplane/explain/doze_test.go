package explain

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
)

// TestWhenItDozes: the explanation of a running workspace says when it will doze, if that is before it sleeps, or that
// it cannot doze.
func TestWhenItDozes(t *testing.T) {
	dozing := delays
	dozing.Doze = 5 * time.Minute
	never, late := dozing, dozing
	never.Doze, late.Doze = 0, late.Standby
	for _, c := range []struct {
		name   string
		delays Delays
		used   time.Duration // ago
		change func(*workspace.Workspace)
		next   []string
		says   string
	}{
		{name: "in use", delays: dozing, used: 3 * time.Minute, next: []string{"Dozes 14:02:00", "Sleeps 14:07:00"}, says: "It begins to doze at 2026-05-06 14:02:00 UTC unless it is used"},
		{name: "at the next check", delays: dozing, used: 6 * time.Minute, next: []string{"Dozes 14:01:00", "Sleeps 14:04:00"}},
		{name: "hindered", delays: dozing, used: 9 * time.Minute, next: []string{"CannotDoze 13:56:00", "Sleeps 14:01:00"}, says: "could have been dozing since 2026-05-06 13:56:00 UTC, but is not: the limit of dozing workspaces is reached"},
		{name: "after its work has ended", delays: dozing, used: time.Hour, change: func(w *workspace.Workspace) {
			w.SleepAt = now.Add(8 * time.Minute)
		}, next: []string{"Dozes 14:03:00", "Sleeps 14:08:00"}},
		{name: "kept awake for a while", delays: dozing, used: time.Minute, change: func(w *workspace.Workspace) {
			w.KeepAwakeUntil = now.Add(6 * time.Minute)
		}, next: []string{"KeptAwake 14:06:00", "Dozes 14:06:00", "Sleeps 14:09:00"}},
		{name: "kept awake for long", delays: dozing, used: time.Minute, change: func(w *workspace.Workspace) {
			w.KeepAwakeUntil = now.Add(time.Hour)
		}, next: []string{"KeptAwake 15:00:00", "Sleeps 15:00:00"}},
		{name: "busy", delays: dozing, used: 6 * time.Minute, change: func(w *workspace.Workspace) {
			w.Busy = &workspace.Busy{Reason: workspace.BusyTerminal}
		}, next: []string{"TerminalJob", "WorkCap 01:54:00"}},
		{name: "none dozes", delays: never, used: time.Minute, next: []string{"Sleeps 14:09:00"}},
		{name: "it sleeps before", delays: late, used: time.Minute, next: []string{"Sleeps 14:09:00"}},
	} {
		w := row("RUNNING", "RUNNING", func(w *workspace.Workspace) { w.LastAccessAt = ago(c.used) })
		if c.change != nil {
			c.change(&w)
		}
		e := Explain(now, w, c.delays, nil)
		if !slices.Equal(codes(e.Next), c.next) {
			t.Errorf("%s: next %q, want %q", c.name, codes(e.Next), c.next)
		}
		var said []string
		for _, s := range e.Next {
			complete(t, s.Text)
			said = append(said, s.Text["en"])
		}
		if text := strings.Join(said, " "); !strings.Contains(text, c.says) {
			t.Errorf("%s: %q does not say %q", c.name, text, c.says)
		}
	}
}
