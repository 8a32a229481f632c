package sandbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/docker/engine"
	"github.com/codehub/gateway/coordinator/backend/docker/internal/status"
	"github.com/codehub/gateway/coordinator/backend/docker/spec"
	"github.com/codehub/gateway/coordinator/guard"
	"github.com/codehub/gateway/coordinator/workspace"
)

const (
	// keepLimit bounds how long the work for one sleeping workspace may take once its turn has come.
	keepLimit = time.Minute
	// renewAfter is the age at which a sandbox is too old: no container joins it any more, and it is replaced when its
	// workspace goes to sleep. Its files contain the name servers from the time of its creation.
	renewAfter = 12 * time.Hour
	// unfinished is the age at which the process that creates a sandbox is assumed dead.
	unfinished = 5 * time.Minute
)

// Sandboxes are an installation's sandboxes. They are safe for concurrent use, even by several processes.
type Sandboxes struct {
	api  *engine.Client
	opts spec.Options
	// homes lists the home volumes, and network returns the id of the workspaces' network.
	homes   func(ctx context.Context, ids ...workspace.ID) (map[workspace.ID]workspace.Volume, error)
	network func(ctx context.Context) (string, error)

	ctx     context.Context // ends with Close
	close   context.CancelFunc
	working sync.WaitGroup

	mu sync.Mutex // guards the fields below
	// waiting are the tasks that have not begun, the newest last. going holds these tasks and the one in progress, by
	// workspace.
	waiting []*task
	going   map[workspace.ID]*task
	busy    bool
}

// task is the work for a workspace that went to sleep.
type task struct {
	ctx   context.Context
	id    workspace.ID
	c     *container.InspectResponse
	begun bool
	done  chan struct{} // closed when the task has ended, if it began
}

// New returns the sandboxes of the installation that the options name. The options must have their defaults. It
// performs no I/O.
func New(api *engine.Client, o spec.Options, homes func(context.Context, ...workspace.ID) (map[workspace.ID]workspace.Volume, error),
	network func(context.Context) (string, error)) *Sandboxes {
	ctx, cancel := context.WithCancel(context.Background())
	return &Sandboxes{
		api: api, opts: o, homes: homes, network: network, ctx: ctx, close: cancel, going: map[workspace.ID]*task{},
	}
}

// Close cancels the work in progress and waits for it. The sandboxes stay.
func (s *Sandboxes) Close() {
	s.mu.Lock()
	s.close()
	s.mu.Unlock()
	s.working.Wait()
}

// Find returns the running sandbox of the workspace, or nil if there is none. It waits for a sandbox that is being
// created, and cancels one whose turn has not come.
func (s *Sandboxes) Find(ctx context.Context, id workspace.ID) (*Sandbox, error) {
	if err := s.settle(ctx, id); err != nil {
		return nil, err
	}
	v, err := s.look(ctx, id)
	if err != nil {
		return nil, err
	}
	var found *Sandbox
	for _, b := range v.of(id) { // there is rarely more than one
		if b.running && (v.used[b.ID] || found == nil && !b.retired) {
			found = &b
		}
	}
	return found, nil
}

// Discard removes the sandboxes of the workspace, unless its container has joined them.
func (s *Sandboxes) Discard(ctx context.Context, id workspace.ID) error {
	if err := s.settle(ctx, id); err != nil {
		return err
	}
	v, err := s.look(ctx, id)
	for _, b := range v.of(id) {
		if err == nil && !v.used[b.ID] {
			_, err = s.retire(ctx, b)
		}
	}
	return err
}

// Gone reports whether a container cannot or must not join a sandbox: the sandbox no longer runs, or is being removed.
// A caller that lets a container join calls Gone between creating and starting the container: see retire.
func (s *Sandboxes) Gone(ctx context.Context, id workspace.ID, box *Sandbox) (bool, error) {
	now, err := s.Find(ctx, id)
	return err == nil && (now == nil || now.ID != box.ID || now.retired), err
}

// Vacate is called when the engine has refused to start a container. If the container needs something that the sandbox
// of a sleeping workspace has (an address, a port, or a place in the network), Vacate removes that sandbox and returns
// true. If a place is needed, the workspace that has slept longest loses its sandbox. A running workspace has priority.
func (s *Sandboxes) Vacate(ctx context.Context, c spec.Container, refused error) (vacated bool) {
	full := engine.NetworkFull.Is(refused)
	if !full && !errors.Is(status.ExplainAddress(refused), backend.ErrAddressInUse) {
		return false
	}
	v, err := s.look(ctx)
	if err != nil {
		return false
	}
	sleeping := v.sleeping()
	if full && len(sleeping) > 0 {
		vacated, _ = s.retire(ctx, sleeping[len(sleeping)-1])
		return vacated
	}
	for _, b := range sleeping {
		if b.has(c) {
			removed, _ := s.retire(ctx, b)
			vacated = vacated || removed
		}
	}
	return vacated
}

// Slept keeps, in the background, the network of a workspace whose container has just been removed. c is the container
// as it was before. If this fails, the next start takes longer. The network of a container that did not run is not
// kept: the next container gets a new network in any case.
//
// It creates one sandbox at a time, because users' starts need the engine more. The workspace that went to sleep last
// comes first, because its sandbox stays longest.
func (s *Sandboxes) Slept(ctx context.Context, id workspace.ID, c *container.InspectResponse) {
	t := &task{ctx: context.WithoutCancel(ctx), id: id, c: c, done: make(chan struct{})} // keeps the leader's lease
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil || s.going[id] != nil {
		return
	}
	s.going[id] = t
	s.waiting = append(s.waiting, t)
	if len(s.waiting) > max(s.opts.Warm, 1) {
		s.drop(s.waiting[0])
	}
	if !s.busy {
		s.busy = true
		s.working.Go(func() {
			for t := s.next(); t != nil; t = s.next() {
				guard.Run("keeping a network", func() { s.do(t) }) // a kept network only saves time
			}
		})
	}
}

