package backend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"

	"github.com/codehub/gateway/coordinator/workspace"
)

// hangUpTimeout bounds how long a terminal takes to hang up.
const hangUpTimeout = 10 * time.Second

// terminalVariable is in the environment of programs in a terminal, with a unique value for each terminal.
const terminalVariable = "CODEHUB_TERMINAL"

// hangUp does what the kernel does when a terminal hangs up: it signals the process that leads the terminal's session,
// and those in the foreground. The leader is the process that the engine started: its parent is outside the container.
// The parents of programs that tmux or screen started are inside the container, so these programs keep running.
const hangUp = `for file in $(grep -ls "` + terminalVariable + `=$1" /proc/[0-9]*/environ); do
	pid=${file#/proc/}
	pid=${pid%/environ}
	read -r line 2>/dev/null < "/proc/$pid/stat" || continue
	set -- "$1" ${line##*) }
	[ "$3" = 0 ] && [ "$5" = "$pid" ] && [ "$6" != 0 ] || continue
	[ "$7" -gt 0 ] && kill -HUP "-$7" && kill -CONT "-$7"
	kill -HUP "$pid" && kill -CONT "$pid"
done
exit 0`

// ExecInTerminal is [Executor.Exec] for a command with a terminal. If ctx ends before the command, it hangs up the
// terminal, because no engine does that by itself. It needs env, sh and grep in the container. Without them the command
// does not start, and the output says so.
func ExecInTerminal(ctx context.Context, e Executor, id workspace.ID, c Command, out io.Writer) (exitCode int, err error) {
	name := uuid.NewString()
	words := []string{"env", terminalVariable + "=" + name}
	if c.Terminal.Type != "" {
		words = append(words, "TERM="+c.Terminal.Type)
	}
	// The program env would mistake a command with an equals sign for a variable, and one that begins with a minus for
	// its own option.
	c.Words = append(append(words, "sh", "-c", `exec "$@"`, "sh"), c.Words...)
	code, err := e.Exec(ctx, id, c, out, io.Discard)
	if err == nil || errors.Is(err, ErrNotFound) || errors.Is(err, ErrFrozen) {
		return code, err
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), hangUpTimeout)
	defer cancel()
	_, failed := e.Exec(ending, id, Command{Words: []string{"sh", "-c", hangUp, "sh", name}}, io.Discard, io.Discard)
	if failed != nil && !errors.Is(failed, ErrNotFound) {
		err = errors.Join(err, fmt.Errorf("hanging up a terminal: %w", failed))
	}
	return code, err
}
