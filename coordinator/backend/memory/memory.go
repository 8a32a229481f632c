// Package memory is a container runtime that exists only in this process. It
// passes the conformance suite of package backendtest, so that tests of the
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

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Engine holds the containers, volumes and jobs of all installations.
type Engine struct {
	mu         sync.Mutex // guards what follows
	containers map[workspace.ID]*container
	volumes    map[workspace.ID]string // whose they are
	jobs       map[workspace.ID][]*job
	watchers   map[chan workspace.ID]string // whose events they get

	wg sync.WaitGroup
}

type container struct {
	owner string
	state workspace.Container
	logs  string
}

type job struct {
	owner string
	state workspace.Job
	kill  context.CancelFunc
}

// NewEngine returns an empty engine.
func NewEngine() *Engine {
	return &Engine{
		containers: make(map[workspace.ID]*container),
		volumes:    make(map[workspace.ID]string),
		jobs:       make(map[workspace.ID][]*job),
		watchers:   make(map[chan workspace.ID]string),
	}
}

// Close kills the jobs and waits for them and for the event streams, whose
// contexts must have ended.
func (e *Engine) Close() {
	e.mu.Lock()
	for _, all := range e.jobs {
		for _, j := range all {
			j.kill()
		}
	}
	e.mu.Unlock()
	e.wg.Wait()
}

// Backend is one installation's view of an engine.
type Backend struct {
	// Before, when set, is called before each method with its name; an error is
	// returned instead of doing anything. It may block. Set it before use.
	Before func(ctx context.Context, method string, id workspace.ID) error
	// Work is what a storage job does, while it is listed as running; ctx ends when
	// the job is killed. Its error is the job's failure. Nil means nothing,
	// successfully.
	Work func(ctx context.Context, spec backend.JobSpec) (size int64, err error)
	// Container is what a container is made of; the default runs and is ready at
	// once. Its error is that of Start.
	Container func(spec backend.StartSpec) (workspace.Container, error)

	*Engine
	owner string
	alone bool
}

// New returns the only runtime of an engine of its own.
func New() *Backend {
	r := NewEngine().Backend("memory")
	r.alone = true
	return r
}

// Backend returns a view of that installation. Two of one installation are like
// two processes.
func (e *Engine) Backend(installation string) *Backend {
	return &Backend{Engine: e, owner: installation}
}

