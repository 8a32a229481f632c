package docker

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/docker/engine"
	"github.com/codehub/gateway/coordinator/backend/docker/spec"
	"github.com/codehub/gateway/coordinator/workspace"
)

// execPoll is how often the engine is asked whether a command has ended that prints no more.
const execPoll = 50 * time.Millisecond

// Exec implements [backend.Core].
func (d *Docker) Exec(ctx context.Context, id workspace.ID, command []string, stdout, stderr io.Writer) (int, error) {
	if err := backend.CheckID(id); err != nil {
		return 0, err
	}
	name := id.ContainerName()
	c, err := d.inspect(ctx, name)
	if err != nil {
		return 0, err
	}
	if c == nil || !d.opts.Owns(c.Config.Labels, id, spec.KindWorkspace) || c.State == nil || !c.State.Running {
		return 0, fmt.Errorf("container %s: %w", name, backend.ErrNotFound)
	}
	doing := "running a command in container " + name
	made, err := d.api.ContainerExecCreate(ctx, c.ID, container.ExecOptions{
		Cmd: command, AttachStdout: true, AttachStderr: true,
	})
	if err != nil {
		return 0, engine.Wrap(doing, err)
	}
	output, err := d.api.ContainerExecAttach(ctx, made.ID, container.ExecAttachOptions{})
	if err != nil {
		return 0, engine.Wrap(doing, err)
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
