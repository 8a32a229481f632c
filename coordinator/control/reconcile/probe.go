package reconcile

import (
	"context"
	"time"

	"github.com/codehub/gateway/coordinator/control/reconcile/internal/actuator"
	"github.com/codehub/gateway/coordinator/control/reconcile/internal/observation"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/coordinator/workspace/planner"
)

// maxProbes bounds the probes that run at the same time.
const maxProbes = 16

// addArchives adds the answer of the object store to o. It reports whether o is
// complete. If not, a probe is running, and its result requests the next observation. An answer
// must have been fresh when that began: a backend that takes longer to list than an answer may
// be used would otherwise make every answer too old, and nothing would ever be decided.
func (l *loop) addArchives(ctx context.Context, began time.Time, w workspace.Workspace, s *state, o *workspace.Observation) bool {
	archive, upload := planner.Needs(w, *o)
	p := s.answer
	s.answer = nil
	switch {
	case p != nil && p.Says(began, w, archive, upload):
		o.Archive, o.Upload, o.Chosen, o.Younger, o.Store = p.Found, p.Uploaded, p.Chosen, p.Younger, p.Store
		o.UploadSize, o.UploadSHA256 = p.Size, p.Sum
		return true
	case !archive && !upload, s.backingOff(w):
		return true
	}
	// What is about to begin an operation, or goes on with one that another leader has
	// begun, needs to know whose bucket it is, too.
	whose := string(w.Phase) != string(w.Wanted()) || w.Reverting()
	if w.Operation != workspace.OpNone {
		whose = !o.Witnessed
	}
	l.startProbe(ctx, observation.Question{Row: w, Archive: archive, Upload: upload, Bucket: whose})
	return false
}

// startProbe asks the object store beside the loop.
func (l *loop) startProbe(ctx context.Context, q observation.Question) {
	l.of(q.Row.ID).busy = true
	l.wg.Go(func() {
		select {
		case l.probes <- struct{}{}:
			defer func() { <-l.probes }()
		case <-ctx.Done():
			return
		}
		p, err := observation.Store{Archives: l.archives, Identity: l.identity}.Ask(ctx, q)
		l.send(ctx, result{task: task{Call: actuator.Call{Row: q.Row}}, answer: &p, err: err})
	})
}

// probeDone takes an answer. When the store has come back, those who wait for it need
// not wait for their next attempt.
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
