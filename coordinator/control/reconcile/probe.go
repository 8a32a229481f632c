package reconcile

import (
	"context"
	"time"

	"github.com/codehub/gateway/coordinator/control/reconcile/internal/actuator"
	"github.com/codehub/gateway/coordinator/control/reconcile/internal/observation"
	"github.com/codehub/gateway/coordinator/guard"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/coordinator/workspace/planner"
)

// maxProbes bounds the concurrent probes.
const maxProbes = 16

// addArchives adds the answer p of the object store to o, if it is about the present state of w. The answer must have
// been fresh when the observation began. By now it may be older, because listing may take the backend longer than an
// answer stays fresh. If such answers were not used, every answer would be too old for a decision.
func addArchives(began time.Time, w workspace.Workspace, p *observation.Answer, o *workspace.Observation) {
	if p == nil || !p.About(began, w) {
		return
	}
	o.Archive, o.Upload, o.Chosen, o.Younger, o.Store = p.Found, p.Uploaded, p.Chosen, p.Younger, p.Store
	o.UploadSize, o.UploadSHA256 = p.Size, p.Sum
}

// startProbe asks the object store in parallel to the loop. The answer requests the next observation.
func (l *loop) startProbe(ctx context.Context, w workspace.Workspace, ask planner.Ask) {
	q := observation.Question{Row: w, Archive: ask.Archive, Upload: ask.Upload, Bucket: ask.Bucket}
	l.of(q.Row.ID).busy = true
	l.wg.Go(func() {
		select {
		case l.probes <- struct{}{}:
			defer func() { <-l.probes }()
		case <-ctx.Done():
			return
		}
		var p observation.Answer
		err := guard.Call(guard.Workspace, func() (err error) {
			p, err = observation.Store{Archives: l.archives, Identity: l.identity}.Ask(ctx, q)
			return err
		})
		l.send(ctx, result{task: task{Call: actuator.Call{Row: q.Row}}, answer: &p, err: err})
	})
}

// probeDone handles an answer. When the object store is back, the workspaces that wait for it are observed immediately,
// and not only at their next attempt.
func (l *loop) probeDone(p *observation.Answer, err error) {
	l.of(p.Question.Row.ID).answer = p
	if err != nil {
		if p.Store.State != workspace.StoreMismatch { // the guard logs it
			l.probing.Failed(err)
		}
		return
	}
	l.probing.Recovered()
	for id, s := range l.states {
		if s.storeAway {
			s.storeAway, s.retry = false, retry{}
			l.queue.Add(id)
		}
	}
}
