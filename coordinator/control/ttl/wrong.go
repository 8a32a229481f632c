package ttl

import (
	"sync"
	"time"

	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
)

// wrongWithin is a time after a sleep. If the workspace is wanted again within it, it counts as wrongly put to sleep.
const wrongWithin = time.Minute

// recentSleeps are the workspaces that were put to sleep at most [wrongWithin] ago, with the times of their sleeps.
type recentSleeps struct {
	mu sync.Mutex // guards the following
	at map[workspace.ID]time.Time
}

func (s *recentSleeps) add(id workspace.ID, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at == nil {
		s.at = make(map[workspace.ID]time.Time)
	}
	for other, at := range s.at {
		if now.Sub(at) > wrongWithin {
			delete(s.at, other)
		}
	}
	s.at[id] = now
}

// wanted counts the recent sleeps whose workspaces are wanted again according to rows, and forgets them.
func (s *recentSleeps) wanted(rows []store.Route, now time.Time) (wrong int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range rows {
		at, slept := s.at[rows[i].ID]
		if !slept || rows[i].Desired != workspace.DesiredRunning {
			continue
		}
		delete(s.at, rows[i].ID)
		if now.Sub(at) <= wrongWithin {
			wrong++
		}
	}
	return wrong
}

// Changed counts workspaces that are wanted again soon after this process has put them to sleep. The feed calls it.
func (r *Runner) Changed(rows []store.Route, _ int64) {
	for range r.slept.wanted(rows, r.now()) {
		r.Metrics.WrongSleep()
	}
}

// Reset does nothing. The feed calls it.
func (r *Runner) Reset(int64) {}
