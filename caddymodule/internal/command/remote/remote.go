package remote

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"

	"github.com/spf13/cobra"

	"github.com/codehub/gateway/caddymodule/internal/command"
	"github.com/codehub/gateway/caddymodule/internal/problem"
)

// The exit codes for refusals of a server; see the help of `caddy codehub`.
const (
	exitFailed     = 1
	exitNotAllowed = 3
	exitNotFound   = 4
	exitNotNow     = 5
)

// UnknownError means that a name does not identify one of the person's things: none has this name, or several have.
type UnknownError struct{ Text string }

// Error implements error.
func (e *UnknownError) Error() string { return e.Text }

// ExitError ends the command with its own exit code. Without Err the command prints nothing.
type ExitError struct {
	Code int
	Err  error
}

// Error implements error.
func (e *ExitError) Error() string { return fmt.Sprintf("exit code %d: %v", e.Code, e.Err) }

// exitCode returns the exit code for an error of a command at a server.
func exitCode(err error) int {
	var p *problem.Problem
	var unknown *UnknownError
	switch {
	case errors.Is(err, errNoLogin):
		return exitNotAllowed
	case errors.As(err, &unknown):
		return exitNotFound
	case !errors.As(err, &p):
		return exitFailed
	}
	switch p.Status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return exitNotAllowed
	case http.StatusNotFound, http.StatusGone:
		return exitNotFound
	case http.StatusConflict, http.StatusPreconditionFailed, http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return exitNotNow
	}
	return exitFailed
}

// Action is the work of a command at a server.
type Action func(ctx context.Context, c *Client, args []string) error

// run calls the action, and turns its error into an exit code.
func run(cmd *cobra.Command, action Action, c *Client, args []string) error {
	err := action(cmd.Context(), c, args)
	var exit *ExitError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &exit):
		return command.Fail(cmd, exitCode(err), err)
	case exit.Err != nil:
		return command.Fail(cmd, exit.Code, exit.Err)
	}
	return command.Exit(cmd, exit.Code)
}

// Only makes cmd a command that works at the server where the person is signed in.
func Only(cmd *cobra.Command, usage func(args []string) error, action Action) *cobra.Command {
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := usage(args); err != nil {
			return command.Usage(cmd, err)
		}
		c, err := current(cmd.Context())
		if err != nil {
			return command.Fail(cmd, exitCode(err), err)
		}
		return run(cmd, action, c, args)
	}
	return cmd
}

// Or changes a command for the installation's own servers so that it can also work at the server where the person is
// signed in. It works there if the person is signed in, and the command line names no configuration.
func Or(cmd *cobra.Command, usage func(args []string) error, action Action) *cobra.Command {
	installation := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		for _, flag := range []string{"config", "adapter", "database"} {
			if cmd.Flags().Changed(flag) {
				return installation(cmd, args)
			}
		}
		c, err := current(cmd.Context())
		switch {
		case errors.Is(err, errNoLogin) && usage(args) == nil && !hasConfiguration(cmd):
			return command.Fail(cmd, exitCode(err), fmt.Errorf(
				"%w; for an installation's own servers, name its configuration with --config", err))
		case errors.Is(err, errNoLogin):
			return installation(cmd, args)
		case err != nil:
			return command.Fail(cmd, exitFailed, err)
		}
		if err := usage(args); err != nil {
			return command.Usage(cmd, err)
		}
		return run(cmd, action, c, args)
	}
	return cmd
}

// hasConfiguration reports whether the default configuration exists.
func hasConfiguration(cmd *cobra.Command) bool {
	flag := cmd.Flags().Lookup("config")
	if flag == nil {
		return false
	}
	_, err := os.Stat(flag.DefValue)
	return err == nil
}

// Current returns a client for the server where the person is signed in, or nil.
func Current(ctx context.Context) *Client {
	c, err := current(ctx)
	if err != nil {
		return nil
	}
	return c
}
