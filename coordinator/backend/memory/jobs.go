package memory

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/workspace"
)

var opIDForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

// check refuses what no engine could make a container from. It does not repeat the
// environment, which holds credentials.
func check(spec backend.JobSpec) error {
	if spec.Kind != workspace.JobArchive && spec.Kind != workspace.JobRestore {
		return fmt.Errorf("unknown kind of storage job %q", spec.Kind)
	}
	if !opIDForm.MatchString(spec.OpID) {
		return fmt.Errorf("operation id %q is not letters and digits", spec.OpID)
	}
	for i, entry := range spec.Env {
		if name, _, ok := strings.Cut(entry, "="); !ok || name == "" || strings.ContainsRune(entry, 0) {
			return fmt.Errorf("environment of the storage job: entry %d is not NAME=value", i)
		}
	}
	return nil
}

// StartJob starts a storage job, whose work goes on beside the caller.
func (r *Backend) StartJob(ctx context.Context, spec backend.JobSpec) error {
	if err := r.begin(ctx, "StartJob", spec.ID); err != nil {
		return err
	}
	if err := check(spec); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, j := range r.jobs[spec.ID] {
		if j.owner == r.owner && j.state.Kind == spec.Kind && j.state.OpID == spec.OpID {
			return nil
		}
	}
	if there, err := r.home(spec.ID); err != nil {
		return err
	} else if !there {
		return withoutHome(spec.ID)
	}
	if r.containers[spec.ID] != nil {
		return fmt.Errorf("starting a storage job: container %s exists", spec.ID.ContainerName())
	}
	ctx, kill := context.WithCancel(context.WithoutCancel(ctx))
	j := &job{owner: r.owner, kill: kill,
		state: workspace.Job{Kind: spec.Kind, OpID: spec.OpID, State: workspace.JobRunning}}
	r.jobs[spec.ID] = append(r.jobs[spec.ID], j)
	r.changed(r.owner, spec.ID)
	r.wg.Go(func() {
		defer kill()
		var size int64
		var err error
		if r.Work != nil {
			size, err = r.Work(ctx, spec)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		j.state.State, j.state.Size = workspace.JobSucceeded, size
		if err != nil {
			j.state.State, j.state.Reason, j.state.Message = workspace.JobFailed, workspace.ReasonOf(err), err.Error()
		}
		r.changed(r.owner, spec.ID)
	})
	return nil
}

// DeleteJobs kills and removes the workspace's jobs.
func (r *Backend) DeleteJobs(ctx context.Context, id workspace.ID) error {
	if err := r.begin(ctx, "DeleteJobs", id); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.jobs[id] = slices.DeleteFunc(r.jobs[id], func(j *job) bool {
		if j.owner == r.owner {
			j.kill()
		}
		return j.owner == r.owner
	})
	if len(r.jobs[id]) == 0 {
		delete(r.jobs, id)
	}
	r.changed(r.owner, id)
	return nil
}
