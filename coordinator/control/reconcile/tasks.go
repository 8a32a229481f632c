package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/control/reconcile/internal/probe"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/coordinator/workspace/planner"
	"github.com/codehub/gateway/storagejob/contract"
)

// cleanupTimeout bounds an action that belongs to no operation.
const cleanupTimeout = time.Minute

// cleanupFailures is the number of failures whose backoff applies after a failed
// clean-up or probe. Those failures are not counted in the row.
const cleanupFailures = 3

// errHeldBack is why an actuator was not called although it is its turn: this process
// may not lead any more, or the server is another one. It is no failure of the operation.
var errHeldBack = errors.New("held back")

// task is one call of an actuator. row is what was saved before it.
type task struct {
	action     planner.Action
	row        workspace.Workspace
	volumeOpID string // the incarnation of the volume that the action deletes
	queued     time.Time
	waited     time.Duration // for its turn
}

// result is the outcome of a task, or of a probe if probe is set.
type result struct {
	task  task
	probe *probe.Answer
	err   error
}

// enqueue queues the action of a decision that was saved.
func (l *loop) enqueue(ctx context.Context, d planner.Decision) {
	l.busy[d.Next.ID] = struct{}{}
	t := task{action: d.Action, row: d.Next, volumeOpID: d.VolumeOpID, queued: time.Now()}
	turns, request := l.turn(t.action, t.row, t.queued)
	turns.Take(&l.wg, request, func() {
		t.waited = time.Since(t.queued)
		err := l.execute(ctx, t)
		l.wg.Go(func() { l.send(ctx, result{task: t, err: err}) }) // the turn is over
	})
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
	op, limit := w.Operation, cleanupTimeout
	if t.volumeOpID != "" && op == workspace.OpNone {
		op = workspace.OpDeleting // it takes as long as there are files
	}
	if d, ok := l.settings.Load().Timeouts[op]; ok {
		limit = d
	}
	ctx, cancel := context.WithTimeout(backend.WithLease(ctx, l.term.Lease), limit)
	defer cancel()
	if err := l.checkServers(ctx, t); err != nil {
		return err
	}
	// The servers may have taken long to answer.
	if err := l.checkLeadership(ctx, t.action); err != nil {
		return err
	}
	l.log.Debug("carrying out an action", zap.String("workspace", string(w.ID)), zap.String("action", string(t.action)))
	switch t.action {
	case planner.ActProvision:
		return l.backend.Provision(ctx, backend.VolumeSpec{ID: w.ID, OpID: w.HomeCtx.VolumeOpID, Owner: w.OwnerID})
	case planner.ActStart:
		return l.start(ctx, w)
	case planner.ActDeleteContainer:
		return l.backend.Delete(ctx, w.ID)
	case planner.ActStartArchive:
		return l.startJob(ctx, w, workspace.JobArchive, w.ArchiveOpID, w.ID.ArchiveKey(w.ArchiveOpID))
	case planner.ActStartRestore:
		err := l.startJob(ctx, w, workspace.JobRestore, w.HomeCtx.RestoreOpID, w.ArchiveKey)
		if err == nil && w.DesiredState == workspace.DesiredRunning {
			l.prefetch(ctx, w)
		}
		return err
	case planner.ActCreateEmptyArchive:
		err := l.archives.CreateEmpty(ctx, w.ID.ArchiveKey(w.ArchiveOpID))
		if err != nil {
			return &workspace.StoreError{State: probe.StateOf(err), Err: err}
		}
		return nil
	case planner.ActDropArchivedVolume, planner.ActDropStaleVolume, planner.ActDeleteVolume:
		return l.deleteVolume(ctx, t)
	case planner.ActDeleteJobs:
		return l.backend.DeleteJobs(ctx, w.ID)
	}
	return fmt.Errorf("unknown action %q", t.action)
}

// checkServers returns an error unless the servers that the action touches are the
// recorded ones. Before a volume is deleted because of its archive, the archive is
// looked up once more (SPEC 12.3).
func (l *loop) checkServers(ctx context.Context, t task) error {
	if t.action != planner.ActCreateEmptyArchive {
		if err := l.identity.Backend(ctx); err != nil {
			return fmt.Errorf("%w: %w", errHeldBack, err)
		}
	}
	switch t.action {
	case planner.ActDropArchivedVolume, planner.ActDropStaleVolume:
		if _, err := l.archives.Stat(ctx, t.row.ArchiveKey); err != nil {
			err = fmt.Errorf("checking the archive before deleting a volume: %w", err)
			if errors.Is(err, fs.ErrNotExist) || workspace.ReasonOf(err) == workspace.ReasonArchiveCorrupted {
				return err
			}
			return &workspace.StoreError{State: probe.StateOf(err), Err: err}
		}
	case planner.ActStartArchive, planner.ActStartRestore, planner.ActCreateEmptyArchive:
	default:
		return nil
	}
	if err := l.identity.Bucket(ctx); err != nil {
		return &workspace.StoreError{State: probe.StateOf(err), Err: err}
	}
	return nil
}

// checkLeadership returns an error unless this process leads: before what is destructive
// the database still says so, and the lease cannot have run out since. What is not
// destructive still must not be done by two: a container that a former leader starts runs
// although nobody wants it.
func (l *loop) checkLeadership(ctx context.Context, before planner.Action) error {
	if before.Destructive() {
		held, err := l.store.Holds(ctx, l.term.Fence)
		if err != nil {
			return fmt.Errorf("%w: checking the leadership before %s: %w", errHeldBack, before, err)
		}
		if !held {
			return fmt.Errorf("%w: another process is the leader now", errHeldBack)
		}
	}
	if err := backend.CheckLease(ctx); err != nil {
		return fmt.Errorf("%w: %w", errHeldBack, err)
	}
	return nil
}

