// Package ending asks the programs of a container to end before the container is removed (SPEC 7).
//
// It owns which program is asked when, by which signal, and for how long it is waited for. It must not
// remove anything, nor decide which containers end.
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

// script ends the programs that are not the application's own.
//
//go:embed end.sh
var script string

// Ask asks the programs of a running container to end, and returns when none runs any more, at the latest after
// the grace period. It asks those of other sessions than the application's first: programs in terminals, and daemons. They and their
// shells have two thirds of the time. The application has the rest: it is asked by the signal that its image declares, and ends
// what belongs to it. With its end the engine kills what is left.
//
// Ask reports no errors: a container that cannot be asked is removed like one that does not listen.
func Ask(ctx context.Context, api *engine.Client, c *container.InspectResponse, grace time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	if hasOtherSessions(ctx, api, c) {
		endOtherSessions(ctx, api, c.ID, grace)
	}
	// The engine counts whole seconds. It goes on to wait when it is not listened to any more, and does no harm.
	limit := int(grace/time.Second) + 1
	_ = api.ContainerStop(ctx, c.ID, container.StopOptions{Timeout: &limit})
}

// hasOtherSessions reports whether anything runs in the container in another session than that of its first process.
// What cannot be found out is none.
func hasOtherSessions(ctx context.Context, api *engine.Client, c *container.InspectResponse) bool {
	top, err := api.ContainerTop(ctx, c.ID, []string{"-eo", "pid,sid"})
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

// endOtherSessions runs the script in the container. Without a shell in the image it does nothing.
func endOtherSessions(ctx context.Context, api *engine.Client, containerID string, grace time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, grace*2/3)
	defer cancel()
	const tick = time.Second / 100 // of the script
	made, err := api.ContainerExecCreate(ctx, containerID, container.ExecOptions{AttachStdout: true, Cmd: []string{
		"sh", "-c", script, "end", strconv.Itoa(int(grace / 2 / tick)), strconv.Itoa(int(grace * 2 / 3 / tick)),
	}})
	if err != nil {
		return
	}
	output, err := api.ContainerExecAttach(ctx, made.ID, container.ExecAttachOptions{})
	if err != nil {
		return
	}
	defer output.Close()
	defer context.AfterFunc(ctx, output.Close)()
	_, _ = io.Copy(io.Discard, output.Reader) // it prints nothing, and closes its output when it ends
}
