package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/client"

	"github.com/codehub/gateway/coordinator/workspace"
)

// Wrap adds to an error what the caller was doing. If the engine did not answer at all, or not before the caller's
// deadline, it also adds the reason Unreachable. A cancelled context says nothing about the engine, so its error gets
// no reason. Wrap returns nil for a nil error.
func Wrap(doing string, err error) error {
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%s: %w", doing, err)
	var failed *net.OpError
	// A reset connection means that the engine stopped or restarted during the call.
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, context.DeadlineExceeded):
		return workspace.Fail(workspace.ReasonUnreachable,
			fmt.Errorf("the Docker engine did not answer in time: %w", err))
	case diskFull.Is(err):
		return fmt.Errorf("the Docker engine's disk is full; free space there, for example with `docker "+
			"image prune`: %w", err)
	case client.IsErrConnectionFailed(err), errdefs.IsUnavailable(err), errors.As(err, &failed),
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		stopping.Is(err), unversioned.Is(err):
		return workspace.Fail(workspace.ReasonUnreachable, err)
	}
	return err
}

// Answered reports whether err concerns one object alone: the engine has answered, so that only the state of that
// object is unknown (SPEC 2).
func Answered(ctx context.Context, err error) bool {
	return ctx.Err() == nil && !errors.Is(err, context.Canceled) &&
		workspace.ReasonOf(err) != workspace.ReasonUnreachable
}
