package workspaces

import (
	"context"
	"encoding/json"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/codehub/gateway/caddymodule/internal/command/remote"
	"github.com/codehub/gateway/caddymodule/internal/problem"
)

// exitLost is the exit code of exec when the command did not run, or its end is not known, as that of ssh.
const exitLost = 255

func execCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "exec WORKSPACE COMMAND [ARGUMENT...]", Short: "Runs a command in a running workspace",
		Long: `Runs a command in the container of a running workspace of yours, as the container's user, without a terminal and
without input. A workspace that dozes goes on first. What it prints is printed here. A shell takes several: sh -c '…'. What is no UTF-8 is
not printed as it is; base64 helps.

The exit code is the command's, 126 or 127 where it cannot be started, and 255 when it did not run or its end is
not known. A command whose caller ends goes on.`,
		Example: `  $ caddy codehub workspace exec thesis make -C src
  $ caddy codehub workspace exec thesis sh -c 'tar c src | base64' | base64 -d > src.tar`,
	}
	cmd.Flags().SetInterspersed(false) // what follows the workspace is the command's
	cmd.ValidArgsFunction = completeNames(false)
	return remote.Only(cmd, func(args []string) error {
		if len(args) < 2 {
			return errors.New("write a workspace, and a command to run there")
		}
		return nil
	}, func(ctx context.Context, c *remote.Client, args []string) error {
		code, err := server{c}.exec(ctx, args[0], args[1:], cmd.OutOrStdout(), cmd.ErrOrStderr())
		switch {
		case err != nil:
			return &remote.ExitError{Code: exitLost, Err: err}
		case code != 0:
			return &remote.ExitError{Code: code}
		}
		return nil
	})
}

// exec runs a command in the workspace that a person names, and returns its exit code.
func (p server) exec(ctx context.Context, named string, command []string, stdout, stderr io.Writer) (int, error) {
	w, err := p.find(ctx, named, false)
	if err != nil {
		return 0, err
	}
	var code *int
	err = p.Lines(ctx, pathOf(w.ID, "/exec"), map[string]any{"command": command}, func(line json.RawMessage) error {
		var said struct {
			Stdout, Stderr string
			ExitCode       *int `json:"exit_code"`
			Problem        *problem.Problem
		}
		if err := json.Unmarshal(line, &said); err != nil {
			return err
		}
		if said.Problem != nil {
			return said.Problem
		}
		code = said.ExitCode
		_, err := io.WriteString(stdout, said.Stdout)
		_, more := io.WriteString(stderr, said.Stderr)
		return errors.Join(err, more)
	})
	if err == nil && code == nil {
		err = errors.New("the answer has ended before the command")
	}
	if err != nil {
		return 0, err
	}
	return *code, nil
}
