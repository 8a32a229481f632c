package ttl

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/logkey"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/workspace"
)

// knowsDoze is the number of the first migration that belongs to dozing. A process that knows this migration supports
// dozing.
const knowsDoze = 18

// KnowsDoze reports whether a process supports dozing.
func KnowsDoze(w postgres.Writer) bool { return w.Knows >= knowsDoze }

// Dozes reports whether idle workspaces doze before they sleep.
func (s Settings) Dozes() bool { return s.Doze > 0 && s.Doze < s.Standby }

// among returns the settings for a system in which knows is the newest migration that all processes know. A process of
// an older release that still serves requests would not wake a dozing workspace. So nothing dozes while such a process
// runs.
func (s Settings) among(knows int) Settings {
	if !s.Dozes() || knows < knowsDoze {
		s.Doze = 0
	}
	return s
}

// doze decides whether an idle workspace should doze now. It returns how long the next look can wait.
func (s Settings) doze(j judged, sleepAt time.Time) (now bool, again time.Duration) {
	due := s.dozeDue(j, sleepAt)
	switch {
	case due.IsZero(), !j.DozeAt.IsZero(), j.stays:
		return false, s.Interval
	case due.After(j.now):
		return false, max(due.Sub(j.now), s.gap())
	case j.upTo.Before(due), !j.fresh:
		return false, s.gap() // a process may still know of a use
	}
	return true, s.Interval
}

// dozeDue is the earliest time for an idle workspace to doze. It is measured from the last use and from the end of the
// work, as is the time to sleep (announced as sleepAt). Zero: never.
func (s Settings) dozeDue(j judged, sleepAt time.Time) time.Time {
	if s.Doze <= 0 {
		return time.Time{}
	}
	due := later(j.QuietSince.Add(s.Doze), sleepAt.Add(s.Doze-s.Standby))
	if j.KeepAwakeUntil.After(due) {
		return j.KeepAwakeUntil
	}
	return due
}

// unusedFor is how long a workspace must have been unused before the first look at it. It is short enough for two looks
// before the workspace dozes, and before its sleep is announced.
func (s Settings) unusedFor() time.Duration {
	unused := s.Standby - s.ahead()
	if s.Doze > 0 {
		unused = min(unused, max(s.Doze-2*s.gap()-s.Interval, s.Doze/2))
	}
	return unused
}

// unmadeAfter is the time within which the container must be frozen after the start of a doze. Freezing takes
// milliseconds. The rest of the time allows a new leader to take over, or a retry if the engine refuses once.
const unmadeAfter = 30 * time.Second

// endUnmade ends the dozes of workspaces that could not be frozen. Such a workspace dozes again only after it was used,
// or under another leader. Meanwhile the automatic requests of its pages need not wait.
func (r *Runner) endUnmade(ctx context.Context) error {
	ids, err := r.Store.EndUnmadeDozes(ctx, unmadeAfter)
	if r.looks == nil {
		r.looks = make(map[workspace.ID]*look)
	}
	for _, id := range ids {
		if r.looks[id] == nil {
			r.looks[id] = new(look)
		}
		r.looks[id].unmade, r.looks[id].swept = true, true
		r.Log.Warn("workspace could not be frozen; it runs on until it sleeps", zap.String(logkey.Workspace, string(id)))
	}
	return err
}

// endDozes ends all dozes when dozing is no longer allowed: because the settings changed, or because a process of an
// older release has started, which might also be the next leader.
func (r *Runner) endDozes(ctx context.Context, may bool) error {
	if may || r.ended {
		r.ended = !may
		return nil
	}
	err := r.Store.EndDozes(ctx)
	r.ended = err == nil
	return err
}
