package sandbox

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/codehub/gateway/coordinator/backend/docker/engine"
	"github.com/codehub/gateway/coordinator/backend/docker/spec"
	"github.com/codehub/gateway/coordinator/workspace"
)

const (
	// keepLimit bounds what is done when a workspace went to sleep, once it is its turn.
	keepLimit = time.Minute
	// renewAfter is the age from which a sandbox is replaced when its workspace goes to sleep: name servers, and what the
	// engine has written of them into its files, are those of the time when it was made.
	renewAfter = 12 * time.Hour
	// unfinished is the age from which the process that creates a sandbox is taken for dead.
	unfinished = 5 * time.Minute
)

// Sandboxes are those of an installation. They are safe for concurrent use, also by several processes.
type Sandboxes struct {
	api  *engine.Client
	opts spec.Options
	// homes lists the home volumes, and network returns the id of the workspaces' network.
	homes   func(ctx context.Context, ids ...workspace.ID) (map[workspace.ID]workspace.Volume, error)
	network func(ctx context.Context) (string, error)

	ctx     context.Context // ends with Close
	close   context.CancelFunc
	working sync.WaitGroup
	turn    chan struct{} // held while a sandbox is made: people's starts need the engine more

	mu    sync.Mutex // guards what follows
	going map[workspace.ID]*task
}

// task is what is to be done for a workspace that went to sleep.
type task struct {
	cancel context.CancelFunc
	begun  bool
	done   chan struct{}
}

// New returns the sandboxes of the installation that the options name, which have their defaults. It performs no
// I/O.
func New(api *engine.Client, o spec.Options, homes func(context.Context, ...workspace.ID) (map[workspace.ID]workspace.Volume, error),
	network func(context.Context) (string, error)) *Sandboxes {
	ctx, cancel := context.WithCancel(context.Background())
	return &Sandboxes{
		api: api, opts: o, homes: homes, network: network, ctx: ctx, close: cancel, turn: make(chan struct{}, 1),
		going: map[workspace.ID]*task{},
	}
}

// Close ends what is going on, and waits for that. The sandboxes stay.
func (s *Sandboxes) Close() {
	s.mu.Lock()
	s.close()
	s.mu.Unlock()
	s.working.Wait()
}

// Find returns the sandbox of the workspace, or nil if none runs. One that is being made is waited for; one whose turn
// has not come will not be made.
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
		if b.running && (found == nil || v.used[b.ID]) {
			found = &b
		}
	}
	return found, nil
}

// Release removes the sandboxes of the workspace, unless its container has joined them.
func (s *Sandboxes) Release(ctx context.Context, id workspace.ID) error {
	if err := s.settle(ctx, id); err != nil {
		return err
	}
	v, err := s.look(ctx, id)
	for _, b := range v.of(id) {
		if err == nil && !v.used[b.ID] {
			err = s.remove(ctx, b.ID)
		}
	}
	return err
}

// Vacate removes sandboxes of workspaces that sleep so that one with that description can start: those that have its
// address or port or, if the network is full, the one whose workspace has slept longest. It reports whether any was
// removed.
func (s *Sandboxes) Vacate(ctx context.Context, c spec.Container, full bool) (removed bool, err error) {
	v, err := s.look(ctx)
	if err != nil {
		return false, err
	}
	sleeping := v.sleeping()
	if full && len(sleeping) > 0 {
		return true, s.remove(ctx, sleeping[len(sleeping)-1].ID)
	}
	for _, b := range sleeping {
		if err == nil && b.has(c) {
			removed, err = true, s.remove(ctx, b.ID)
		}
	}
	return removed, err
}

// Slept keeps the network of a workspace whose container has just been removed, in the background; c is what the engine
// said of it before. Where that cannot be done the next start takes longer. The network of one that did not run is not
// kept: whatever has ended it, it starts afresh.
func (s *Sandboxes) Slept(ctx context.Context, id workspace.ID, c *container.InspectResponse) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // with the leader's lease
	stop := context.AfterFunc(s.ctx, cancel)
	t := &task{cancel: cancel, done: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil || s.going[id] != nil {
		stop()
		cancel()
		return
	}
	s.going[id] = t
	s.working.Go(func() {
		defer cancel()
		defer stop()
		defer s.end(id, t)
		select {
		case s.turn <- struct{}{}:
			defer func() { <-s.turn }()
		case <-ctx.Done():
			return
		}
		if !s.begin(ctx, t) {
			return
		}
		ctx, cancel := context.WithTimeout(ctx, keepLimit)
		defer cancel()
		// Nobody waits for the outcome, and the next one that sleeps finds what is left.
		_ = errors.Join(s.keep(ctx, id, c), s.trim(ctx))
	})
}

// begin reports whether the task is still wanted. From then on others wait for its end.
func (s *Sandboxes) begin(ctx context.Context, t *task) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.begun = ctx.Err() == nil
	return t.begun
}

func (s *Sandboxes) end(id workspace.ID, t *task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.going, id)
	close(t.done)
}

// settle returns when nothing is done for the workspace in the background.
func (s *Sandboxes) settle(ctx context.Context, id workspace.ID) error {
	s.mu.Lock()
	t := s.going[id]
	if t != nil && !t.begun {
		t.cancel()
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

// keep makes the sandbox of the workspace, or notes in its name that the workspace sleeps again.
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
			if now.Sub(b.created) < renewAfter {
				return engine.Wrap("naming a sandbox", s.api.ContainerRename(ctx, b.ID, spec.SandboxName(id, now)))
			}
			box, err := s.api.ContainerInspect(ctx, b.ID)
			if err != nil {
				return engine.Wrap("inspecting a sandbox", err)
			}
			like = &box
		}
		if err := s.remove(ctx, b.ID); err != nil {
			return err
		}
	}
	if !wanted || Joins(like.HostConfig.NetworkMode) != "" {
		return nil
	}
	return s.make(ctx, id, spec.SandboxName(id, now), spec.Sandbox(s.opts, id, spec.Inspected(like)))
}

// make creates and starts a sandbox. One that cannot be started is removed: something else has its address. So is one
// whose workspace has no home any more.
func (s *Sandboxes) make(ctx context.Context, id workspace.ID, name string, c spec.Container) (err error) {
	image, err := s.api.ImageInspect(ctx, s.opts.JobImage)
	if err != nil {
		return engine.Wrap("inspecting the image of a sandbox", err)
	}
	m, ok := machines[image.Architecture]
	if !ok {
		return nil
	}
	program, err := m.packed()
	if err != nil {
		return err
	}
	made, err := s.api.ContainerCreate(ctx, c.Config, c.Host, c.Network, nil, name)
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

// trim removes the sandboxes that are too many, or that no container will join: of workspaces without a home, on
// another network, or that do not run.
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
		case !b.running && young: // another process is making it
		case b.running && home && b.network == network && !kept[b.of] && len(kept) < s.opts.Warm:
			kept[b.of] = true
		default:
			err = errors.Join(err, s.remove(ctx, b.ID))
		}
	}
	return err
}