// start runs the workspace's container.
func (l *loop) start(ctx context.Context, w workspace.Workspace) error {
	spec, err := l.launch(w)
	if err != nil {
		return err
	}
	spec.Term = l.label
	return l.withAddress(ctx, w.ID, func(slot int64) error {
		spec.Slot = slot
		return l.backend.Start(ctx, spec)
	})
}

// startJob starts a storage job that is named after opID and moves the archive at key. What
// it may do with the store ends when the operation must have ended.
func (l *loop) startJob(ctx context.Context, w workspace.Workspace, kind workspace.JobKind, opID, key string) error {
	env := l.archives.JobEnv(key)
	if known := w.KnownState(); kind == workspace.JobArchive && known != "" {
		env = append(env, contract.EnvFingerprint+"="+known)
	}
	operation := w.HomeCtx.VolumeOpID
	if kind == workspace.JobRestore {
		// Each attempt has a volume of its own. If the row is older than reality, the
		// volume may have been restored into and used before.
		operation = opID
		env = append(env, contract.EnvNewVolume+"=true")
	}
	env = append(env, contract.EnvOperation+"="+operation)
	granted, err := l.archives.Grant(ctx, kind, key, l.settings.Load().OperationLimit)
	if err != nil {
		return &workspace.StoreError{State: probe.StateOf(err), Err: err}
	}
	text, err := json.Marshal(granted)
	if err != nil {
		return fmt.Errorf("writing the storage job's grant: %w", err)
	}
	// Signing may have taken as long as the store took to answer.
	if err := backend.CheckLease(ctx); err != nil {
		return fmt.Errorf("%w: %w", errHeldBack, err)
	}
	return l.backend.StartJob(ctx, backend.JobSpec{ID: w.ID, Kind: kind, OpID: opID, Owner: w.OwnerID, Term: l.label, Env: env, Grant: text})
}

// prefetch pulls the image of a workspace, if it is missing, while its files are restored.
// Nobody waits for it here: if it fails, the start finds out and says so.
func (l *loop) prefetch(ctx context.Context, w workspace.Workspace) {
	if l.images == nil {
		return
	}
	spec, err := l.launch(w)
	if err != nil {
		return
	}
	var missing *backend.MissingImageError
	if errors.As(l.images.Check(ctx, spec.Image), &missing) {
		l.pulls.Join(missing.Image, func() {})
	}
}

// deleteVolume removes the jobs first: a container uses its volume even after it has
// exited.
func (l *loop) deleteVolume(ctx context.Context, t task) error {
	if err := l.backend.DeleteJobs(ctx, t.row.ID); err != nil {
		return err
	}
	if err := l.checkLeadership(ctx, t.action); err != nil {
		return err
	}
	return l.backend.DeleteVolume(ctx, t.row.ID, t.volumeOpID)
}

// handle records the outcome of a task or a probe and requests the next observation
// of its workspace.
func (l *loop) handle(ctx context.Context, r result) {
	id := r.task.row.ID
	delete(l.busy, id)
	l.addWait(r.task)
	switch {
	case ctx.Err() != nil:
	case r.probe != nil:
		l.probeDone(*r.probe, r.err)
	case r.err != nil:
		l.taskFailed(ctx, r.task, r.err)
	}
	l.queue.Add(id)
}

// handleMore handles the results that wait already: one observation serves them all.
func (l *loop) handleMore(ctx context.Context) {
	for {
		select {
		case r := <-l.results:
			l.handle(ctx, r)
		default:
			return
		}
	}
}

// taskFailed counts an actuator's failure against the operation that it was called
// for. A clean-up does not belong to an operation and is only retried later; an image
// that is missing is pulled first.
func (l *loop) taskFailed(ctx context.Context, t task, err error) {
	var missing *backend.MissingImageError
	id := t.row.ID
	switch _, pulled := l.pulling[id]; {
	case errors.As(err, &missing) && !pulled:
		l.pulling[id] = awaited{l.pulls.Join(missing.Image, func() { l.queue.Add(id) }), missing.Jobs}
	case t.row.Operation == workspace.OpNone || errors.Is(err, errHeldBack) || errors.Is(err, backend.ErrLeaseLapsed):
		l.log.Warn("workspace action failed; it is retried", zap.String("workspace", string(id)),
			zap.String("action", string(t.action)), zap.Error(err))
		l.retryIn(t.row, backoff(cleanupFailures))
	default:
		delete(l.pulling, id) // the image may have been removed again
		l.countFailure(ctx, t.row, fmt.Errorf("%s: %w", t.action, err))
	}
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
		l.retryIn(was, backoff(1))
		return
	}
	for _, w := range rows {
		if w.Operation != was.Operation || !w.OpStartedAt.Equal(was.OpStartedAt) {
			continue
		}
		d := planner.Failed(l.clock.Now(), w, failure, l.policy())
		d.Next = l.storable(ctx, plan{row: w, decision: d})
		saved, err := l.write(ctx, w, d)
		if l.wrote(ctx, w, d, saved, err) && d.Next.Operation == workspace.OpNone {
			l.enqueue(ctx, d)
		}
	}
}
