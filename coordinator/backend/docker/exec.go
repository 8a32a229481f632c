package docker

import (
	"context"
	"io"
	"time"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/docker/engine"
	"github.com/codehub/gateway/coordinator/guard"
	"github.com/codehub/gateway/coordinator/workspace"
)

// execPoll is how often the engine is asked whether a command that has closed its output has ended.
const execPoll = 50 * time.Millisecond

// Exec implements [backend.Core].
func (d *Docker) Exec(ctx context.Context, id workspace.ID, command backend.Command, stdout, stderr io.Writer) (int, error) {
	c, err := d.awake(ctx, id)
	if err != nil {
		return 0, err
	}
	return d.exec(ctx, id, c.ID, "running a command in container "+id.ContainerName(), command, stdout, stderr)
}

// exec runs a command in the workspace's running container. Its errors begin with doing.
func (d *Docker) exec(
	ctx context.Context, id workspace.ID, containerID, doing string, command backend.Command, stdout, stderr io.Writer,
) (int, error) {
	ctx, ended := context.WithCancel(ctx)
	defer ended()
	options := container.ExecOptions{
		Cmd: command.Words, AttachStdin: command.Stdin != nil, AttachStdout: true, AttachStderr: true,
	}
	var attach container.ExecAttachOptions
	if t := command.Terminal; t != nil {
		size := [2]uint{uint(t.Size.Rows), uint(t.Size.Columns)}
		options.Tty, options.ConsoleSize = true, &size
		attach.Tty, attach.ConsoleSize = true, &size
	}
	made, err := d.api.ContainerExecCreate(ctx, containerID, options)
	if err != nil {
		return 0, d.orFrozen(ctx, id, engine.Wrap(doing, err))
	}
	attached, err := d.api.ContainerExecAttach(ctx, made.ID, attach)
	if err != nil {
		return 0, d.orFrozen(ctx, id, engine.Wrap(doing, err))
	}
	defer attached.Close()
	defer context.AfterFunc(ctx, attached.Close)()
	if command.Stdin != nil {
		go guard.Run("passing input to a command", func() { input(attached, command) })
	}
	if t := command.Terminal; t != nil {
		go guard.Run("resizing a terminal", func() { d.resize(ctx, made.ID, t) })
		_, err = io.Copy(stdout, attached.Reader)
	} else {
		_, err = stdcopy.StdCopy(stdout, stderr, attached.Reader)
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		return 0, engine.Wrap(doing, err)
	}
	return d.exitCode(ctx, made.ID, doing)
}

// input sends the command's input, and its end. It stops when the connection does; input that the command no longer
// reads is lost.
func input(attached types.HijackedResponse, command backend.Command) {
	_, _ = io.Copy(attached.Conn, command.Stdin)
	if command.Terminal == nil {
		_ = attached.CloseWrite()
	}
}

// resize sends a terminal's sizes, including the first: engines before API 1.42 accept no size when a command starts. A
// size that the engine refuses, perhaps because the command has just ended, is ignored.
func (d *Docker) resize(ctx context.Context, execID string, t *backend.Terminal) {
	for size := t.Size; ; {
		_ = d.api.ContainerExecResize(ctx, execID, container.ResizeOptions{Width: uint(size.Columns), Height: uint(size.Rows)})
		select {
		case size = <-t.Resized:
		case <-ctx.Done():
			return
		}
	}
}

// exitCode waits for the end of a command that has closed its output.
func (d *Docker) exitCode(ctx context.Context, execID, doing string) (int, error) {
	tick := time.NewTicker(execPoll)
	defer tick.Stop()
	for {
		e, err := d.api.ContainerExecInspect(ctx, execID)
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
