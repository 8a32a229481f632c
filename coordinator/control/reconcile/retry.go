package reconcile

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/codehub/gateway/coordinator/control/reconcile/internal/pull"
	"github.com/codehub/gateway/coordinator/tracing"
	"github.com/codehub/gateway/coordinator/workspace"
)

// backoff returns the pause after a number of consecutive failures: 1 s, 2 s, 4 s … 30 s, ±50 % (SPEC 1, contract 10).
// It depends only on that number, which is error_count in the row, so a new leader continues where the former one
// stopped. A library's backoff could not do that, because it counts in memory.
func backoff(failures int) time.Duration {
	d := 30 * time.Second
	if failures >= 1 && failures <= 5 {
		d = time.Second << (failures - 1)
	}
	return jitter(d)
}

// jitter varies a pause randomly, so that workspaces that wait for the same resource do not all try at the same time.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d) }

// pulls are the operations that may wait for an image: for the workspace's image, or for the image of storage jobs.
var pulls = map[workspace.Operation]bool{
	workspace.OpStarting: true, workspace.OpRestoring: true, workspace.OpArchiving: true,
}

// addPull adds the state of the image that w waits for.
func (l *loop) addPull(w workspace.Workspace, s *state, o *workspace.Observation) {
	if s.image != nil || w.Waiting.FailedPull() {
		o.Image = l.imageOf(w)
	}
	switch {
	case s.image == nil:
		return
	case !pulls[w.Operation], !s.image.jobs && s.image.of != o.Image: // another image was chosen
		s.dropImage()
		return
	}
	jobs, status := s.image.jobs, l.pulls.Status(s.image.pull)
	switch {
	case !status.Ended:
		o.Pull = &workspace.Pull{
			Image: status.Image, Queued: status.Queued, Done: status.Done, Total: status.Total, Jobs: jobs,
		}
	case status.Err != nil:
		o.Pull = &workspace.Pull{Image: status.Image, Failure: status.Err.Error(), Cause: causeOf(status.Err), Jobs: jobs}
		if jobs || o.Pull.Cause != "" {
			s.dropImage() // it waits, and the next attempt pulls it again
		}
	case !s.image.told:
		s.image.told = true
		l.trailOf(w).Done(tracing.Backend+"Pull", time.Since(s.image.began))
	}
}

// causeOf returns why another attempt to pull an image may succeed. It returns "" if none can.
func causeOf(err error) string {
	var pending *workspace.PendingError
	switch {
	case errors.As(err, &pending):
		return cmp.Or(pending.Pending.Cause, workspace.CauseUnknown)
	case errors.Is(err, pull.ErrStalled):
		return workspace.CauseTimeout
	case workspace.ReasonOf(err) == workspace.ReasonUnreachable:
		return workspace.CauseUnknown // the engine was away
	}
	return ""
}

// addOutdated records in o that the container of w waits to run, but would now be created differently, for example from
// another image.
func (l *loop) addOutdated(ctx context.Context, w workspace.Workspace, o *workspace.Observation) {
	if l.outdated == nil || o.Container == nil || o.Container.Pending == nil {
		return
	}
	if spec, err := l.launch(w); err == nil && l.outdated(ctx, spec) {
		container, pending := *o.Container, *o.Container.Pending
		pending.Outdated = true
		container.Pending, o.Container = &pending, &container
	}
}

// imageOf returns the image that the container of w would have now; empty if there is none.
func (l *loop) imageOf(w workspace.Workspace) string {
	spec, err := l.launch(w)
	if err != nil {
		return ""
	}
	return spec.Image
}
