package reconcile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/codehub/gateway/coordinator/identity"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/coordinator/workspace/planner"
)

const (
	// probeTimeout bounds one probe of the object store.
	probeTimeout = 15 * time.Second
	// maxProbes bounds the probes that run at the same time.
	maxProbes = 16
	// probeAge is how long an answer may be used.
	probeAge = 10 * time.Second
)

// question is what the object store is asked about one workspace: its archives, and
// whether the bucket can be used.
type question struct {
	row                     workspace.Workspace
	archive, upload, bucket bool
}

// probeResult is the object store's answer. It is valid for the row that it was asked
// for, and is used once.
type probeResult struct {
	question        question
	at              time.Time
	found, uploaded workspace.Presence
	chosen          workspace.Presence // of an open revert
	size            int64
	sum             string
	younger         string
	store           workspace.StoreAnswer
}

// answers reports whether p says what is needed to decide on w; also that the store
// cannot be used is an answer.
func (p probeResult) answers(now time.Time, w workspace.Workspace, archive, upload bool) bool {
	asked := p.question.row
	return asked.ArchiveKey == w.ArchiveKey && asked.ArchiveOpID == w.ArchiveOpID && revertID(asked) == revertID(w) && now.Sub(p.at) < probeAge &&
		(p.store.State > workspace.StoreAnswers ||
			(!archive || p.found != workspace.Unknown) && (!upload || p.uploaded != workspace.Unknown))
}

// addArchives adds the answer of the object store to o. It reports whether o is
// complete. If not, a probe is running, and its result requests the next observation.
func (l *loop) addArchives(ctx context.Context, w workspace.Workspace, o *workspace.Observation) bool {
	archive, upload := planner.Needs(w, *o)
	p, ok := l.probed[w.ID]
	delete(l.probed, w.ID)
	switch {
	case ok && p.answers(time.Now(), w, archive, upload):
		o.Archive, o.Upload, o.Chosen, o.Younger, o.Store = p.found, p.uploaded, p.chosen, p.younger, p.store
		o.UploadSize, o.UploadSHA256 = p.size, p.sum
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
	l.startProbe(ctx, question{row: w, archive: archive, upload: upload, bucket: whose})
	return false
}

// startProbe asks the object store beside the loop.
func (l *loop) startProbe(ctx context.Context, q question) {
	l.busy[q.row.ID] = struct{}{}
	l.wg.Go(func() {
		select {
		case l.probes <- struct{}{}:
			defer func() { <-l.probes }()
		case <-ctx.Done():
			return
		}
		p, err := l.probe(ctx, q)
		l.send(ctx, result{task: task{row: q.row}, probe: &p, err: err})
	})
}

// probe asks about the archive at archive_key, about the one that the archive operation
// in progress uploads, and whose bucket it is. That something is absent is believed only
// of the recorded bucket (SPEC 2).
func (l *loop) probe(ctx context.Context, q question) (probeResult, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	p := probeResult{question: q}
	var err error
	if q.archive {
		p.found, p.size, p.sum, err = l.stat(ctx, q.row.ArchiveKey)
	}
	if q.upload && err == nil {
		p.uploaded, p.size, p.sum, err = l.stat(ctx, q.row.ID.ArchiveKey(q.row.ArchiveOpID))
	}
	if q.bucket && q.row.Reverting() && err == nil {
		p.chosen, _, _, err = l.stat(ctx, q.row.Revert.Key)
	}
	if err == nil && (q.bucket || p.found == workspace.Absent || p.uploaded == workspace.Absent) {
		err = l.identity.Bucket(ctx)
	}
	if q.bucket && err == nil { // whatever the row says of the volume: it may be gone
		p.younger, err = l.younger(ctx, q.row)
	}
	if q.bucket {
		p.store.State = workspace.StoreAnswers
	}
	if err != nil && storeState(err) == workspace.StoreRefuses {
		// A bucket that is missing or another one refuses, too. Nothing follows from that.
		var mismatch *identity.MismatchError
		if other := l.identity.Bucket(ctx); errors.As(other, &mismatch) {
			err = other
		}
	}
	if err != nil {
		p.found, p.uploaded, p.chosen = workspace.Unknown, workspace.Unknown, workspace.Unknown
		p.store = workspace.StoreAnswer{State: storeState(err), Message: err.Error()}
	}
	p.at = time.Now() // not when it was asked: a silent store takes longer than an answer may be used
	return p, err
}

// younger returns the newest archive of w, unless the row or its last recovery knows it:
// the row may be older than the archives. An upload of its own last operation is known.
func (c *Controller) younger(ctx context.Context, w workspace.Workspace) (string, error) {
	versions, err := c.archives.Versions(ctx, w.ID)
	if err != nil {
		return "", fmt.Errorf("looking for younger archives of workspace %s: %w", w.ID, err)
	}
	known := func(v workspace.ArchiveVersion) bool { return v.Key == w.ArchiveKey || v.Key == w.HomeCtx.Newest }
	var since time.Time
	for _, v := range versions {
		if known(v) && v.Modified.After(since) {
			since = v.Modified
		}
	}
	for _, v := range versions { // two of the same second are no surprise
		if !known(v) && v.Key != w.ID.ArchiveKey(w.ArchiveOpID) && v.Modified.After(since) {
			return v.Key, nil
		}
	}
	return "", nil
}

// stat asks about one archive.
func (c *Controller) stat(ctx context.Context, key string) (found workspace.Presence, size int64, sum string, err error) {
	info, err := c.archives.Stat(ctx, key)
	switch {
	case err == nil, workspace.ReasonOf(err) == workspace.ReasonArchiveCorrupted:
		// Both objects exist (SPEC 2). If the commit marker is malformed, the restore
		// fails with a clear error, and the volume is not deleted.
		return workspace.Present, info.Size, info.SHA256, nil
	case errors.Is(err, fs.ErrNotExist):
		return workspace.Absent, 0, "", nil
	}
	return workspace.Unknown, 0, "", fmt.Errorf("checking archive %s: %w", key, err)
}

// storeState is what an error says about the object store: that it is away, that it is
// another bucket, or else that it refuses.
func storeState(err error) workspace.StoreState {
	var mismatch *identity.MismatchError
	switch {
	case errors.As(err, &mismatch):
		return workspace.StoreMismatch
	case workspace.ReasonOf(err) == workspace.ReasonUnreachable, errors.Is(err, context.DeadlineExceeded):
		return workspace.StoreAway
	}
	return workspace.StoreRefuses
}

// probeDone takes an answer. When the store has come back, those who wait for it need
// not wait for their next attempt.
func (l *loop) probeDone(p probeResult, err error) {
	l.probed[p.question.row.ID] = p
	if err != nil {
		if p.store.State != workspace.StoreMismatch { // the guard logs it
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