// next takes the next task. It returns nil if another goroutine has taken over the work.
func (s *Sandboxes) next() *task {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := len(s.waiting) - 1
	if last < 0 || s.ctx.Err() != nil {
		s.busy = false
		return nil
	}
	t := s.waiting[last]
	s.waiting, t.begun = s.waiting[:last], true
	return t
}

func (s *Sandboxes) do(t *task) {
	ctx, cancel := context.WithTimeout(t.ctx, keepLimit)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	err := s.keep(ctx, t.id, t.c)
	s.mu.Lock()
	delete(s.going, t.id)
	close(t.done) // a start of this workspace need not wait for the removal of others
	s.mu.Unlock()
	err = errors.Join(err, s.trim(ctx))
	// If some are left over, they are removed when the next workspace goes to sleep. Another leader keeps networks, too.
	if s.opts.Kept != nil && !errors.Is(err, backend.ErrLeaseLapsed) {
		s.opts.Kept(s.ctx, err)
	}
}

// drop cancels a task that has not begun; mu is held.
func (s *Sandboxes) drop(t *task) {
	s.waiting = slices.DeleteFunc(s.waiting, func(other *task) bool { return other == t })
	delete(s.going, t.id)
}

// settle returns once no background work for the workspace is left.
func (s *Sandboxes) settle(ctx context.Context, id workspace.ID) error {
	s.mu.Lock()
	t := s.going[id]
	if t != nil && !t.begun {
		s.drop(t)
		t = nil
	}
	s.mu.Unlock()
	if t == nil {
		return nil
	}
	select {
	case <-t.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// keep creates a sandbox for the workspace. If the workspace has one already, keep renames it to record that the
// workspace sleeps again.
func (s *Sandboxes) keep(ctx context.Context, id workspace.ID, c *container.InspectResponse) error {
	v, err := s.look(ctx, id)
	if err != nil {
		return err
	}
	now, err := s.api.Now(ctx)
	if err != nil {
		return err
	}
	wanted := s.opts.Warm > 0 && c.State != nil && c.State.Running
	like := c
	for _, b := range v.of(id) {
		if wanted && b.running && b.ID == Joins(c.HostConfig.NetworkMode) {
			if !b.retired && now.Sub(b.created) < renewAfter {
				return engine.Wrap("naming a sandbox", s.api.ContainerRename(ctx, b.ID, spec.SandboxName(id, now)))
			}
			box, err := s.api.ContainerInspect(ctx, b.ID)
			if err != nil {
				return engine.Wrap("inspecting a sandbox", err)
			}
			like = &box
		}
		if removed, err := s.retire(ctx, b); err != nil || !removed {
			return err // or another process runs it again
		}
	}
	if !wanted || Joins(like.HostConfig.NetworkMode) != "" {
		return nil
	}
	return s.make(ctx, id, spec.SandboxName(id, now), spec.Sandbox(s.opts, id, spec.Inspected(like)))
}

// make creates and starts a sandbox. It removes a sandbox that cannot start because something else has its address, and
// one whose workspace no longer has a home.
func (s *Sandboxes) make(ctx context.Context, id workspace.ID, name string, c spec.Container) (err error) {
	image, err := s.api.ImageInspect(ctx, s.opts.JobImage)
	if err != nil {
		return engine.Wrap("inspecting the image of a sandbox", err)
	}
	program, err := Program(image.Architecture)
	if err != nil {
		return err
	}
	if program == nil {
		return fmt.Errorf("no program for sandboxes on %q processors: set the warm option of Docker to 0", image.Architecture)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	// Wait for the answer even if ctx ends: the engine might still carry out the request, and leave a container that
	// nobody knows of.
	detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), engine.AnswerLimit)
	made, err := s.api.ContainerCreate(detached, c.Config, c.Host, c.Network, nil, name)
	cancel()
	if err != nil {
		return engine.Wrap("creating a sandbox", err)
	}
	stays := false
	defer func() {
		if !stays {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), engine.AnswerLimit)
			defer cancel()
			err = errors.Join(err, s.remove(ctx, made.ID))
		}
	}()
	if err := s.api.CopyToContainer(ctx, made.ID, "/", program, container.CopyToContainerOptions{}); err != nil {
		return engine.Wrap("putting the program into a sandbox", err)
	}
	if err := s.api.ContainerStart(ctx, made.ID, container.StartOptions{}); err != nil {
		return engine.Wrap("starting a sandbox", err)
	}
	homes, err := s.homes(ctx, id)
	_, stays = homes[id]
	return err
}

// trim removes the sandboxes above the limit. It also removes those that no container will join, because their
// workspace has no home, they are on another network, or they do not run.
func (s *Sandboxes) trim(ctx context.Context) error {
	v, err := s.look(ctx)
	if err != nil || len(v.boxes) == 0 {
		return err
	}
	homes, err := s.homes(ctx)
	if err != nil {
		return err
	}
	network, err := s.network(ctx)
	if err != nil {
		return err
	}
	now, err := s.api.Now(ctx)
	if err != nil {
		return err
	}
	kept := map[workspace.ID]bool{}
	for _, b := range v.sleeping() {
		_, home := homes[b.of]
		young := now.Sub(b.created) < unfinished
		switch {
		case !b.running && young: // another process is creating it
		case b.running && !b.retired && home && b.network == network && !kept[b.of] && len(kept) < s.opts.Warm:
			kept[b.of] = true
		default:
			_, failed := s.retire(ctx, b)
			err = errors.Join(err, failed)
		}
	}
	return err
}
