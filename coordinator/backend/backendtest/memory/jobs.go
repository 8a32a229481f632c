package memory

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/guard"
	"github.com/codehub/gateway/coordinator/workspace"
)

// StartJob implements [backend.Actuators]. The job runs [Backend.Work] in a goroutine. Like a real job, it survives the
// context of the call, and ends only with its work, DeleteJobs or the engine.
func (b *Backend) StartJob(ctx context.Context, spec backend.JobSpec) error {
	if err := b.begin(ctx, "StartJob", spec.ID); err != nil {
		return err
	}
	if err := spec.Validate(); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	// Another call or another process has already started it: a job runs once.
	for _, j := range b.jobs[spec.ID] {
		if j.owner == b.owner && j.state.Kind == spec.Kind && j.state.OpID == spec.OpID {
			return nil
		}
	}
	if exists, err := b.homeExists(spec.ID); err != nil {
		return err
	} else if !exists {
		return noHome(spec.ID)
	}
	// This means any container, even an exited one, because it may be about to run (SPEC 12.4).
	if b.containers[spec.ID] != nil {
		return fmt.Errorf("starting a storage job: container %s exists", spec.ID.ContainerName())
	}
	for _, j := range b.jobs[spec.ID] {
		if j.state.State == workspace.JobRunning {
			return fmt.Errorf("starting a storage job: %s job %s uses the volume", j.state.Kind, j.state.OpID)
		}
	}
	if err := b.checkImage(JobImage); err != nil {
		return &backend.MissingImageError{Image: JobImage, Jobs: true}
	}
	ctx, kill := context.WithCancel(context.WithoutCancel(ctx))
	j := &job{origin: b.origin(spec.Owner, spec.Term), kill: kill,
		state: workspace.Job{Kind: spec.Kind, OpID: spec.OpID, State: workspace.JobRunning}}
	b.jobs[spec.ID] = append(b.jobs[spec.ID], j)
	b.changed(b.owner, spec.ID)
	kept := context.AfterFunc(b.quit, kill)
	b.wg.Go(func() {
		defer kept()
		defer kill()
		var size int64
		var err error
		if b.Work != nil {
			err = guard.Call(guard.Task, func() (err error) { size, err = b.Work(ctx, spec); return err })
		}
		b.mu.Lock()
		// The outcome is complete when the lock is released: an observation sees a running job or an ended one, never
		// an intermediate state.
		defer b.mu.Unlock()
		j.state.State, j.state.Size, j.state.Progress = workspace.JobSucceeded, size, ""
		if err != nil {
			j.state.State, j.state.Reason, j.state.Message = workspace.JobFailed, workspace.ReasonOf(err), err.Error()
			var lost *LostError
			j.state.ResultLost = errors.As(err, &lost)
		}
		b.changed(b.owner, spec.ID)
	})
	return nil
}

// DeleteJobs implements [backend.Actuators]. It cancels the context of running work, but does not wait until the work
// returns.
func (b *Backend) DeleteJobs(ctx context.Context, id workspace.ID) error {
	if err := b.begin(ctx, "DeleteJobs", id); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.deleteJobs(id, func(j *job) bool { return j.owner == b.owner })
	b.changed(b.owner, id)
	return nil
}

// deleteJobs kills and removes the selected jobs of the workspace. The caller holds the lock.
func (b *Backend) deleteJobs(id workspace.ID, which func(*job) bool) {
	b.jobs[id] = slices.DeleteFunc(b.jobs[id], func(j *job) bool {
		if which(j) {
			j.kill()
			return true
		}
		return false
	})
	if len(b.jobs[id]) == 0 {
		delete(b.jobs, id)
	}
}
