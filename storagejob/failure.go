package main

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/codehub/gateway/storagejob/contract"
	"github.com/codehub/gateway/storagejob/internal/encryption"
	"github.com/codehub/gateway/storagejob/internal/object"
	"github.com/codehub/gateway/storagejob/internal/tree"
)

// errUsage marks mistakes in the command line and the environment. A retry with the same command line and environment
// fails again.
var errUsage = errors.New("usage")

// exitCode returns the exit code for an error; package contract explains the codes. The order matters for errors with
// several causes. An interrupted job reports no other cause. Store errors come before content errors, because a broken
// connection also breaks the archive that is being read.
func exitCode(err error) int {
	var refused *tree.RefusedError
	switch {
	case err == nil:
		return contract.ExitOK
	case errors.Is(err, errUsage):
		return contract.ExitUsage
	case errors.Is(err, context.Canceled), errors.Is(err, errInterrupted):
		return contract.ExitInterrupted
	case errors.Is(err, object.ErrUnreachable):
		return contract.ExitUnreachable
	case errors.Is(err, object.ErrMissing):
		return contract.ExitMissing
	case errors.Is(err, tree.ErrOccupied), errors.Is(err, tree.ErrUnfinished):
		return contract.ExitOccupied
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return contract.ExitDiskFull
	case errors.Is(err, encryption.ErrLocked):
		return contract.ExitLocked
	case errors.Is(err, tree.ErrCorrupt), errors.Is(err, contract.ErrMalformedMeta):
		return contract.ExitCorrupted
	case errors.As(err, &refused):
		return contract.ExitRefused
	default:
		return contract.ExitOther
	}
}
