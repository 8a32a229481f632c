package docker

import (
	"context"
	"io"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/codehub/gateway/coordinator/backend/docker/engine"
	"github.com/codehub/gateway/coordinator/workspace"
)

// execPoll is how often the engine is asked whether a command has ended that prints no more.
const execPoll = 50 * time.Millisecond

// Exec implements [backend.Core].
func (d *Docker) Exec(ctx context.Context, id workspace.ID, command []string, stdout, stderr io.Writer) (int, error) {
	c, err := d.awake(ctx, id)
	if err != nil {
		return 0, err
	}
	return d.exec(ctx, id, c.ID, "running a command in container "+id.ContainerName(), command, stdout, stderr)
}

// exec runs a command in the workspace's container, which runs. doing begins its errors.
func (d *Docker) exec(
	ctx context.Context, id workspace.ID, containerID, doing string, command []string, stdout, stderr io.Writer,
) (int, error) {
	made, err := d.api.ContainerExecCreate(ctx, containerID, container.ExecOptions{
		Cmd: command, AttachStdout: true, AttachStderr: true,
	})
	if err != nil {
		return 0, d.orFrozen(ctx, id, engine.Wrap(doing, err))
	}
	output, err := d.api.ContainerExecAttach(ctx, made.ID, container.ExecAttachOptions{})
	if err != nil {
		return 0, d.orFrozen(ctx, id, engine.Wrap(doing, err))
	}
	defer output.Close()
	defer context.AfterFunc(ctx, output.Close)()
	if _, err := stdcopy.StdCopy(stdout, stderr, output.Reader); err != nil || ctx.Err() != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return 0, engine.Wrap(doing, err)
	}
	tick := time.NewTicker(execPoll)
	defer tick.Stop()
	for {
		e, err := d.api.ContainerExecInspect(ctx, made.ID)
		if err != nil {
			return 0, engine.Wrap(doing, err)
		}
		if !e.Running {
			return e.ExitCode, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return 0, engine.Wrap(doing, ctx.Err())
		}
	}
}
