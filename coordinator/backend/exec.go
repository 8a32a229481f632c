package backend

import (
	"context"
	"io"

	"github.com/codehub/gateway/coordinator/workspace"
)

// Executor runs commands in workspaces' containers, for the workspaces' users. The controller never calls it.
type Executor interface {
	// Exec runs a command in the workspace's running container, as the container's user and in its folder. It writes
	// the output as it comes, from one goroutine. A slow writer slows the command down; output MUST NOT be buffered
	// without a bound. Exec returns the exit code. If the command cannot start, that is 126 or 127, and the output
	// contains the reason.
	//
	// If no container runs, the error is [ErrNotFound]. If the container is frozen, the error is [ErrFrozen]. In both
	// cases Exec has read none of the input. If the container is frozen while the command runs, the command and Exec
	// resume after the thaw. Any other error means that the command's end is unknown. When ctx ends, Exec returns soon,
	// and the command's input ends. The command keeps running, because no engine can end it.
	Exec(ctx context.Context, id workspace.ID, c Command, stdout, stderr io.Writer) (exitCode int, err error)
}

// Command is a command for [Executor.Exec].
type Command struct {
	// Words are the program and its arguments.
	Words []string
	// Stdin is the command's input, or nil. Exec reads it as fast as the command does, and MUST NOT buffer it without a
	// bound. When Stdin ends, the command's input ends, and its output continues. The input of a terminal does not end.
	// Exec may return while a Read is in progress; the caller must then end that Read.
	Stdin io.Reader
	// Terminal is the terminal in which the command runs, or nil. Its output goes to stdout.
	Terminal *Terminal
}

// Terminal is a user's terminal.
type Terminal struct {
	// Type is the value of TERM; empty lets the engine choose.
	Type string
	// Size is the initial size. Resized sends each further size; it is nil if there is none.
	Size    Size
	Resized <-chan Size
}

// Size is the size of a terminal in characters.
type Size struct{ Columns, Rows uint16 }

// NotStarted is the exit code of a command that cannot start, as in shells.
const NotStarted = 127
