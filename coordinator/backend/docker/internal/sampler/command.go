package sampler

import (
	"context"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"github.com/codehub/gateway/coordinator/internal/work"
	"github.com/codehub/gateway/coordinator/workspace"
)

const (
	// askLimit bounds the command that an image names. The engine cannot kill a command that takes longer. Until that
	// command has ended, no other one is started.
	askLimit = 5 * time.Second
	askEvery = 50 * time.Millisecond
)

// askImage runs the command in the container, as its user, and reports whether it exits with 0. The output is
// discarded.
func (s *Sampler) askImage(ctx context.Context, of workspace.ID, containerID, command string) (work.Answer, error) {
	running, ok := s.asked.Get(of, containerID)
	if !ok {
		e, err := s.api.ContainerExecCreate(ctx, containerID, container.ExecOptions{
			Cmd: []string{"/bin/sh", "-c", command},
		})
		if err != nil {
			return work.NoAnswer, err
		}
		if err := s.api.ContainerExecStart(ctx, e.ID, container.ExecStartOptions{Detach: true}); err != nil {
			// An image without a shell gives no answer either.
			if errdefs.IsInvalidArgument(err) || errdefs.IsInternal(err) {
				return work.NoAnswer, nil
			}
			return work.NoAnswer, err
		}
		running = e.ID
		s.asked.Put(of, containerID, running)
	}
	limit := time.NewTimer(askLimit)
	defer limit.Stop()
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		e, err := s.api.ContainerExecInspect(ctx, running)
		if errdefs.IsNotFound(err) { // the engine has forgotten it
			s.asked.Drop(of, containerID)
			return work.NoAnswer, nil
		}
		if err != nil {
			return work.NoAnswer, err
		}
		if !e.Running {
			s.asked.Drop(of, containerID)
			if e.ExitCode == 0 {
				return work.Busy, nil
			}
			return work.Idle, nil
		}
		select {
		case <-tick.C:
		case <-limit.C:
			return work.NoAnswer, nil
		case <-ctx.Done():
			return work.NoAnswer, ctx.Err()
		}
	}
}
