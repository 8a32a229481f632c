// Package ending asks the programs of a container to end before the container is removed (SPEC 7).
//
// It owns the order, the signals and the waits. It must not remove anything, nor decide which containers end.
package ending

import (
	"context"
	_ "embed"
	"io"
	"strconv"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/codehub/gateway/coordinator/backend/docker/engine"
)

// script ends the programs outside the application's session.
//
//go:embed end.sh
var script string

// Ender asks the programs of an engine's containers to end. It is safe for concurrent use.
type Ender struct{ api *engine.Client }

// New returns an Ender for that engine's containers. It performs no I/O.
func New(api *engine.Client) Ender { return Ender{api} }

// forRemoval is how much of the caller's time Ask leaves for the removal of the container.
const forRemoval = 10 * time.Second

// Ask asks the programs of a running container to end. It returns when none of them runs any more, or after the grace
// period at the latest. It returns early enough for the caller to remove the container before ctx ends. First it asks
// programs in sessions other than the application's, such as daemons and programs in terminals. They and their shells
// have two thirds of the time. Then the application gets the stop signal of its image, and ends its own processes. When
// the application has ended, the engine kills everything else.
//
// Ask reports no errors: the caller removes the container in any case.
func (e Ender) Ask(ctx context.Context, c *container.InspectResponse, grace time.Duration) {
	if until, ok := ctx.Deadline(); ok {
		grace = min(grace, time.Until(until)-forRemoval)
	}
	if grace <= 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	if e.hasOtherSessions(ctx, c) {
		e.endOtherSessions(ctx, c.ID, grace)
	}
	// The engine counts whole seconds. If this client stops waiting earlier, the engine waits on, which does no harm.
	limit := int(grace/time.Second) + 1
	_ = e.api.ContainerStop(ctx, c.ID, container.StopOptions{Timeout: &limit})
}

// hasOtherSessions reports whether any program in the container runs in a session other than the one of the container's
// first process. If that is unknown, it returns false.
func (e Ender) hasOtherSessions(ctx context.Context, c *container.InspectResponse) bool {
	top, err := e.api.ContainerTop(ctx, c.ID, []string{"-eo", "pid,sid"})
	if err != nil {
		return false
	}
	first := ""
	for _, p := range top.Processes {
		if len(p) == 2 && p[0] == strconv.Itoa(c.State.Pid) {
			first = p[1]
		}
	}
	for _, p := range top.Processes {
		if first != "" && len(p) == 2 && p[1] != first {
			return true
		}
	}
	return false
}

// endOtherSessions runs the script in the container. It does nothing if the image has no shell.
func (e Ender) endOtherSessions(ctx context.Context, containerID string, grace time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, grace*2/3)
	defer cancel()
	const tick = time.Second / 100 // the script's unit
	made, err := e.api.ContainerExecCreate(ctx, containerID, container.ExecOptions{AttachStdout: true, Cmd: []string{
		"sh", "-c", script, "end", strconv.Itoa(int(grace / 2 / tick)), strconv.Itoa(int(grace * 2 / 3 / tick)),
	}})
	if err != nil {
		return
	}
	output, err := e.api.ContainerExecAttach(ctx, made.ID, container.ExecAttachOptions{})
	if err != nil {
		return
	}
	defer output.Close()
	defer context.AfterFunc(ctx, output.Close)()
	_, _ = io.Copy(io.Discard, output.Reader) // the script prints nothing, and closes its output when it ends
}