func (r *Backend) before(ctx context.Context, method string, id workspace.ID) error {
	if r.Before != nil {
		if err := r.Before(ctx, method, id); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// begin is before for what changes one workspace.
func (r *Backend) begin(ctx context.Context, method string, id workspace.ID) error {
	if _, err := workspace.ParseID(string(id)); err != nil {
		return fmt.Errorf("workspace %q: %w", id, err)
	}
	return r.before(ctx, method, id)
}

// changed tells the owner's watchers; the caller holds the lock.
func (e *Engine) changed(owner string, id workspace.ID) {
	for w, whose := range e.watchers {
		if whose != owner {
			continue
		}
		select {
		case w <- id:
		default: // events may be lost
		}
	}
}

// container returns the workspace's own; somebody else's is an error that names
// it. The caller holds the lock.
func (r *Backend) container(id workspace.ID) (*container, error) {
	k := r.containers[id]
	if k != nil && k.owner != r.owner {
		return nil, fmt.Errorf("the name of container %s is taken", id.ContainerName())
	}
	return k, nil
}

// home reports whether the workspace's own volume exists, in the same way.
func (r *Backend) home(id workspace.ID) (bool, error) {
	owner, ok := r.volumes[id]
	if ok && owner != r.owner {
		return false, fmt.Errorf("the name of volume %s is taken", id.VolumeName())
	}
	return ok, nil
}

func withoutHome(id workspace.ID) error {
	return workspace.Fail(workspace.ReasonContainerWithoutVolume, fmt.Errorf("volume %s does not exist", id.VolumeName()))
}

// Containers lists containers.
func (r *Backend) Containers(ctx context.Context, ids ...workspace.ID) (map[workspace.ID]workspace.Container, error) {
	return list(ctx, r, "Containers", r.containers, ids, func(k *container) (workspace.Container, bool) {
		return k.state, k.owner == r.owner
	})
}

// Volumes lists volumes.
func (r *Backend) Volumes(ctx context.Context, ids ...workspace.ID) (map[workspace.ID]struct{}, error) {
	return list(ctx, r, "Volumes", r.volumes, ids, func(owner string) (struct{}, bool) {
		return struct{}{}, owner == r.owner
	})
}

// Jobs lists storage jobs.
func (r *Backend) Jobs(ctx context.Context, ids ...workspace.ID) (map[workspace.ID][]workspace.Job, error) {
	return list(ctx, r, "Jobs", r.jobs, ids, func(all []*job) (own []workspace.Job, ok bool) {
		for _, j := range all {
			if j.owner == r.owner {
				own = append(own, j.state)
			}
		}
		return own, len(own) > 0
	})
}

// list returns those of all, or of ids, that own says are the caller's.
func list[V, W any](ctx context.Context, r *Backend, method string, all map[workspace.ID]V, ids []workspace.ID,
	own func(V) (W, bool)) (map[workspace.ID]W, error) {
	if err := r.before(ctx, method, ""); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make(map[workspace.ID]W)
	add := func(id workspace.ID, v V) {
		if w, ok := own(v); ok {
			out[id] = w
		}
	}
	if len(ids) == 0 {
		for id, v := range all {
			add(id, v)
		}
	}
	for _, id := range ids {
		if v, ok := all[id]; ok {
			add(id, v)
		}
	}
	return out, nil
}

// Start makes the container run.
func (r *Backend) Start(ctx context.Context, spec backend.StartSpec) error {
	if err := r.begin(ctx, "Start", spec.ID); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	present, err := r.container(spec.ID)
	if err != nil {
		return err
	}
	if present != nil && present.state.Running {
		return nil
	}
	if there, err := r.home(spec.ID); err != nil {
		return err
	} else if !there {
		return withoutHome(spec.ID)
	}
	for _, j := range r.jobs[spec.ID] {
		if j.state.State == workspace.JobRunning {
			return fmt.Errorf("starting %s: a storage job uses its volume", spec.ID)
		}
	}
	state := workspace.Container{Running: true, Ready: true, Endpoint: "127.0.0.1:1", StartedAt: time.Now(), Volume: true}
	if r.Container != nil {
		if state, err = r.Container(spec); err != nil {
			return err
		}
	}
	r.containers[spec.ID] = &container{owner: r.owner, state: state}
	r.changed(r.owner, spec.ID)
	return nil
}

// Print is output of the container.
func (r *Backend) Print(id workspace.ID, output string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if k := r.containers[id]; k != nil {
		k.logs += output
	}
}

// Exit ends the container by itself, with its last output.
func (r *Backend) Exit(id workspace.ID, code int, lasted time.Duration, output string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.containers[id]
	if k == nil {
		return
	}
	now := time.Now()
	k.state = workspace.Container{ExitCode: code, StartedAt: now.Add(-lasted), FinishedAt: now, Volume: true}
	k.logs += output
	r.changed(r.owner, id)
}

// LoseVolume makes the volume vanish, container and all.
func (r *Backend) LoseVolume(id workspace.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.volumes, id)
	delete(r.containers, id)
	r.changed(r.owner, id)
}

// Delete removes the container.
func (r *Backend) Delete(ctx context.Context, id workspace.ID) error {
	if err := r.begin(ctx, "Delete", id); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err := r.container(id); err != nil {
		return err
	}
	delete(r.containers, id)
	r.changed(r.owner, id)
	return nil
}

// Provision creates the volume.
func (r *Backend) Provision(ctx context.Context, id workspace.ID) error {
	if err := r.begin(ctx, "Provision", id); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err := r.home(id); err != nil {
		return err
	}
	r.volumes[id] = r.owner
	r.changed(r.owner, id)
	return nil
}

// DeleteVolume removes the volume, unless something holds it.
func (r *Backend) DeleteVolume(ctx context.Context, id workspace.ID) error {
	if err := r.begin(ctx, "DeleteVolume", id); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if there, err := r.home(id); err != nil || !there {
		return err
	}
	if r.containers[id] != nil || len(r.jobs[id]) > 0 {
		return fmt.Errorf("deleting volume %s: %w", id.VolumeName(), backend.ErrVolumeInUse)
	}
	delete(r.volumes, id)
	r.changed(r.owner, id)
	return nil
}

// Logs returns the container's last lines.
func (r *Backend) Logs(ctx context.Context, id workspace.ID, lines int) (string, error) {
	if err := r.begin(ctx, "Logs", id); err != nil {
		return "", err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	k, err := r.container(id)
	if err != nil || k == nil {
		return "", fmt.Errorf("container %s: %w", id.ContainerName(), backend.ErrNotFound)
	}
	all := strings.SplitAfter(strings.TrimSuffix(k.logs, "\n"), "\n")
	text := strings.Join(all[max(0, len(all)-lines):], "")
	if strings.HasSuffix(k.logs, "\n") && text != "" {
		text += "\n"
	}
	return text, nil
}

// Events sends the ids of workspaces that change.
func (r *Backend) Events(ctx context.Context) (<-chan workspace.ID, error) {
	if err := r.before(ctx, "Events", ""); err != nil {
		return nil, err
	}
	in, out := make(chan workspace.ID, 64), make(chan workspace.ID)
	r.mu.Lock()
	r.watchers[in] = r.owner
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

// Close ends the engine if this runtime was made with it, and changes nothing
// otherwise.
func (r *Backend) Close() error {
	if r.alone {
		r.Engine.Close()
	}
	return nil
}

// ErrRefused is what tests let a method return.
var ErrRefused = errors.New("refused for a test")

var _ backend.Backend = (*Backend)(nil)
