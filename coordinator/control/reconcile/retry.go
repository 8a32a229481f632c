package reconcile

import (
	"math/rand/v2"
	"time"

	"github.com/codehub/gateway/coordinator/control/reconcile/internal/pull"
	"github.com/codehub/gateway/coordinator/workspace"
)

// retry is when the next attempt for a workspace is due. It holds only for what was
// asked for at the time: whoever asks for something else need not wait.
type retry struct {
	at        time.Time
	desired   workspace.DesiredState
	deleteNow bool
	recovery  string
	revert    string
}

// retryIn puts the next attempt off.
func (l *loop) retryIn(w workspace.Workspace, d time.Duration) {
	l.retries[w.ID] = retry{at: time.Now().Add(d), desired: w.DesiredState, deleteNow: w.DeleteNow, recovery: recoveryID(w), revert: w.OpenRevert()}
}

// backingOff reports whether the next attempt for w is not due yet.
func (l *loop) backingOff(w workspace.Workspace) bool {
	r, ok := l.retries[w.ID]
	return ok && time.Now().Before(r.at) &&
		r.desired == w.DesiredState && r.deleteNow == w.DeleteNow && r.recovery == recoveryID(w) && r.revert == w.OpenRevert()
}

func recoveryID(w workspace.Workspace) string {
	if w.Recovery == nil {
		return ""
	}
	return w.Recovery.ID
}

// due returns the workspaces whose next attempt is due, and forgets the times.
func (l *loop) due(now time.Time) []workspace.ID {
	var ids []workspace.ID
	for id, r := range l.retries {
		if !now.Before(r.at) {
			delete(l.retries, id)
			ids = append(ids, id)
		}
	}
	return ids
}

// backoff is the pause after a number of failures in a row: 1 s, 2 s, 4 s … 30 s,
// ±50 % (SPEC 1, contract 10). It is a function of error_count, which is in the row,
// so a new leader continues where the former one was. A library's backoff keeps its
// own count in memory and could not.
func backoff(failures int) time.Duration {
	d := 30 * time.Second
	if failures >= 1 && failures <= 5 {
		d = time.Second << (failures - 1)
	}
	return jitter(d)
}

// jitter spreads a pause, so that those who wait for the same thing do not ask at once.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d) }

// pulls are the operations that may wait for an image: the workspace's, or the jobs'.
var pulls = map[workspace.Operation]bool{
	workspace.OpStarting: true, workspace.OpRestoring: true, workspace.OpArchiving: true,
}

// awaited is an image that a workspace waits for. jobs says that it is that of storage jobs.
type awaited struct {
	pull *pull.Pull
	jobs bool
}

// addPull adds the state of the image that w waits for.
func (l *loop) addPull(w workspace.Workspace, o *workspace.Observation) {
	p, ok := l.pulling[w.ID]
	switch {
	case !ok:
		return
	case !pulls[w.Operation]:
		delete(l.pulling, w.ID)
		return
	}
	s := l.pulls.Status(p.pull)
	switch {
	case !s.Ended:
		o.Pull = &workspace.Pull{Image: s.Image, Queued: s.Queued, Done: s.Done, Total: s.Total, Jobs: p.jobs}
	case s.Err != nil:
		o.Pull = &workspace.Pull{Image: s.Image, Failure: s.Err.Error(), Jobs: p.jobs}
		if p.jobs {
			delete(l.pulling, w.ID) // it waits, and the next attempt pulls it again
		}
	}
}
