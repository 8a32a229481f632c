package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/workspace"
)

// probeTimeout bounds one question to the object store.
const probeTimeout = 15 * time.Second

// maxProbes bounds the questions that are asked at once.
const maxProbes = 16

// strayTimeout bounds an action that belongs to no operation.
const strayTimeout = time.Minute

// act is an actuator's call: the row is what was saved before it.
type act struct {
	action workspace.Action
	row    workspace.Workspace
}

// result is what came of an actuator or a probe.
type result struct {
	act   act
	probe *probe
	err   error
}

// probe is the object store's answer about one workspace's archives. It is valid
// for the row that it was asked for, once.
type probe struct {
	archiveKey, opID string
	archive, upload  workspace.Presence
	size             int64
}

// errDeposed ends a destructive action before it begins.
var errDeposed = errors.New("another process leads by now")

// start begins queued actions as far as the limit allows.
func (l *loop) start(ctx context.Context) {
	limit := l.settings.Load().MaxConcurrent
	for len(l.queue) > 0 && l.running < limit {
		a := l.queue[0]
		l.queue = l.queue[1:]
		l.running++
		l.wg.Go(func() { l.send(ctx, result{act: a, err: l.act(ctx, a)}) })
	}
}

func (l *loop) send(ctx context.Context, r result) {
	select {
	case l.results <- r:
	case <-ctx.Done():
	}
}

