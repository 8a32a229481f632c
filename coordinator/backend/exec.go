package backend

import (
	"context"
	"io"

	"github.com/codehub/gateway/coordinator/workspace"
)

// Executor runs commands in workspaces' containers, for the people whose workspaces they are. The
// controller never calls it.
type Executor interface {
	// Exec runs a command in the workspace's running container, as the container's user and in its folder,
	// with no terminal and no input. It writes what the command prints as it comes, from one goroutine. Output
	// that is not taken holds the command up. It MUST NOT be buffered without a bound. Exec returns the exit
	// code: 126 or 127 for a command that cannot be started, and then what is printed says why.
	//
	// If no container runs, the error is [ErrNotFound], and if it is frozen, [ErrFrozen]. A command that runs
	// when its container freezes goes on after the thaw, and so does Exec. Any other error says that it is not known how the
	// command ends. When ctx ends, Exec returns soon. The command goes on then: no engine can end it.
	Exec(ctx context.Context, id workspace.ID, command []string, stdout, stderr io.Writer) (exitCode int, err error)
}

// NotStarted is the exit code of a command that cannot be started, as shells have it.
const NotStarted = 127
