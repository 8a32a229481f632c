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

// cleanupTimeout bounds an action that belongs to no operation.
const cleanupTimeout = time.Minute

// cleanupFailures is the number of failures whose backoff applies after a failed
// clean-up or probe. Those failures are not counted in the row.
const cleanupFailures = 3

// errNotLeader stops a destructive action before it begins.
var errNotLeader = errors.New("another process is the leader now")

// task is one call of an actuator. row is what was saved before it.
type task struct {
	action workspace.Action
	row    workspace.Workspace
}

// result is the outcome of a task, or of a probe if probe is set.
type result struct {
	task  task
	probe *probeResult
	err   error
}

// enqueue queues the action of a decision that was saved.
func (l *loop) enqueue(d workspace.Decision) {
	l.busy[d.Next.ID] = struct{}{}
	l.tasks = append(l.tasks, task{action: d.Action, row: d.Next})
}

// startTasks starts queued tasks as far as MaxConcurrent allows.
func (l *loop) startTasks(ctx context.Context) {
	limit := l.settings.Load().MaxConcurrent
	for len(l.tasks) > 0 && l.inFlight < limit {
		t := l.tasks[0]
		l.tasks = l.tasks[1:]
		l.inFlight++
		l.wg.Go(func() { l.send(ctx, result{task: t, err: l.execute(ctx, t)}) })
	}
}

// send passes a result to the loop, or drops it at the end of the term: the next
// leader observes the effect.
func (l *loop) send(ctx context.Context, r result) {
	select {
	case l.results <- r:
	case <-ctx.Done():
	}
}

// execute calls the actuator. Its success completes nothing: only the following
// observation does (SPEC 1, contract 1).
func (l *loop) execute(ctx context.Context, t task) error {
	w := t.row
	limit := cleanupTimeout
	if d, ok := l.settings.Load().Timeouts[w.Operation]; ok && w.Operation != workspace.OpNone {
		limit = max(d-l.now().Sub(w.OpStartedAt), time.Second)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if t.action.Destructive() {
		if err := l.checkLeadership(ctx, t.action); err != nil {
			return err
		}
	}
	switch t.action {
	case workspace.ActProvision:
		return l.backend.Provision(ctx, w.ID, w.HomeCtx.VolumeOpID)
	case workspace.ActStart:
		return l.backend.Start(ctx, backend.StartSpec{ID: w.ID, Image: w.ImageRef})
	case workspace.ActDeleteContainer:
		return l.backend.Delete(ctx, w.ID)
	case workspace.ActStartArchive:
		return l.startJob(ctx, w, workspace.JobArchive, w.ArchiveOpID, w.ID.ArchiveKey(w.ArchiveOpID))
	case workspace.ActStartRestore:
		return l.startJob(ctx, w, workspace.JobRestore, w.HomeCtx.RestoreOpID, w.ArchiveKey)
	case workspace.ActCreateEmptyArchive:
		return l.archives.CreateEmpty(ctx, w.ID.ArchiveKey(w.ArchiveOpID))
	case workspace.ActDropArchivedVolume:
		// Checked once more right before the only other copy is deleted (SPEC 12.3).
		if _, err := l.archives.Stat(ctx, w.ArchiveKey); err != nil {
			return fmt.Errorf("checking the archive before deleting its volume: %w", err)
		}
		// The object store may have taken long to answer.
		if err := l.checkLeadership(ctx, t.action); err != nil {
			return err
		}
		return l.deleteVolume(ctx, w.ID)
	case workspace.ActDeleteVolume:
		return l.deleteVolume(ctx, w.ID)
	case workspace.ActDeleteJobs:
		return l.backend.DeleteJobs(ctx, w.ID)
	}
	return fmt.Errorf("unknown action %q", t.action)
}

// checkLeadership returns an error unless this process leads.
func (l *loop) checkLeadership(ctx context.Context, before workspace.Action) error {
	held, err := l.store.Holds(ctx, l.fence)
	if err != nil {
		return fmt.Errorf("checking the leadership before %s: %w", before, err)
	}
	if !held {
		return errNotLeader
	}
	return nil
}

// startJob starts a storage job that is named after opID and moves the archive at key.
func (l *loop) startJob(ctx context.Context, w workspace.Workspace, kind workspace.JobKind, opID, key string) error {
	return l.backend.StartJob(ctx, backend.JobSpec{ID: w.ID, Kind: kind, OpID: opID, Env: l.archives.JobEnv(key)})
}

// deleteVolume removes the jobs first: a container uses its volume even after it has
// exited.
func (l *loop) deleteVolume(ctx context.Context, id workspace.ID) error {
	if err := l.backend.DeleteJobs(ctx, id); err != nil {
		return err
	}
	return l.backend.DeleteVolume(ctx, id, "")
}

// handle records the outcome of a task or a probe and requests the next observation
// of its workspace.
func (l *loop) handle(ctx context.Context, r result) {
	id := r.task.row.ID
	delete(l.busy, id)
	switch {
	case r.probe == nil:
		l.inFlight--
		if r.err != nil && ctx.Err() == nil {
			l.taskFailed(ctx, r.task, r.err)
		}
	case r.err == nil:
		l.probed[id] = *r.probe
		l.probing.Recovered()
	case ctx.Err() == nil:
		l.probing.Failed(r.err)
		l.probeFailed(ctx, r.task.row, r.err)
	}
	l.Hint(id)
}

// taskFailed counts an actuator's failure against the operation that it was called
// for. A clean-up does not belong to an operation and is only retried later.
func (l *loop) taskFailed(ctx context.Context, t task, err error) {
	if t.row.Operation == workspace.OpNone || errors.Is(err, errNotLeader) {
		l.log.Warn("workspace action failed; it is retried", zap.String("workspace", string(t.row.ID)),
			zap.String("action", string(t.action)), zap.Error(err))
		l.retryAt[t.row.ID] = l.now().Add(backoff(cleanupFailures))
		return
	}
	l.countFailure(ctx, t.row, fmt.Errorf("%s: %w", t.action, err))
}

// countFailure saves the failure of an operation, unless the operation has ended in
// the meantime.
func (l *loop) countFailure(ctx context.Context, was workspace.Workspace, failure error) {
	bounded, cancel := context.WithTimeout(ctx, saveTimeout)
	defer cancel()
	rows, err := l.store.Workspaces(bounded, []workspace.ID{was.ID})
	if err != nil {
		l.log.Error("cannot record a failure; the operation is retried", zap.String("workspace", string(was.ID)),
			zap.NamedError("failure", failure), zap.Error(err))
		l.retryAt[was.ID] = l.now().Add(backoff(1))
		return
	}
	for _, w := range rows {
		if w.Operation != was.Operation || !w.OpStartedAt.Equal(was.OpStartedAt) {
			continue
		}
		d := workspace.Failed(l.now(), w, failure, l.policy())
		if l.save(ctx, w, d.Next) && d.Next.Operation == workspace.OpNone {
			l.enqueue(d)
		}
	}
}
