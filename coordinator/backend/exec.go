package backend

import (
	"context"
	"io"

	"github.com/codehub/gateway/coordinator/workspace"
)

// Executor runs commands in workspaces' containers, for the people whose workspaces they are. The
// controller never calls it.
type Executor interface {
	// Exec runs a command in the workspace's running container, as the container's user and in its folder.
	// It writes what the command prints as it comes, from one goroutine. Output
	// that is not taken holds the command up. It MUST NOT be buffered without a bound. Exec returns the exit
	// code: 126 or 127 for a command that cannot be started, and then what is printed says why.
	//
	// If no container runs, the error is [ErrNotFound], and if it is frozen, [ErrFrozen]; nothing of the
	// command's input was read then. A command that runs
	// when its container freezes goes on after the thaw, and so does Exec. Any other error says that it is not known how the
	// command ends. When ctx ends, Exec returns soon, and the command's input ends. The command goes on then: no engine can end it.
	Exec(ctx context.Context, id workspace.ID, c Command, stdout, stderr io.Writer) (exitCode int, err error)
}

// Command is what [Executor.Exec] runs.
type Command struct {
	// Words are its program and the arguments.
	Words []string
	// Stdin is its input; nil for none. It is read as fast as the command takes it, and MUST NOT be buffered
	// without a bound. Its end ends the command's input, while the output goes on; the input of a terminal has no
	// end. Exec may return while a Read is in progress, which the caller has to end.
	Stdin io.Reader
	// Terminal is the terminal in which it runs; nil for none. Its output is that of stdout.
	Terminal *Terminal
}

// Terminal is a person's terminal.
type Terminal struct {
	// Type is what TERM is set to; empty leaves that to the engine.
	Type string
	// Size is how large it is in the beginning, and Resized sends each further size; nil if there is none.
	Size    Size
	Resized <-chan Size
}

// Size is how many characters a terminal shows.
type Size struct{ Columns, Rows uint16 }

// NotStarted is the exit code of a command that cannot be started, as shells have it.
const NotStarted = 127
