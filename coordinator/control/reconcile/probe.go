package reconcile

import (
	"context"
	"time"

	"github.com/codehub/gateway/coordinator/control/reconcile/internal/probe"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/coordinator/workspace/planner"
)

// maxProbes bounds the probes that run at the same time.
const maxProbes = 16

// addArchives adds the answer of the object store to o. It reports whether o is
// complete. If not, a probe is running, and its result requests the next observation. An answer
// must have been fresh when that began: a backend that takes longer to list than an answer may
// be used would otherwise make every answer too old, and nothing would ever be decided.
func (l *loop) addArchives(ctx context.Context, began time.Time, w workspace.Workspace, o *workspace.Observation) bool {
	archive, upload := planner.Needs(w, *o)
	p, ok := l.probed[w.ID]
	delete(l.probed, w.ID)
	switch {
	case ok && p.Says(began, w, archive, upload):
		o.Archive, o.Upload, o.Chosen, o.Younger, o.Store = p.Found, p.Uploaded, p.Chosen, p.Younger, p.Store
		o.UploadSize, o.UploadSHA256 = p.Size, p.Sum
		return true
	case !archive && !upload, l.backingOff(w):
		return true
	}
	// What is about to begin an operation, or goes on with one that another leader has
	// begun, needs to know whose bucket it is, too.
	whose := string(w.Phase) != string(w.Wanted()) || w.Reverting()
	if w.Operation != workspace.OpNone {
		whose = !o.Witnessed
	}
	l.startProbe(ctx, probe.Question{Row: w, Archive: archive, Upload: upload, Bucket: whose})
	return false
}

// startProbe asks the object store beside the loop.
func (l *loop) startProbe(ctx context.Context, q probe.Question) {
	l.busy[q.Row.ID] = struct{}{}
	l.wg.Go(func() {
		select {
		case l.probes <- struct{}{}:
			defer func() { <-l.probes }()
		case <-ctx.Done():
			return
		}
		p, err := probe.Store{Archives: l.archives, Identity: l.identity}.Ask(ctx, q)
		l.send(ctx, result{task: task{row: q.Row}, probe: &p, err: err})
	})
}

// probeDone takes an answer. When the store has come back, those who wait for it need
// not wait for their next attempt.
func (l *loop) probeDone(p probe.Answer, err error) {
	l.probed[p.Question.Row.ID] = p
	if err != nil {
		if p.Store.State != workspace.StoreMismatch { // the guard logs it
			l.probing.Failed(err)
		}
		return
	}
	l.probing.Recovered()
	for id := range l.starved {
		delete(l.retries, id)
		delete(l.starved, id)
		l.queue.Add(id)
	}
}
