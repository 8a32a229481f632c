// Package memory is a container runtime that exists only in this process. It
// passes the conformance suite of package runtimetest, so that tests of the
// controller may use it for what a real engine cannot be made to do at will:
// fail, hang, and lose things, at one exact step.
package memory

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/codehub/gateway/coordinator/runtime"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Runtime holds the containers, volumes and jobs of one installation.
type Runtime struct {
	// Before, when set, is called before each method with its name; an error is
	// returned instead of doing anything. It may block. Set it before use.
	Before func(ctx context.Context, method string, id workspace.ID) error
	// Work is what a storage job does, while it is listed as running. Its error is
	// the job's failure. Nil means nothing, successfully.
	Work func(spec runtime.JobSpec) (size int64, err error)
	// Start is what a container is made of; the default runs and is ready at once.
	Container func(spec runtime.StartSpec) workspace.Container

	mu         sync.Mutex
	containers map[workspace.ID]workspace.Container
	logs       map[workspace.ID]string
	volumes    map[workspace.ID]struct{}
	jobs       map[workspace.ID][]workspace.Job
	watchers   map[chan workspace.ID]struct{}
	wg         sync.WaitGroup
}

// New returns an empty runtime.
func New() *Runtime {
	return &Runtime{
		containers: make(map[workspace.ID]workspace.Container),
		logs:       make(map[workspace.ID]string),
		volumes:    make(map[workspace.ID]struct{}),
		jobs:       make(map[workspace.ID][]workspace.Job),
		watchers:   make(map[chan workspace.ID]struct{}),
	}
}

func (r *Runtime) before(ctx context.Context, method string, id workspace.ID) error {
	if r.Before != nil {
		if err := r.Before(ctx, method, id); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// changed tells the watchers; the caller holds the lock.
func (r *Runtime) changed(id workspace.ID) {
	for w := range r.watchers {
		select {
		case w <- id:
		default: // events may be lost
		}
	}
}

// Containers lists containers.
func (r *Runtime) Containers(ctx context.Context, ids ...workspace.ID) (map[workspace.ID]workspace.Container, error) {
	return list(ctx, r, "Containers", r.containers, ids)
}

// Volumes lists volumes.
func (r *Runtime) Volumes(ctx context.Context, ids ...workspace.ID) (map[workspace.ID]struct{}, error) {
	return list(ctx, r, "Volumes", r.volumes, ids)
}

// Jobs lists storage jobs.
func (r *Runtime) Jobs(ctx context.Context, ids ...workspace.ID) (map[workspace.ID][]workspace.Job, error) {
	jobs, err := list(ctx, r, "Jobs", r.jobs, ids)
	for id, js := range jobs {
		jobs[id] = append([]workspace.Job(nil), js...)
	}
	return jobs, err
}

func list[V any](ctx context.Context, r *Runtime, method string, all map[workspace.ID]V, ids []workspace.ID) (map[workspace.ID]V, error) {
	if err := r.before(ctx, method, ""); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make(map[workspace.ID]V)
	if len(ids) == 0 {
		for id, v := range all {
			out[id] = v
		}
	}
	for _, id := range ids {
		if v, ok := all[id]; ok {
			out[id] = v
		}
	}
	return out, nil
}

// Start makes the container run.
func (r *Runtime) Start(ctx context.Context, spec runtime.StartSpec) error {
	if err := r.before(ctx, "Start", spec.ID); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.volumes[spec.ID]; !ok {
		return workspace.Fail(workspace.ReasonContainerWithoutVolume, fmt.Errorf("starting %s: its volume does not exist", spec.ID))
	}
	if k, ok := r.containers[spec.ID]; ok && k.Running {
		return nil
	}
	k := workspace.Container{Running: true, Ready: true, Endpoint: "127.0.0.1:1", StartedAt: time.Now(), Volume: true}
	if r.Container != nil {
		k = r.Container(spec)
	}
	r.containers[spec.ID] = k
	r.changed(spec.ID)
	return nil
}

// Exit ends the container by itself.
func (r *Runtime) Exit(id workspace.ID, code int, lasted time.Duration, output string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	r.containers[id] = workspace.Container{ExitCode: code, StartedAt: now.Add(-lasted), FinishedAt: now, Volume: true}
	r.logs[id] = output
	r.changed(id)
}

// LoseVolume makes the volume vanish, container and all.
func (r *Runtime) LoseVolume(id workspace.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.volumes, id)
	delete(r.containers, id)
	r.changed(id)
}

// Delete removes the container.
func (r *Runtime) Delete(ctx context.Context, id workspace.ID) error {
	if err := r.before(ctx, "Delete", id); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.containers, id)
	r.changed(id)
	return nil
}

