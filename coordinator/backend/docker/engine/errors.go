package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api"
	"github.com/docker/docker/client"

	"github.com/codehub/gateway/coordinator/workspace"
)

// Wrap adds what was being done, and the reason Unreachable if the engine did not
// answer, also when the caller's time for it was over. A context that was cancelled says
// nothing about the engine and gets no reason. Wrap returns nil for a nil error.
func Wrap(doing string, err error) error {
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%s: %w", doing, err)
	var failed *net.OpError
	// A reset connection means that the engine stopped or restarted during the call. One that
	// is stopping has closed the database of its volumes, and answers still. The client uses
	// its newest version when the engine did not answer the question for its own.
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, context.DeadlineExceeded):
		return workspace.Fail(workspace.ReasonUnreachable,
			fmt.Errorf("the Docker engine did not answer in time: %w", err))
	case strings.Contains(err.Error(), "no space left on device"):
		return fmt.Errorf("the Docker engine's disk is full; free space there, for example with `docker "+
			"image prune`: %w", err)
	case client.IsErrConnectionFailed(err), errdefs.IsUnavailable(err), errors.As(err, &failed),
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		strings.HasSuffix(err.Error(), ": database not open"),
		errdefs.IsInvalidArgument(err) && strings.Contains(err.Error(), "client version "+api.DefaultVersion+
			" is too new"):
		return workspace.Fail(workspace.ReasonUnreachable, err)
	}
	return err
}

// Answered reports whether err concerns one object alone: the engine did answer. Then
// only what is known of that object is missing (SPEC 2).
func Answered(ctx context.Context, err error) bool {
	return ctx.Err() == nil && !errors.Is(err, context.Canceled) &&
		workspace.ReasonOf(err) != workspace.ReasonUnreachable
}

// NotOurs is the error for an object of another owner with the name that is needed (SPEC
// 12.8).
func NotOurs(what, name string) error {
	return fmt.Errorf("%s %s exists without this installation's labels and is left alone; its name is needed", what,
		name)
}
