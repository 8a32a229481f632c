package workspaces

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"

	"github.com/coder/websocket"
	"github.com/spf13/cobra"
	"golang.org/x/sync/semaphore"

	v1 "github.com/codehub/gateway/caddymodule/internal/api/v1"
	"github.com/codehub/gateway/caddymodule/internal/command/remote"
	"github.com/codehub/gateway/coordinator/guard"
	"github.com/codehub/gateway/coordinator/workspace"
)

// exitLost is the exit code of exec if the command did not run, or if it is unknown how it ended. ssh uses the same
// code.
const exitLost = 255

func execCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "exec WORKSPACE [--] COMMAND [ARGUMENT...]", Short: "Runs a command in a running workspace",
		Long: `Runs a command in the container of a running workspace of yours, as the container's user. A workspace that
dozes goes on first; with --wake one that sleeps is started first. A shell takes several: sh -c '…'.

Standard input is the command's, and ends when it ends here. What the command prints is printed here, byte for byte. Where a
script reads its own input in a loop, add --stdin=false. With -t the command runs in a terminal, for
example a shell or an editor: every key goes to it, and closing the window hangs up. That needs env and sh in the workspace.

Flags of exec stand before the workspace. What follows the workspace is the command; -- may stand between them.

The exit code is the command's, 126 or 127 where it cannot be started, and 255 when it did not run or its end is
not known. A command without a terminal whose caller ends goes on, and its input ends.`,
		Example: `  $ caddy codehub workspace exec --wake thesis -- make -C src
  $ caddy codehub workspace exec -t thesis bash
  $ tar -cz src | caddy codehub workspace exec thesis tar -xz
  $ caddy codehub workspace exec thesis tar -cz src > src.tgz`,
	}
	cmd.Flags().SetInterspersed(false) // the arguments after the workspace are the command's
	tty := cmd.Flags().BoolP("tty", "t", false, "run the command in a terminal")
	stdin := cmd.Flags().BoolP("stdin", "i", true, "pass standard input to the command")
	wake := wakeFlag(cmd)
	cmd.ValidArgsFunction = completeNames(false)
	var e execution
	return remote.Only(cmd, func(args []string) (err error) {
		e = execution{stdout: cmd.OutOrStdout(), stderr: cmd.ErrOrStderr()}
		if *stdin {
			e.stdin = cmd.InOrStdin()
		}
		if e.command, err = commandOf(args); err != nil || !*tty {
			return err
		}
		if !*stdin {
			return errors.New("-t passes what is typed: leave --stdin=false out")
		}
		e.terminal, err = terminalOf(cmd)
		return err
	}, func(ctx context.Context, c *remote.Client, args []string) error {
		p := server{c}
		w, err := p.find(ctx, args[0], false)
		if err == nil && *wake {
			w, err = p.wake(ctx, cmd, w)
		}
		var code int
		if err == nil {
			code, err = p.exec(ctx, w.ID, e)
		}
		switch {
		case err != nil:
			return &remote.ExitError{Code: exitLost, Err: err}
		case code != 0:
			return &remote.ExitError{Code: code}
		}
		return nil
	})
}

// commandOf returns the words of the command, which follow the workspace.
func commandOf(args []string) ([]string, error) {
	switch {
	case len(args) > 1 && args[1] == "--":
		args = args[1:]
	case len(args) > 1 && strings.HasPrefix(args[1], "-"):
		return nil, fmt.Errorf("%s stands where the command begins: flags of exec stand before the workspace, "+
			"and a command that begins with - stands after --", args[1])
	}
	if len(args) < 2 {
		return nil, errors.New("write a workspace, and a command to run there")
	}
	return args[1:], nil
}

// execution is the client side of a command in a workspace.
type execution struct {
	command        []string
	stdin          io.Reader // nil for none
	stdout, stderr io.Writer
	terminal       *terminal // nil for none
}

// exec runs a command in a workspace, and returns its exit code. It may read a little more input than the command
// takes.
func (p server) exec(ctx context.Context, id workspace.ID, e execution) (int, error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	conn, err := p.Socket(ctx, pathOf(id, "/exec"), v1.ExecProtocol)
	if err != nil {
		return 0, err
	}
	defer conn.CloseNow()
	start := v1.ExecStart{Stdin: e.stdin != nil}
	for i := range e.command {
		start.Command = append(start.Command, &e.command[i])
	}
	if e.terminal != nil {
		restore, err := e.terminal.raw()
		if err != nil {
			return 0, err
		}
		defer restore()
		changes, stop := resized()
		defer stop()
		start.Terminal = e.terminal.size()
		go guard.Run("watching the terminal's size", func() {
			for {
				select {
				case <-changes:
					_ = tell(ctx, conn, v1.ExecResize{Terminal: e.terminal.size()})
				case <-ctx.Done():
					return
				}
			}
		})
	}
	if err := tell(ctx, conn, start); err != nil {
		return 0, err
	}
	in := &inputWindow{free: semaphore.NewWeighted(v1.ExecWindow)}
	if e.stdin != nil {
		go guard.Run("passing standard input", func() {
			if err := in.send(ctx, conn, e.stdin); err != nil {
				end(fmt.Errorf("passing standard input: %w", err))
			}
		})
	}
	code, err := e.receive(ctx, conn, in)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return code, err
}

// receive handles the server's messages until the command has ended.
func (e execution) receive(ctx context.Context, conn *websocket.Conn, in *inputWindow) (int, error) {
	for {
		kind, message, err := conn.Read(ctx)
		if err != nil {
			return 0, fmt.Errorf("the connection has ended before the command: %w", err)
		}
		switch {
		case kind == websocket.MessageText:
			var said v1.ExecSaid
			if err := json.Unmarshal(message, &said); err != nil {
				return 0, fmt.Errorf("reading what the server says: %w", err)
			}
			switch {
			case said.Problem != nil:
				return 0, said.Problem
			case said.ExitCode != nil:
				return *said.ExitCode, nil
			}
			err = in.taken(said.Taken)
		case len(message) > 0 && message[0] == v1.ExecStdout:
			_, err = e.stdout.Write(message[1:])
		case len(message) > 0 && message[0] == v1.ExecStderr:
			_, err = e.stderr.Write(message[1:])
		}
		if err != nil {
			return 0, err
		}
	}
}

// tell sends a text message.
func tell(ctx context.Context, conn *websocket.Conn, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return conn.Write(ctx, websocket.MessageText, text)
}

// inputWindow bounds the input that the command has not taken yet.
type inputWindow struct {
	free *semaphore.Weighted
	away atomic.Int64 // input that was sent but not taken yet
}

// send sends input and its end. It returns an error if it cannot read the input.
func (w *inputWindow) send(ctx context.Context, conn *websocket.Conn, in io.Reader) error {
	for message := []byte{v1.ExecStdin, v1.ExecPiece: 0}; ; {
		n, err := in.Read(message[1:])
		if n > 0 {
			if w.free.Acquire(ctx, int64(n)) != nil {
				return nil // the command has ended
			}
			w.away.Add(int64(n))
			if conn.Write(ctx, websocket.MessageBinary, message[:1+n]) != nil {
				return nil // which the reader notices, too
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			_ = conn.Write(ctx, websocket.MessageBinary, []byte{v1.ExecClose, v1.ExecStdin})
			return nil
		case err != nil:
			return err
		}
	}
}

// taken makes room for n bytes that the command has taken.
func (w *inputWindow) taken(n int) error {
	if n < 0 || w.away.Add(int64(-n)) < 0 {
		return errors.New("the server takes more input than there is")
	}
	w.free.Release(int64(n))
	return nil
}