// act calls the actuator. Its success finishes nothing: the look that follows
// does (SPEC 1, contract 1).
func (l *loop) act(ctx context.Context, a act) error {
	w := a.row
	limit := strayTimeout
	if d, ok := l.settings.Load().Timeouts[w.Operation]; ok && w.Operation != workspace.OpNone {
		limit = max(d-l.now().Sub(w.OpStartedAt), time.Second)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if a.action.Destructive() {
		if err := l.lead(ctx, a.action); err != nil {
			return err
		}
	}
	switch a.action {
	case workspace.ActProvision:
		return l.backend.Provision(ctx, w.ID)
	case workspace.ActStart:
		return l.backend.Start(ctx, backend.StartSpec{ID: w.ID, Image: w.ImageRef})
	case workspace.ActDeleteContainer:
		return l.backend.Delete(ctx, w.ID)
	case workspace.ActStartArchive:
		return l.job(ctx, w, workspace.JobArchive, w.ArchiveOpID, w.ID.ArchiveKey(w.ArchiveOpID))
	case workspace.ActStartRestore:
		return l.job(ctx, w, workspace.JobRestore, w.HomeCtx.RestoreOpID, w.ArchiveKey)
	case workspace.ActCreateEmptyArchive:
		return l.archives.CreateEmpty(ctx, w.ID.ArchiveKey(w.ArchiveOpID))
	case workspace.ActDropArchivedVolume:
		// The last look before the only other copy goes (SPEC 12.3).
		if _, err := l.archives.Stat(ctx, w.ArchiveKey); err != nil {
			return fmt.Errorf("looking at the archive before deleting its volume: %w", err)
		}
		// The object store may have taken its time.
		if err := l.lead(ctx, a.action); err != nil {
			return err
		}
		return l.deleteVolume(ctx, w.ID)
	case workspace.ActDeleteVolume:
		return l.deleteVolume(ctx, w.ID)
	case workspace.ActDeleteJobs:
		return l.backend.DeleteJobs(ctx, w.ID)
	}
	return fmt.Errorf("unknown action %q", a.action)
}

// lead returns an error unless this process leads.
func (l *loop) lead(ctx context.Context, before workspace.Action) error {
	held, err := l.store.Holds(ctx, l.fence)
	if err != nil {
		return fmt.Errorf("checking the leadership before %s: %w", before, err)
	}
	if !held {
		return errDeposed
	}
	return nil
}

func (l *loop) job(ctx context.Context, w workspace.Workspace, kind workspace.JobKind, opID, key string) error {
	return l.backend.StartJob(ctx, backend.JobSpec{ID: w.ID, Kind: kind, OpID: opID, Env: l.archives.JobEnv(key)})
}

// deleteVolume removes the jobs first: a container that has ended still holds
// its volume.
func (l *loop) deleteVolume(ctx context.Context, id workspace.ID) error {
	if err := l.backend.DeleteJobs(ctx, id); err != nil {
		return err
	}
	return l.backend.DeleteVolume(ctx, id)
}

// complete adds to o what the object store knows, where the decision depends on
// it. It reports whether o is complete; if not, the answer is on its way and
// brings the next look.
func (l *loop) complete(ctx context.Context, w workspace.Workspace, o *workspace.Observation) bool {
	needArchive, needUpload := workspace.Needs(w, *o)
	if !needArchive && !needUpload {
		delete(l.probes, w.ID)
		return true
	}
	p, ok := l.probes[w.ID]
	delete(l.probes, w.ID)
	if ok && p.archiveKey == w.ArchiveKey && p.opID == w.ArchiveOpID &&
		(!needArchive || p.archive != workspace.Unknown) && (!needUpload || p.upload != workspace.Unknown) {
		o.Archive, o.Upload, o.UploadSize = p.archive, p.upload, p.size
		return true
	}
	if l.now().Before(l.retryAt[w.ID]) {
		return false
	}
	l.busy[w.ID] = struct{}{}
	l.wg.Go(func() {
		select {
		case l.asking <- struct{}{}:
			defer func() { <-l.asking }()
		case <-ctx.Done():
			return
		}
		p, err := l.ask(ctx, w, needArchive, needUpload)
		l.send(ctx, result{act: act{row: w}, probe: &p, err: err})
	})
	return false
}

func (l *loop) ask(ctx context.Context, w workspace.Workspace, needArchive, needUpload bool) (probe, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	p := probe{archiveKey: w.ArchiveKey, opID: w.ArchiveOpID}
	stat := func(key string, answer *workspace.Presence) error {
		info, err := l.archives.Stat(ctx, key)
		switch {
		case err == nil:
			*answer, p.size = workspace.Present, info.Size
		case notExist(err):
			*answer = workspace.Absent
		default:
			return fmt.Errorf("looking for archive %s: %w", key, err)
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

// finished takes in what came of an actuator or a probe, and asks for the look
// that it makes due.
func (l *loop) finished(ctx context.Context, r result) {
	id := r.act.row.ID
	delete(l.busy, id)
	if r.probe == nil {
		l.running--
	}
	switch {
	case r.err == nil && r.probe != nil:
		l.probes[id] = *r.probe
		if l.unasked {
			l.unasked = false
			l.log.Info("the object store answers again")
		}
	case r.err != nil && ctx.Err() == nil:
		l.failed(ctx, r)
	}
	l.Hint(id)
}

// failed counts an actuator's failure against the operation it was called for. A
// clean-up belongs to no operation: it is tried again later. So is a question to
// the object store, until the operation that needs the answer has run out of time;
// no condition changes for want of an answer (SPEC 2).
func (l *loop) failed(ctx context.Context, r result) {
	was, err := r.act.row, fmt.Errorf("%s: %w", r.act.action, r.err)
	if r.probe != nil {
		l.retryAt[was.ID] = l.now().Add(backoff(3))
		if !l.unasked {
			l.unasked = true
			l.log.Warn("the object store does not answer; what needs it waits", zap.Error(r.err))
		}
		limit := l.settings.Load().Timeouts[was.Operation]
		if was.Operation == workspace.OpNone || limit <= 0 || l.now().Sub(was.OpStartedAt) <= limit {
			return
		}
		err = workspace.Fail(workspace.ReasonTimeout, fmt.Errorf("%s took longer than %s: %w", was.Operation, limit, r.err))
	} else if was.Operation == workspace.OpNone || errors.Is(r.err, errDeposed) {
		l.log.Warn("workspace action failed; it is tried again", zap.String("workspace", string(was.ID)),
			zap.String("action", string(r.act.action)), zap.Error(r.err))
		l.retryAt[was.ID] = l.now().Add(backoff(3))
		return
	}
	bounded, cancel := context.WithTimeout(ctx, saveTimeout)
	defer cancel()
	rows, reading := l.store.Workspaces(bounded, []workspace.ID{was.ID})
	if reading != nil {
		l.log.Error("cannot record a failure; the operation is tried again", zap.String("workspace", string(was.ID)),
			zap.NamedError("failure", err), zap.Error(reading))
		l.retryAt[was.ID] = l.now().Add(backoff(1))
		return
	}
	for _, w := range rows {
		if w.Operation != was.Operation || !w.OpStartedAt.Equal(was.OpStartedAt) {
			continue
		}
		d := workspace.Failed(l.now(), w, err, l.policy())
		if l.save(ctx, w, d.Next) && d.Next.Operation == workspace.OpNone {
			l.busy[w.ID] = struct{}{}
			l.queue = append(l.queue, act{action: d.Action, row: d.Next})
		}
	}
}