// Provision creates the volume.
func (r *Runtime) Provision(ctx context.Context, id workspace.ID) error {
	if err := r.before(ctx, "Provision", id); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.volumes[id] = struct{}{}
	r.changed(id)
	return nil
}

// DeleteVolume removes the volume, unless something holds it.
func (r *Runtime) DeleteVolume(ctx context.Context, id workspace.ID) error {
	if err := r.before(ctx, "DeleteVolume", id); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, held := r.containers[id]; held || len(r.jobs[id]) > 0 {
		return fmt.Errorf("deleting volume %s: it is in use", id.VolumeName())
	}
	delete(r.volumes, id)
	r.changed(id)
	return nil
}

// StartJob starts a storage job, whose work goes on beside the caller.
func (r *Runtime) StartJob(ctx context.Context, spec runtime.JobSpec) error {
	if err := r.before(ctx, "StartJob", spec.ID); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, j := range r.jobs[spec.ID] {
		if j.Kind == spec.Kind && j.OpID == spec.OpID {
			return nil
		}
	}
	if _, ok := r.volumes[spec.ID]; !ok {
		return fmt.Errorf("starting a job for %s: its volume does not exist", spec.ID)
	}
	if _, ok := r.containers[spec.ID]; ok {
		return fmt.Errorf("starting a job for %s: its container exists", spec.ID)
	}
	r.jobs[spec.ID] = append(r.jobs[spec.ID], workspace.Job{Kind: spec.Kind, OpID: spec.OpID, State: workspace.JobRunning})
	r.changed(spec.ID)
	r.wg.Go(func() {
		var size int64
		var err error
		if r.Work != nil {
			size, err = r.Work(spec)
		}
		r.endJob(spec, size, err)
	})
	return nil
}

func (r *Runtime) endJob(spec runtime.JobSpec, size int64, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.jobs[spec.ID] {
		if j := &r.jobs[spec.ID][i]; j.Kind == spec.Kind && j.OpID == spec.OpID {
			j.State, j.Size = workspace.JobSucceeded, size
			if err != nil {
				j.State, j.Reason, j.Message = workspace.JobFailed, workspace.ReasonOf(err), err.Error()
			}
		}
	}
	r.changed(spec.ID)
}

// DeleteJobs removes the workspace's jobs.
func (r *Runtime) DeleteJobs(ctx context.Context, id workspace.ID) error {
	if err := r.before(ctx, "DeleteJobs", id); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.jobs, id)
	r.changed(id)
	return nil
}

// Logs returns the container's last lines.
func (r *Runtime) Logs(ctx context.Context, id workspace.ID, lines int) (string, error) {
	if err := r.before(ctx, "Logs", id); err != nil {
		return "", err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.containers[id]; !ok {
		return "", runtime.ErrNotFound
	}
	all := strings.Split(strings.TrimRight(r.logs[id], "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n"), nil
}

// Events sends the ids of workspaces that change.
func (r *Runtime) Events(ctx context.Context) (<-chan workspace.ID, error) {
	if err := r.before(ctx, "Events", ""); err != nil {
		return nil, err
	}
	in, out := make(chan workspace.ID, 64), make(chan workspace.ID)
	r.mu.Lock()
	r.watchers[in] = struct{}{}
	r.mu.Unlock()
	r.wg.Go(func() {
		defer close(out)
		defer func() {
			r.mu.Lock()
			delete(r.watchers, in)
			r.mu.Unlock()
		}()
		for {
			select {
			case id := <-in:
				select {
				case out <- id:
				case <-ctx.Done():
					return
				}
			case <-ctx.Done():
				return
			}
		}
	})
	return out, nil
}

// Close waits for the jobs and event streams that were begun.
func (r *Runtime) Close() error {
	r.wg.Wait()
	return nil
}

// ErrRefused is what tests let a method return.
var ErrRefused = errors.New("refused for a test")

var _ runtime.Runtime = (*Runtime)(nil)
