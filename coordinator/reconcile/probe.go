package reconcile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
)

// probeTimeout bounds one probe of the object store.
const probeTimeout = 15 * time.Second

// maxProbes bounds the probes that run at the same time.
const maxProbes = 16

// probeResult is the object store's answer about one workspace's archives. It is
// valid for the row that it was asked for, and is used once.
type probeResult struct {
	archiveKey, opID string
	archive, upload  workspace.Presence
	size             int64
}

// answers reports whether p says what is needed to decide on w.
func (p probeResult) answers(w workspace.Workspace, needArchive, needUpload bool) bool {
	return p.archiveKey == w.ArchiveKey && p.opID == w.ArchiveOpID &&
		(!needArchive || p.archive != workspace.Unknown) && (!needUpload || p.upload != workspace.Unknown)
}

// addArchives adds the answer of the object store to o, if the decision depends on it.
// It reports whether o is complete. If not, a probe is running or will be retried, and
// its result requests the next observation.
func (l *loop) addArchives(ctx context.Context, w workspace.Workspace, o *workspace.Observation) bool {
	needArchive, needUpload := workspace.Needs(w, *o)
	p, ok := l.probed[w.ID]
	delete(l.probed, w.ID)
	switch {
	case !needArchive && !needUpload:
		return true
	case ok && p.answers(w, needArchive, needUpload):
		o.Archive, o.Upload, o.UploadSize = p.archive, p.upload, p.size
		return true
	case l.now().Before(l.retryAt[w.ID]):
		return false
	}
	l.busy[w.ID] = struct{}{}
	l.wg.Go(func() {
		select {
		case l.probeSlots <- struct{}{}:
			defer func() { <-l.probeSlots }()
		case <-ctx.Done():
			return
		}
		p, err := l.probe(ctx, w, needArchive, needUpload)
		l.send(ctx, result{task: task{row: w}, probe: &p, err: err})
	})
	return false
}

// probe asks the object store about the archive at archive_key, and about the one
// that the archive operation in progress uploads.
func (l *loop) probe(ctx context.Context, w workspace.Workspace, needArchive, needUpload bool) (probeResult, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	p := probeResult{archiveKey: w.ArchiveKey, opID: w.ArchiveOpID}
	stat := func(key string, answer *workspace.Presence) error {
		info, err := l.archives.Stat(ctx, key)
		switch {
		case err == nil, workspace.ReasonOf(err) == workspace.ReasonArchiveCorrupted:
			// Both objects exist (SPEC 2). If the commit marker is malformed, the restore
			// fails with a clear error, and the volume is not deleted.
			*answer, p.size = workspace.Present, info.Size
		case errors.Is(err, fs.ErrNotExist):
			*answer = workspace.Absent
		default:
			return fmt.Errorf("checking archive %s: %w", key, err)
		}
		return nil
	}
	if needArchive {
		if err := stat(w.ArchiveKey, &p.archive); err != nil {
			return p, err
		}
	}
	if needUpload {
		return p, stat(w.ID.ArchiveKey(w.ArchiveOpID), &p.upload)
	}
	return p, nil
}

// probeFailed schedules the next probe. Without an answer no condition changes (SPEC 2),
// but the operation that needs it fails when its timeout has passed.
func (l *loop) probeFailed(ctx context.Context, w workspace.Workspace, err error) {
	l.retryAt[w.ID] = l.now().Add(backoff(cleanupFailures))
	limit := l.settings.Load().Timeouts[w.Operation]
	if w.Operation == workspace.OpNone || limit <= 0 || l.now().Sub(w.OpStartedAt) <= limit {
		return
	}
	l.countFailure(ctx, w, workspace.Fail(workspace.ReasonTimeout,
		fmt.Errorf("%s took longer than %s: %w", w.Operation, limit, err)))
}
