package coordinator

import (
	"context"
	"io"

	"github.com/codehub/gateway/coordinator/workspace"
)

// Exec runs a command in the container of a workspace, as [backend.Executor] says, and counts what it prints as use.
// The caller has found out whose the workspace is.
func (c *Coordinator) Exec(ctx context.Context, id workspace.ID, command []string, stdout, stderr io.Writer) (
	exitCode int, err error) {
	slot := c.activity.Slot(id)
	slot.Touch()
	return c.backend.Exec(ctx, id, command, used{stdout, slot.Touch}, used{stderr, slot.Touch})
}

// used counts everything that is written as use.
type used struct {
	io.Writer
	touch func()
}

// Write implements [io.Writer].
func (u used) Write(p []byte) (int, error) {
	u.touch()
	return u.Writer.Write(p)
}
